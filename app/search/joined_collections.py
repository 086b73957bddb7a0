"""Resolves a request's collections and joins several into one, if the model in use embedded them alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.errors import (
    DamagedIndexError,
    EngineFaultError,
    FingerprintMismatchError,
    UnknownCollectionError,
    VectorIndexUnavailableError,
)
from app.ports.catalog import SearchedCatalog
from app.ports.parts import Embedder, Soundness
from app.search.fingerprints import require_same_model
from app.search.joined_indexes import joined_name
from app.types.documents import Collection
from app.types.search import ALL_COLLECTIONS, SearchRequest, SearchResult


@dataclass(frozen=True, slots=True)
class ResolvedCollections:
    """The resolved collections of a request: joined as one `collection`, and its `parts`. `notes` name the collections
    that were left out, and why."""

    collection: Collection
    parts: tuple[Collection, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> Mapping[str, str]:
        """Names of the collections, by physical index."""
        return {part.active_index: part.name for part in self.parts}


def resolve_collections(
    catalog: SearchedCatalog, embedder: Embedder, soundness: Soundness, search: SearchRequest | SearchResult
) -> ResolvedCollections:
    """Resolves the collections that a search, or its result, names.

    ALL_COLLECTIONS means all of them; `among` limits it. Collections of other models, embedded in another way than the
    majority, or damaged are left out, with a note.

    Raises UnknownCollectionError; FingerprintMismatchError if the model in use wrote none of them; DamagedIndexError if
    only damaged ones remain.
    """
    if search.collection != ALL_COLLECTIONS:
        one = catalog.collection(search.collection)
        require_same_model(one, embedder)
        soundness.require_sound(one)
        return ResolvedCollections(one, (one,))
    found = [one for one in catalog.uncounted_collections() if search.among is None or one.name in search.among]
    if not found:
        raise UnknownCollectionError(ALL_COLLECTIONS, [])
    own = [collection for collection in found if collection.fingerprint == embedder.info.fingerprint]
    if not own:
        raise FingerprintMismatchError(
            f"All {len(found)} collections were written by other models than the one in use, {embedder.info.name}; "
            "their vectors cannot be compared. Start with one of those models, or `gircse reindex` a collection."
        )
    alike = _alike(own)
    sound, damaged = _sound(alike, soundness)
    name = joined_name([collection.active_index for collection in sound])
    left_out = [collection.name for collection in found if collection not in alike]
    whole = replace(sound[0], name=ALL_COLLECTIONS, active_index=name)
    return ResolvedCollections(whole, tuple(sound), tuple(_notes(left_out, damaged)))


def mapped_fault(
    resolved: ResolvedCollections, soundness: Soundness, fault: EngineFaultError
) -> VectorIndexUnavailableError:
    """The error to raise instead of the engine's `fault`: the error of the first damaged collection, else `fault`."""
    mapped = [soundness.map_fault(part, fault) for part in resolved.parts]
    return next((error for error in mapped if error is not fault), fault)


def _alike(collections: Sequence[Collection]) -> list[Collection]:
    """The largest group with the same document instruction and steps."""
    ways = Counter((one.document_instruction, one.document_steps) for one in collections)
    [(most, _)] = ways.most_common(1)
    return [one for one in collections if (one.document_instruction, one.document_steps) == most]


def _sound(collections: Sequence[Collection], soundness: Soundness) -> tuple[list[Collection], list[DamagedIndexError]]:
    """Splits into sound collections and errors. Raises the first DamagedIndexError if none is sound."""
    sound, damaged = [], []
    for collection in collections:
        try:
            soundness.require_sound(collection)
            sound.append(collection)
        except DamagedIndexError as error:
            damaged.append(error)
    if not sound:
        raise damaged[0]
    return sound, damaged


def _notes(left_out: Sequence[str], damaged: Sequence[DamagedIndexError]) -> Iterator[str]:
    if left_out:
        yield (
            f"Not searched, since their chunks were embedded in another way: {', '.join(left_out)}. Search them one by "
            "one, or give them the same model and document instruction with `gircse reindex`."
        )
    for error in damaged:
        yield f"Not searched: {error}"
