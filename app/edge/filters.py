"""The supported part of Qdrant's filters: validates the JSON and converts it to Edge's objects."""

from __future__ import annotations

from typing import Annotated, Any

import qdrant_edge as edge
from pydantic import Discriminator, Field, Tag, model_validator

from app.edge.values import EdgeMessage, JsonPath, PointId


class ValueMatch(EdgeMessage):
    value: bool | int | str | None = None
    any_of: list[int] | list[str] | None = Field(None, alias="any")
    except_of: list[int] | list[str] | None = Field(None, alias="except")

    @model_validator(mode="after")
    def holds_one(self) -> ValueMatch:
        if len(self.model_fields_set) != 1:
            raise ValueError("give exactly one of value, any, except")
        return self

    def to_edge(self) -> Any:
        if self.any_of is not None:
            return edge.MatchAny(any=self.any_of)
        if self.except_of is not None:
            return edge.MatchExcept(**{"except": self.except_of})
        value: Any = self.value
        if isinstance(value, bool):
            # Edge treats Python's bool as an integer and then finds nothing; NumPy's bool is not an integer. Imported
            # here, since NumPy takes a third of the process's start time and few filters need it.
            import numpy as np

            value = np.bool_(value)
        return edge.MatchValue(value=value)


class Range(EdgeMessage):
    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None


class FieldCondition(EdgeMessage):
    key: JsonPath
    match: ValueMatch | None = None
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


class PayloadField(EdgeMessage):
    key: JsonPath


class IsEmpty(EdgeMessage):
    is_empty: PayloadField

    def to_edge(self) -> edge.IsEmptyCondition:
        return edge.IsEmptyCondition(key=self.is_empty.key)


class IsNull(EdgeMessage):
    is_null: PayloadField

    def to_edge(self) -> edge.IsNullCondition:
        return edge.IsNullCondition(key=self.is_null.key)


class HasId(EdgeMessage):
    has_id: list[PointId]

    def to_edge(self) -> edge.HasIdCondition:
        return edge.HasIdCondition(point_ids=set(self.has_id))


def _condition_kind(value: Any) -> str:
    """The kind of a condition, recognised by the key that only this kind has. Without one it is a nested filter."""
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


class Filter(EdgeMessage):
    must: list[Condition] | None = None
    should: list[Condition] | None = None
    must_not: list[Condition] | None = None

    @model_validator(mode="before")
    @classmethod
    def wrap_single(cls, data: Any) -> Any:
        """Accept a single condition instead of a list, as Qdrant does."""
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
