"""The request bodies that the Edge server understands: Qdrant's JSON, checked, and turned into Edge's own objects.

Fields that are not named here are refused rather than ignored, so that no setting is lost in silence.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import numpy as np
import qdrant_edge as edge
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

# Qdrant leaves a vector unnormalised when its squared length is under the float32 epsilon: cosine would be wrong.
_SHORTEST_SQUARED = float(np.finfo(np.float32).eps)

PointId = Annotated[int, Field(strict=True, ge=0, lt=2**64)] | UUID
Component = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1e18, le=1e18)]
PayloadChoice = bool | list[str] | dict[Literal["include", "exclude"], list[str]]
VectorChoice = bool | list[str]


def _refuse_zero(vector: list[float]) -> list[float]:
    if float(np.dot(vector, vector)) < _SHORTEST_SQUARED:
        raise ValueError("a zero vector has no direction, so it has no cosine: leave this point out")
    return vector


def _check_path(path: str) -> str:
    edge.IsEmptyCondition(key=path)  # raises ValueError, as Edge does later where it is not told from a fault
    return path


JsonPath = Annotated[str, AfterValidator(_check_path)]
DenseVector = Annotated[list[Component], Field(min_length=1), AfterValidator(_refuse_zero)]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, data: Any) -> Any:
        """Clients send null for "not given"."""
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


class SparseVector(Message):
    indices: list[Annotated[int, Field(ge=0, lt=2**32)]]
    values: list[Component]

    def to_edge(self) -> edge.SparseVector:
        return edge.SparseVector(indices=self.indices, values=self.values)


Vector = DenseVector | SparseVector


def vector_to_edge(vector: list[float] | SparseVector) -> Any:
    return vector.to_edge() if isinstance(vector, SparseVector) else vector


class VectorParams(Message):
    size: Annotated[int, Field(ge=1, le=65_536)]
    distance: Literal["Cosine"]


class SparseVectorParams(Message):
    modifier: Literal["none", "idf"] = "none"


class CreateCollection(Message):
    """`vectors` is one setting for the default vector, named "", or a setting per name."""

    vectors: VectorParams | dict[str, VectorParams] = Field(default_factory=dict)
    sparse_vectors: dict[str, SparseVectorParams] = Field(default_factory=dict)

    @property
    def dense(self) -> dict[str, VectorParams]:
        return {"": self.vectors} if isinstance(self.vectors, VectorParams) else self.vectors

    def to_edge(self) -> edge.EdgeConfig:
        return edge.EdgeConfig(
            vectors={
                name: edge.EdgeVectorParams(size=params.size, distance=edge.Distance.Cosine)
                for name, params in self.dense.items()
            },
            sparse_vectors={
                name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if params.modifier == "idf" else None)
                for name, params in self.sparse_vectors.items()
            },
        )


class Match(Message):
    value: bool | int | str | None = None
    any_of: list[int] | list[str] | None = Field(None, alias="any")
    except_of: list[int] | list[str] | None = Field(None, alias="except")

    @model_validator(mode="after")
    def holds_one(self) -> Match:
        if len(self.model_fields_set) != 1:
            raise ValueError("give exactly one of value, any, except")
        return self

    def to_edge(self) -> Any:
        if self.any_of is not None:
            return edge.MatchAny(any=self.any_of)
        if self.except_of is not None:
            return edge.MatchExcept(**{"except": self.except_of})
        # Edge takes Python's bool for the integer that it also is, and then finds nothing; NumPy's is no integer.
        value: Any = np.bool_(self.value) if isinstance(self.value, bool) else self.value
        return edge.MatchValue(value=value)


class Range(Message):
    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None


class FieldCondition(Message):
    key: JsonPath
    match: Match | None = None
    range: Range | None = None

    @model_validator(mode="after")
    def holds_one(self) -> FieldCondition:
        if (self.match is None) == (self.range is None):
            raise ValueError("give exactly one of match, range")
        return self

    def to_edge(self) -> edge.FieldCondition:
        return edge.FieldCondition(
            key=self.key,
            match=self.match.to_edge() if self.match else None,
            range=edge.RangeFloat(**self.range.model_dump()) if self.range else None,
        )


class PayloadField(Message):
    key: JsonPath


class IsEmpty(Message):
    is_empty: PayloadField

    def to_edge(self) -> edge.IsEmptyCondition:
        return edge.IsEmptyCondition(key=self.is_empty.key)


class IsNull(Message):
    is_null: PayloadField

    def to_edge(self) -> edge.IsNullCondition:
        return edge.IsNullCondition(key=self.is_null.key)


class HasId(Message):
    has_id: list[PointId]

    def to_edge(self) -> edge.HasIdCondition:
        return edge.HasIdCondition(point_ids=set(self.has_id))


def _condition_kind(value: Any) -> str:
    """Told by the key that only this kind has; anything else is read as a nested filter."""
    keys = value if isinstance(value, dict) else type(value).model_fields
    return next((kind for kind in ("key", "is_empty", "is_null", "has_id") if kind in keys), "filter")


Condition = Annotated[
    Annotated[FieldCondition, Tag("key")]
    | Annotated[IsEmpty, Tag("is_empty")]
    | Annotated[IsNull, Tag("is_null")]
    | Annotated[HasId, Tag("has_id")]
    | Annotated["Filter", Tag("filter")],
    Discriminator(_condition_kind),
]


class Filter(Message):
    must: list[Condition] | None = None
    should: list[Condition] | None = None
    must_not: list[Condition] | None = None

    @model_validator(mode="before")
    @classmethod
    def wrap_single(cls, data: Any) -> Any:
        """Qdrant takes one condition in place of a list of one."""
        return {key: [value] if isinstance(value, dict) else value for key, value in dict(data).items()}

    def to_edge(self) -> edge.Filter:
        return edge.Filter(
            must=_conditions_to_edge(self.must),
            should=_conditions_to_edge(self.should),
            must_not=_conditions_to_edge(self.must_not),
        )


def _conditions_to_edge(conditions: list[Condition] | None) -> list[Any] | None:
    return [condition.to_edge() for condition in conditions] if conditions else None


def filter_to_edge(found: Filter | None) -> edge.Filter | None:
    return None if found is None else found.to_edge()


class Point(Message):
    id: PointId
    vector: Vector | dict[str, Vector]
    payload: dict[str, Any] = Field(default_factory=dict)

    @property
    def vectors(self) -> dict[str, list[float] | SparseVector]:
        return self.vector if isinstance(self.vector, dict) else {"": self.vector}

    def to_edge(self) -> edge.Point:
        named = {name: vector_to_edge(vector) for name, vector in self.vectors.items()}
        return edge.Point(id=self.id, vector=named, payload=self.payload)


class UpsertPoints(Message):
    points: list[Point]


class RetrievePoints(Message):
    ids: list[PointId]
    with_payload: PayloadChoice = True
    with_vector: VectorChoice = False


class DeletePoints(Message):
    points: list[PointId] | None = None
    filter: Filter | None = None

    @model_validator(mode="after")
    def holds_one(self) -> DeletePoints:
        if (self.points is None) == (self.filter is None):
            raise ValueError("give exactly one of points, filter")
        return self


class PayloadChange(Message):
    payload: dict[str, Any]
    filter: Filter


class BatchOperation(Message):
    overwrite_payload: PayloadChange

    def to_edge(self) -> edge.UpdateOperation:
        change = self.overwrite_payload
        return edge.UpdateOperation.overwrite_payload_by_filter(filter=change.filter.to_edge(), payload=change.payload)


class BatchUpdate(Message):
    operations: list[BatchOperation]


class SearchParams(Message):
    """Accepted as they are sent; every search here is exact, since no index is built."""

    exact: bool = True
    hnsw_ef: int | None = None
    indexed_only: Literal[False] = False


class Rrf(Message):
    k: Annotated[int, Field(ge=1)] = 2  # Qdrant's default


class NearestQuery(Message):
    nearest: Vector


class FusionQuery(Message):
    fusion: Literal["rrf"]


class RrfQuery(Message):
    rrf: Rrf


class Prefetch(Message):
    query: NearestQuery | FusionQuery | RrfQuery | Vector
    using: str = ""
    prefetch: list[Prefetch] = Field(default_factory=list)
    filter: Filter | None = None
    params: SearchParams | None = None
    score_threshold: float | None = None
    limit: Annotated[int, Field(ge=1)] = 10

    @model_validator(mode="before")
    @classmethod
    def wrap_single(cls, data: Any) -> Any:
        """Qdrant takes one prefetch in place of a list of one."""
        single = isinstance(data, dict) and isinstance(data.get("prefetch"), dict)
        return {**data, "prefetch": [data["prefetch"]]} if single else data

    @property
    def rrf(self) -> Rrf | None:
        if isinstance(self.query, RrfQuery):
            return self.query.rrf
        return Rrf() if isinstance(self.query, FusionQuery) else None

    @property
    def nearest(self) -> list[float] | SparseVector:
        if isinstance(self.query, FusionQuery | RrfQuery):
            raise TypeError("a fusion has no vector of its own")
        return self.query.nearest if isinstance(self.query, NearestQuery) else self.query


class QueryPoints(Prefetch):
    offset: Annotated[int, Field(ge=0)] = 0
    with_payload: PayloadChoice = False
    with_vector: VectorChoice = False


class QueryBatch(Message):
    searches: list[QueryPoints]


class ScrollPoints(Message):
    offset: PointId | None = None
    limit: Annotated[int, Field(ge=1)] = 10
    filter: Filter | None = None
    with_payload: PayloadChoice = True
    with_vector: VectorChoice = False


class CountPoints(Message):
    filter: Filter | None = None
    exact: bool = True


class Facet(Message):
    key: JsonPath
    limit: Annotated[int, Field(ge=1)] = 10
    filter: Filter | None = None
    exact: bool = False


SchemaType = Literal["keyword", "integer", "float", "bool", "datetime", "uuid", "text"]


class SchemaParams(Message):
    type: SchemaType


class CreateIndex(Message):
    field_name: JsonPath
    field_schema: SchemaType | SchemaParams

    def schema_to_edge(self) -> edge.PayloadSchemaType:
        schema = self.field_schema.type if isinstance(self.field_schema, SchemaParams) else self.field_schema
        return getattr(edge.PayloadSchemaType, schema.capitalize())


class CreateAlias(Message):
    alias_name: str
    collection_name: str


class DeleteAlias(Message):
    alias_name: str


class RenameAlias(Message):
    old_alias_name: str
    new_alias_name: str


class AliasAction(Message):
    create_alias: CreateAlias | None = None
    delete_alias: DeleteAlias | None = None
    rename_alias: RenameAlias | None = None


class ChangeAliases(Message):
    actions: list[AliasAction]
