"""Lens values: the named values that a lens tells apart, and what a text or a query was found to be among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

OTHER = "other"  # what fits none of the values
MIN_VALUES, MAX_VALUES = 2, 200  # of a lens


@dataclass(frozen=True, slots=True)
class LensValue:
    """One value, as `pleased`, with other phrases that mean the same."""

    name: str
    synonyms: tuple[str, ...] = ()

    @property
    def phrases(self) -> tuple[str, ...]:
        return (self.name, *self.synonyms)

    def __str__(self) -> str:
        return self.name if not self.synonyms else f"{self.name} = {', '.join(self.synonyms)}"


def value_names(values: Sequence[LensValue]) -> list[str]:
    """By number, OTHER after the last one."""
    return [*(each.name for each in values), OTHER]


@dataclass(frozen=True, slots=True)
class ValueReading:
    """The value of a text: `name` is OTHER where none fits. `probability` is that of the most probable value."""

    name: str
    probability: float
    similarity: float  # cosine of the text's distribution over the values and the query's


class ValueScope(StrEnum):
    """Which passages were looked at."""

    CANDIDATES = "candidates"  # those that the search found first
    COLLECTION = "collection"  # all that the filters leave, by a lens index


@dataclass(frozen=True, slots=True)
class ValueCount:
    """How many of the passages looked at have a value, and how probable it is for the query."""

    name: str
    count: int
    probability: float | None  # None for OTHER


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """`query` is the query's own value; `counts` are over `passages`, the values in their given order, OTHER last."""

    query: str
    counts: tuple[ValueCount, ...]
    passages: int
    scope: ValueScope = ValueScope.CANDIDATES


def flatten_phrases(values: Sequence[LensValue]) -> tuple[list[str], list[int]]:
    """The phrases of all values, and the number of the value that each belongs to, ascending."""
    pairs = [(phrase, at) for at, value in enumerate(values) for phrase in value.phrases]
    return [phrase for phrase, _ in pairs], [at for _, at in pairs]
