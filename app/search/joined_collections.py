"""Several collections searched as one: those of the model in use whose chunks were embedded alike."""

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
class Searched:
    """What a request looks in: as one collection, and the collections that it is made of. `notes` name those that
    cannot be searched with them."""

    collection: Collection
    parts: tuple[Collection, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> Mapping[str, str]:
        """Of the collections, by their physical indexes."""
        return {each.active_index: each.name for each in self.parts}


def searched(
    catalog: SearchedCatalog, embedder: Embedder, soundness: Soundness, asked: SearchRequest | SearchResult
) -> Searched:
    """Raises UnknownCollectionError, FingerprintMismatchError where nothing was written by the model in use, and
    DamagedIndexError where nothing else is left."""
    if asked.collection != ALL_COLLECTIONS:
        one = catalog.collection(asked.collection)
        require_same_model(one, embedder)
        soundness.require_sound(one)
        return Searched(one, (one,))
    found = [each for each in catalog.uncounted_collections() if asked.among is None or each.name in asked.among]
    if not found:
        raise UnknownCollectionError(ALL_COLLECTIONS, [])
    own = [each for each in found if each.fingerprint == embedder.info.fingerprint]
    if not own:
        raise FingerprintMismatchError(
            f"All {len(found)} collections were written by other models than the one in use, {embedder.info.name}; "
            "their vectors cannot be compared. Start with one of those models, or `gircse reindex` a collection."
        )
    alike = _alike(own)
    sound, damaged = _sound(alike, soundness)
    name = joined_name([each.active_index for each in sound])
    left_out = [each.name for each in found if each not in alike]
    whole = replace(sound[0], name=ALL_COLLECTIONS, active_index=name)
    return Searched(whole, tuple(sound), tuple(_notes(left_out, damaged)))


def explained(place: Searched, soundness: Soundness, fault: EngineFaultError) -> VectorIndexUnavailableError:
    """What is to be raised in place of a fault of the engine."""
    told = [soundness.explain(each, fault) for each in place.parts]
    return next((each for each in told if each is not fault), fault)


def _alike(collections: Sequence[Collection]) -> list[Collection]:
    """As many as were embedded in one way."""
    ways = Counter((each.document_instruction, each.document_steps) for each in collections)
    [(most, _)] = ways.most_common(1)
    return [each for each in collections if (each.document_instruction, each.document_steps) == most]


def _sound(collections: Sequence[Collection], soundness: Soundness) -> tuple[list[Collection], list[DamagedIndexError]]:
    sound, damaged = [], []
    for each in collections:
        try:
            soundness.require_sound(each)
            sound.append(each)
        except DamagedIndexError as error:
            damaged.append(error)
    if not sound:
        raise damaged[0]
    return sound, damaged


def _notes(left_out: Sequence[str], damaged: Sequence[DamagedIndexError]) -> Iterator[str]:
    if left_out:
        yield (
            f"Not searched, since their chunks were embedded otherwise: {', '.join(left_out)}. Search them by "
            "themselves, or bring them to the same model and document instruction with `gircse reindex`."
        )
    for error in damaged:
        yield f"Not searched: {error}"
