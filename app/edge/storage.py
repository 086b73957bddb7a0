"""Storage of vectors: validates the supported part of Qdrant's settings and converts them to Edge's objects."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import qdrant_edge as edge
from pydantic import Discriminator, Field, Tag

from app.edge.values import EdgeMessage

_MAX_SIM = edge.MultiVectorConfig(comparator=edge.MultiVectorComparator.MaxSim)


class MultiVectorConfig(EdgeMessage):
    comparator: Literal["max_sim"]


class VectorParams(EdgeMessage):
    size: Annotated[int, Field(ge=1, le=65_536)]
    distance: Literal["Cosine"]
    on_disk: bool | None = None
    multivector_config: MultiVectorConfig | None = None

    def to_edge(self, quantization: Quantization | None) -> edge.EdgeVectorParams:
        return edge.EdgeVectorParams(
            size=self.size,
            distance=edge.Distance.Cosine,
            memory=edge.Memory.Cold if self.on_disk else edge.Memory.Cached,
            quantization_config=quantization.to_edge() if quantization else None,
            multivector_config=_MAX_SIM if self.multivector_config else None,
        )


class VectorParamsChange(EdgeMessage):
    on_disk: bool | None = None


class ScalarParams(EdgeMessage):
    type: Literal["int8"]
    quantile: Annotated[float, Field(ge=0.5, le=1)] | None = None
    always_ram: bool = False


class ScalarQuantization(EdgeMessage):
    scalar: ScalarParams

    def to_edge(self) -> edge.ScalarQuantizationConfig:
        return edge.ScalarQuantizationConfig(
            type=edge.ScalarType.Int8, quantile=self.scalar.quantile, memory=_memory(self.scalar.always_ram)
        )


class BinaryParams(EdgeMessage):
    always_ram: bool = False


class BinaryQuantization(EdgeMessage):
    binary: BinaryParams

    def to_edge(self) -> edge.BinaryQuantizationConfig:
        return edge.BinaryQuantizationConfig(memory=_memory(self.binary.always_ram))


def _quantization_kind(value: Any) -> str:
    """The kind of quantization, by its key. Anything but `binary` is validated as `scalar` and rejected there."""
    keys = value if isinstance(value, dict) else getattr(type(value), "model_fields", ())
    return "binary" if "binary" in keys else "scalar"


Quantization = Annotated[
    Annotated[ScalarQuantization, Tag("scalar")] | Annotated[BinaryQuantization, Tag("binary")],
    Discriminator(_quantization_kind),
]


class OptimizersConfig(EdgeMessage):
    indexing_threshold: Annotated[int, Field(ge=1)] | None = None  # KB of vectors; None: Qdrant's default

    def to_edge(self) -> edge.EdgeOptimizersConfig:
        return edge.EdgeOptimizersConfig(indexing_threshold=self.indexing_threshold)


def _memory(always_ram: bool) -> edge.Memory:
    return edge.Memory.Pinned if always_ram else edge.Memory.Cold
