"""The request bodies of the Edge server: validates Qdrant's JSON and converts it to Edge's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import qdrant_edge as edge
from pydantic import Discriminator, Field, Tag, model_validator

from app.edge.filters import Filter, HasId
from app.edge.storage import OptimizersConfig, Quantization, VectorParams, VectorParamsChange
from app.edge.values import (
    AnyVector,
    DenseVector,
    EdgeMessage,
    JsonPath,
    MultiVector,
    PayloadChoice,
    PointId,
    Vector,
    VectorChoice,
    is_multivector,
    vector_to_edge,
)


class SparseVectorParams(EdgeMessage):
    modifier: Literal["none", "idf"] = "none"


class CreateCollection(EdgeMessage):
    """Creates a collection. `vectors` has the settings of the default vector, named "", or settings by name."""

    vectors: VectorParams | dict[str, VectorParams] = Field(default_factory=dict)
    sparse_vectors: dict[str, SparseVectorParams] = Field(default_factory=dict)
    quantization_config: Quantization | None = None
    optimizers_config: OptimizersConfig = Field(default_factory=OptimizersConfig)

    @property
    def dense(self) -> dict[str, VectorParams]:
        return {"": self.vectors} if isinstance(self.vectors, VectorParams) else self.vectors

    def to_edge(self) -> edge.EdgeConfig:
        return edge.EdgeConfig(
            vectors={name: params.to_edge(self.quantization_config) for name, params in self.dense.items()},
            sparse_vectors={
                name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if params.modifier == "idf" else None)
                for name, params in self.sparse_vectors.items()
            },
            optimizers=self.optimizers_config.to_edge(),
        )


class UpdateCollection(EdgeMessage):
    """Changes storage, quantization and the indexing threshold. Omitted fields keep their values."""

    vectors: dict[str, VectorParamsChange] = Field(default_factory=dict)
    quantization_config: Quantization | Literal["Disabled"] | None = None
    optimizers_config: OptimizersConfig = Field(default_factory=OptimizersConfig)

    def applied_to(self, config: CreateCollection) -> CreateCollection:
        """The changed configuration. Raises KeyError for an unknown vector name."""
        dense = dict(config.dense)
        for name, change in self.vectors.items():
            dense[name] = dense[name].model_copy(update=change.model_dump(exclude_none=True))
        quantization = self.quantization_config or config.quantization_config
        changed = {
            "vectors": dense[""] if isinstance(config.vectors, VectorParams) else dense,
            "quantization_config": None if quantization == "Disabled" else quantization,
            "optimizers_config": config.optimizers_config.model_copy(
                update=self.optimizers_config.model_dump(exclude_none=True)
            ),
        }
        return config.model_copy(update=changed)


def _vectors_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "named"
    return "multi" if is_multivector(value) else "default"


class StoredPoint(EdgeMessage):
    id: PointId
    vector: Annotated[
        Annotated[DenseVector, Tag("default")]
        | Annotated[MultiVector, Tag("multi")]
        | Annotated[dict[str, Vector], Tag("named")],
        Discriminator(_vectors_kind),
    ]
    payload: dict[str, Any] = Field(default_factory=dict)

    @property
    def vectors(self) -> Mapping[str, AnyVector]:
        return self.vector if isinstance(self.vector, dict) else {"": self.vector}

    def to_edge(self) -> edge.Point:
        named = {name: vector_to_edge(vector) for name, vector in self.vectors.items()}
        return edge.Point(id=self.id, vector=named, payload=self.payload)


class UpsertPoints(EdgeMessage):
    points: list[StoredPoint]


class VectorsAs(EdgeMessage):
    """The form of vectors in a response. `block` returns the dense vectors of all points as one base64 text of float32,
    and skips points without one.

    An extension of Qdrant's API: JSON numbers would take nine tenths of the time.
    """

    vectors_as: Literal["json", "block"] = "json"


class RetrievePoints(VectorsAs):
    ids: list[PointId]
    with_payload: PayloadChoice = True
    with_vector: VectorChoice = False


class ChosenPoints(EdgeMessage):
    points: list[PointId] | None = None
    filter: Filter | None = None

    @model_validator(mode="after")
    def holds_one(self) -> Self:
        if (self.points is None) == (self.filter is None):
            raise ValueError("give exactly one of points, filter")
        return self

    def to_edge(self) -> list[PointId] | edge.Filter:
        return self.filter.to_edge() if self.filter is not None else self.points or []


class DeletePoints(ChosenPoints):
    pass


class SetPayload(ChosenPoints):
    """Sets keys of the payload. Other keys keep their values."""

    payload: dict[str, Any]


class SetLabels(EdgeMessage):
    """Sets one key of the payload to a different value for each point. An extension of Qdrant's API."""

    key: JsonPath
    ids: list[PointId]
    labels: list[dict[str, Any]]

    @model_validator(mode="after")
    def have_one_each(self) -> Self:
        if len(self.ids) != len(self.labels):
            raise ValueError("give as many labels as ids")
        return self


class DeletePayload(ChosenPoints):
    keys: list[JsonPath]


class BatchOperation(EdgeMessage):
    set_payload: SetPayload | None = None
    delete_payload: DeletePayload | None = None

    @model_validator(mode="after")
    def holds_one(self) -> Self:
        if (self.set_payload is None) == (self.delete_payload is None):
            raise ValueError("give exactly one of set_payload, delete_payload")
        return self

    @property
    def points(self) -> list[PointId] | edge.Filter:
        change = self.set_payload or self.delete_payload
        assert change is not None  # see `holds_one`
        return change.to_edge()

    @property
    def filtered_ids(self) -> list[PointId] | None:
        """The ids of the filter if it has no condition but `has_id`, otherwise None."""
        change = self.set_payload or self.delete_payload
        condition = None if change is None else change.filter
        if condition is None or condition.should or condition.must_not or not condition.must:
            return None
        first, *others = condition.must
        return first.has_id if isinstance(first, HasId) and not others else None

    def to_edge(self, present: Sequence[PointId] | None = None) -> edge.UpdateOperation:
        """The operation for the chosen points, or for the points `present` if they are given."""
        points, change = self.points if present is None else list(present), edge.UpdateOperation
        if self.set_payload is not None:
            payload = self.set_payload.payload
            if isinstance(points, edge.Filter):
                return change.set_payload_by_filter(filter=points, payload=payload)
            return change.set_payload(point_ids=list(points), payload=payload)
        assert self.delete_payload is not None  # see `holds_one`
        keys = self.delete_payload.keys
        if isinstance(points, edge.Filter):
            return change.delete_payload_by_filter(filter=points, keys=keys)
        return change.delete_payload(point_ids=list(points), keys=keys)


class BatchUpdate(EdgeMessage):
    operations: list[BatchOperation]


class QuantizationSearchParams(EdgeMessage):
    ignore: bool = False
    rescore: bool | None = None
    oversampling: Annotated[float, Field(ge=1)] | None = None

    def to_edge(self) -> edge.QuantizationSearchParams:
        return edge.QuantizationSearchParams(ignore=self.ignore, rescore=self.rescore, oversampling=self.oversampling)


class SearchParams(EdgeMessage):
    """Searches are exact by default. `exact=False` uses the HNSW graph, if optimizing has built one."""

    exact: bool = True
    hnsw_ef: int | None = None
    indexed_only: Literal[False] = False
    quantization: QuantizationSearchParams | None = None

    def to_edge(self) -> edge.SearchParams:
        return edge.SearchParams(
            exact=self.exact,
            hnsw_ef=self.hnsw_ef,
            quantization=self.quantization.to_edge() if self.quantization else None,
        )


class Rrf(EdgeMessage):
    k: Annotated[int, Field(ge=1)] = 2  # Qdrant's default


class NearestQuery(EdgeMessage):
    nearest: Vector


class FusionQuery(EdgeMessage):
    fusion: Literal["rrf"]


class RrfQuery(EdgeMessage):
    rrf: Rrf


def _query_kind(value: Any) -> str:
    """The kind of a query, recognised by the key that only this kind has. Without one it is a plain vector."""
    keys = value if isinstance(value, dict) else ()
    return next((kind for kind in ("nearest", "fusion", "rrf") if kind in keys), "vector")


Query = Annotated[
    Annotated[NearestQuery, Tag("nearest")]
    | Annotated[FusionQuery, Tag("fusion")]
    | Annotated[RrfQuery, Tag("rrf")]
    | Annotated[Vector, Tag("vector")],
    Discriminator(_query_kind),
]


class Prefetch(EdgeMessage):
    query: Query
    using: str = ""
    prefetch: list[Prefetch] = Field(default_factory=list)
    filter: Filter | None = None
    params: SearchParams | None = None
    score_threshold: float | None = None
    limit: Annotated[int, Field(ge=1)] = 10

    @model_validator(mode="before")
    @classmethod
    def wrap_single(cls, data: Any) -> Any:
        """Accept a single prefetch instead of a list, as Qdrant does."""
        single = isinstance(data, dict) and isinstance(data.get("prefetch"), dict)
        return {**data, "prefetch": [data["prefetch"]]} if single else data

    @property
    def rrf(self) -> Rrf | None:
        if isinstance(self.query, RrfQuery):
            return self.query.rrf
        return Rrf() if isinstance(self.query, FusionQuery) else None

    @property
    def nearest(self) -> AnyVector:
        if isinstance(self.query, FusionQuery | RrfQuery):
            raise TypeError("a fusion has no vector of its own")
        return self.query.nearest if isinstance(self.query, NearestQuery) else self.query


class QueryPoints(Prefetch):
    offset: Annotated[int, Field(ge=0)] = 0
    with_payload: PayloadChoice = False
    with_vector: VectorChoice = False


class QueryBatch(EdgeMessage):
    searches: list[QueryPoints]


class ScrollPoints(VectorsAs):
    offset: PointId | None = None
    limit: Annotated[int, Field(ge=1)] = 10
    filter: Filter | None = None
    with_payload: PayloadChoice = True
    with_vector: VectorChoice = False


class CountPoints(EdgeMessage):
    filter: Filter | None = None
    exact: bool = True


class Facet(EdgeMessage):
    key: JsonPath
    limit: Annotated[int, Field(ge=1)] = 10
    filter: Filter | None = None
    exact: bool = False


SchemaType = Literal["keyword", "integer", "float", "bool", "datetime", "uuid", "text"]


class SchemaParams(EdgeMessage):
    type: SchemaType


class CreateIndex(EdgeMessage):
    field_name: JsonPath
    field_schema: SchemaType | SchemaParams

    def to_edge(self) -> edge.UpdateOperation:
        schema = self.field_schema.type if isinstance(self.field_schema, SchemaParams) else self.field_schema
        return edge.UpdateOperation.create_field_index(
            field_name=self.field_name, schema=getattr(edge.PayloadSchemaType, schema.capitalize())
        )


class Optimization(EdgeMessage):
    """The arguments for the optimizing process: the new configuration, and payload indexes to create."""

    config: CreateCollection
    indexes: list[CreateIndex]


class CreateAlias(EdgeMessage):
    alias_name: str
    collection_name: str


class DeleteAlias(EdgeMessage):
    alias_name: str


class RenameAlias(EdgeMessage):
    old_alias_name: str
    new_alias_name: str


class AliasAction(EdgeMessage):
    create_alias: CreateAlias | None = None
    delete_alias: DeleteAlias | None = None
    rename_alias: RenameAlias | None = None


class ChangeAliases(EdgeMessage):
    actions: list[AliasAction]
