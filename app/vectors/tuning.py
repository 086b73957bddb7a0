"""Search and storage parameters of an index, by size: exact search while it is small, then a graph (HNSW).

Quantisation is the user's choice. Quantised vectors choose candidates, and the original vectors rescore them, so that
every hit has its exact score.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from qdrant_client import models

from app.errors import VectorIndexUnavailableError

Quantization = Literal["none", "int8", "binary"]

GRAPH_FROM_KB = 100_000  # size of the vectors; exact search over so many takes 7 ms, docs/search-at-scale.md
PAYLOAD_INDEXES_FROM = 10_000  # points; without a payload index a filter reads every payload, 14 ms or more for these
HNSW_EF = 1024
# Rescored candidates, as a multiple of the limit; high for binary vectors, which are coarse.
OVERSAMPLING: dict[Quantization, float] = {"none": 1.0, "int8": 2.0, "binary": 16.0}
_BYTES_PER_NUMBER = 4
_LOOK_AGAIN_S = 10.0

_EXACT = models.SearchParams(exact=True)


@dataclass(frozen=True, slots=True)
class Sharding:
    """Shards and replicas of a new index on a Qdrant cluster. None: chosen by the number of nodes."""

    shards: int | None = None
    replicas: int | None = None


AS_THE_CLUSTER_IS = Sharding()


def vector_params(dimension: int, quantization: Quantization, *, is_multivector: bool = False) -> models.VectorParams:
    max_sim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    return models.VectorParams(
        size=dimension,
        distance=models.Distance.COSINE,
        on_disk=True if _is_on_disk(quantization) else None,
        multivector_config=max_sim if is_multivector else None,
    )


def holds_multivectors(info: models.CollectionInfo) -> bool:
    params = info.config.params.vectors
    return isinstance(params, models.VectorParams) and params.multivector_config is not None


def vector_changes(quantization: Quantization) -> dict[str, models.VectorParamsDiff]:
    return {"": models.VectorParamsDiff(on_disk=_is_on_disk(quantization))}


def optimizers_config() -> models.OptimizersConfigDiff:
    return models.OptimizersConfigDiff(indexing_threshold=GRAPH_FROM_KB)


def quantization_config(quantization: Quantization) -> models.QuantizationConfig | None:
    if quantization == "int8":
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        return models.ScalarQuantization(scalar=scalar)
    if quantization == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None


def search_params(info: models.CollectionInfo) -> models.SearchParams:
    """Exact search for a small index, else HNSW with rescoring. Independent of these, Qdrant compares points that are
    not in the graph yet, and small filtered sets, one by one."""
    if not _has_large_graph(info):
        return _EXACT
    return models.SearchParams(
        exact=False,  # explicit, since the embedded engine's default is exact
        hnsw_ef=HNSW_EF,
        quantization=models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING[_quantization_of(info)]),
    )


def needs_payload_indexes(info: models.CollectionInfo) -> bool:
    return (info.points_count or 0) >= PAYLOAD_INDEXES_FROM


@dataclass(frozen=True, slots=True)
class IndexTuning:
    """Search parameters of an index, paths of its payload indexes for numbers, and whether it has multivectors."""

    params: models.SearchParams
    number_paths: frozenset[str] = frozenset()
    is_multivector: bool = False


_UNKNOWN = IndexTuning(_EXACT)


def searched_index(info: models.CollectionInfo) -> IndexTuning:
    numbers = (path for path, index in info.payload_schema.items() if index.data_type is models.PayloadSchemaType.FLOAT)
    return IndexTuning(search_params(info), frozenset(numbers), holds_multivectors(info))


class SearchedIndexes:
    """Caches `SearchedIndex` per index for some seconds. An outdated entry makes a search slower, not wrong, so it also
    serves while the engine does not respond."""

    def __init__(self, look: Callable[[str], models.CollectionInfo]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, IndexTuning]] = {}

    def of(self, index: str) -> IndexTuning:
        with self._lock:
            looked_at, found = self._known.get(index, (-_LOOK_AGAIN_S, _UNKNOWN))
        if time.monotonic() - looked_at >= _LOOK_AGAIN_S:
            try:
                found = searched_index(self._look(index))
            except VectorIndexUnavailableError:
                if found is _UNKNOWN:
                    raise
            with self._lock:
                self._known[index] = time.monotonic(), found
        return found

    def forget(self, index: str) -> None:
        with self._lock:
            self._known.pop(index, None)


def _has_large_graph(info: models.CollectionInfo) -> bool:
    params = info.config.params.vectors
    size = params.size if isinstance(params, models.VectorParams) else 0
    # The count includes sparse vectors, which always have an index; a point has at most one.
    with_index = info.indexed_vectors_count or 0
    in_graph = with_index - (info.points_count or 0) if info.config.params.sparse_vectors else with_index
    # A multivector counts as one, so its size is unknown; but the engine only builds a graph for a large index.
    if holds_multivectors(info):
        return in_graph > 0
    return in_graph * size * _BYTES_PER_NUMBER >= GRAPH_FROM_KB * 1024


def _is_on_disk(quantization: Quantization) -> bool:
    return quantization != "none"


def _quantization_of(info: models.CollectionInfo) -> Quantization:
    config = info.config.quantization_config
    if isinstance(config, models.ScalarQuantization):
        return "int8"
    return "binary" if isinstance(config, models.BinaryQuantization) else "none"
