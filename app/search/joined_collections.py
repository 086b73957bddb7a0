"""Several collections searched as one: those of the model in use whose chunks were embedded alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.errors import FingerprintMismatchError, UnknownCollectionError
from app.ports.catalog import SearchedCatalog
from app.ports.parts import Embedder
from app.search.fingerprints import require_same_model
from app.search.joined_indexes import joined_name
from app.types.documents import Collection
from app.types.search import ALL_COLLECTIONS, SearchRequest, SearchResult


@dataclass(frozen=True, slots=True)
class Searched:
    """What a request looks in. `names`: of the collections, by their physical indexes; `left_out`: of those that cannot
    be searched together with them."""

    collection: Collection
    names: Mapping[str, str]
    left_out: tuple[str, ...] = ()

    @property
    def is_one(self) -> bool:
        return self.collection.name != ALL_COLLECTIONS

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.left_out:
            return ()
        return (
            f"Not searched, since their chunks were embedded otherwise: {', '.join(self.left_out)}. Search them by "
            "themselves, or bring them to the same model and document instruction with `gircse reindex`.",
        )


def searched(catalog: SearchedCatalog, embedder: Embedder, asked: SearchRequest | SearchResult) -> Searched:
    """Raises UnknownCollectionError, and FingerprintMismatchError where nothing was written by the model in use."""
    if asked.collection != ALL_COLLECTIONS:
        one = catalog.collection(asked.collection)
        require_same_model(one, embedder)
        return Searched(one, {one.active_index: one.name})
    found = [each for each in catalog.uncounted_collections() if asked.among is None or each.name in asked.among]
    if not found:
        raise UnknownCollectionError(ALL_COLLECTIONS, [])
    own = [each for each in found if each.fingerprint == embedder.info.fingerprint]
    if not own:
        raise FingerprintMismatchError(
            f"All {len(found)} collections were written by other models than the one in use, {embedder.info.name}; "
            "their vectors cannot be compared. Start with one of those models, or `gircse reindex` a collection."
        )
    together = _alike(own)
    left_out = tuple(each.name for each in found if each not in together)
    whole = replace(
        together[0], name=ALL_COLLECTIONS, active_index=joined_name([each.active_index for each in together])
    )
    return Searched(whole, {each.active_index: each.name for each in together}, left_out)


def _alike(collections: Sequence[Collection]) -> list[Collection]:
    """As many as were embedded in one way."""
    ways = Counter((each.document_instruction, each.document_steps) for each in collections)
    [(most, _)] = ways.most_common(1)
    return [each for each in collections if (each.document_instruction, each.document_steps) == most]
