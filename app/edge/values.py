"""Parts of request bodies: ids, vectors and payload paths, validated as strictly as Edge requires.

Unknown fields are errors, so that no setting is silently ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import qdrant_edge as edge
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

# Qdrant does not normalise a vector whose squared length is below the float32 epsilon; its cosine would be wrong.
_SHORTEST_SQUARED = 2.0**-23

PointId = Annotated[int, Field(strict=True, ge=0, lt=2**64)] | UUID
Component = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1e18, le=1e18)]
PayloadChoice = bool | list[str] | dict[Literal["include", "exclude"], list[str]]
VectorChoice = bool | list[str]


def _refuse_zero(vector: list[float]) -> list[float]:
    squared = 0.0
    for component in vector:
        squared += component * component
        if squared >= _SHORTEST_SQUARED:  # usually true after the first component
            return vector
    raise ValueError("a zero vector has no direction and no cosine: omit this point")


def _check_path(path: str) -> str:
    edge.IsEmptyCondition(key=path)  # raises ValueError; a later error of Edge would look like an internal one
    return path


JsonPath = Annotated[str, AfterValidator(_check_path)]
DenseVector = Annotated[list[Component], Field(min_length=1), AfterValidator(_refuse_zero)]


class EdgeMessage(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, data: Any) -> Any:
        """Remove null fields: clients send null for fields that are not set."""
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


class SparseVectorMessage(EdgeMessage):
    indices: list[Annotated[int, Field(ge=0, lt=2**32)]]
    values: list[Component]

    def to_edge(self) -> edge.SparseVector:
        return edge.SparseVector(indices=self.indices, values=self.values)


def is_multivector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _vector_kind(value: Any) -> str:
    if isinstance(value, dict | SparseVectorMessage):
        return "sparse"
    return "multi" if is_multivector(value) else "dense"


MultiVector = Annotated[list[DenseVector], Field(min_length=1)]
Vector = Annotated[
    Annotated[DenseVector, Tag("dense")]
    | Annotated[MultiVector, Tag("multi")]
    | Annotated[SparseVectorMessage, Tag("sparse")],
    Discriminator(_vector_kind),
]
AnyVector = list[float] | list[list[float]] | SparseVectorMessage


def vector_to_edge(vector: AnyVector) -> Any:
    return vector.to_edge() if isinstance(vector, SparseVectorMessage) else vector
