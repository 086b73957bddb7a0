"""Values of lenses, and the classification of texts and queries by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

OTHER = "other"  # for texts that fit none of the values
MIN_VALUES, MAX_VALUES = 2, 200  # of a lens


@dataclass(frozen=True, slots=True)
class LensValue:
    """One value, for instance `pleased`, with synonyms."""

    name: str
    synonyms: tuple[str, ...] = ()

    @property
    def phrases(self) -> tuple[str, ...]:
        return (self.name, *self.synonyms)

    def __str__(self) -> str:
        return self.name if not self.synonyms else f"{self.name} = {', '.join(self.synonyms)}"


def value_names(values: Sequence[LensValue]) -> list[str]:
    """Names in the order of the values' numbers, then OTHER."""
    return [*(value.name for value in values), OTHER]


@dataclass(frozen=True, slots=True)
class ValueReading:
    """The value of a text. `name` is OTHER if none fits; `probability` is that of the most probable value even then."""

    name: str
    probability: float
    similarity: float  # cosine of the text's distribution over the values and the query's


class ValueScope(StrEnum):
    """Which passages were counted."""

    CANDIDATES = "candidates"  # the search's first candidates
    COLLECTION = "collection"  # all passages that match the filters, by a lens index


@dataclass(frozen=True, slots=True)
class ValueCount:
    """Number of counted passages with a value, and the value's probability for the query."""

    name: str
    count: int
    probability: float | None  # None for OTHER


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """`query`: the query's own value. `counts`: over `passages` passages, in the order of the values, OTHER last."""

    query: str
    counts: tuple[ValueCount, ...]
    passages: int
    scope: ValueScope = ValueScope.CANDIDATES


def flatten_phrases(values: Sequence[LensValue]) -> tuple[list[str], list[int]]:
    """Returns the phrases of all values, and for each phrase the number of its value, ascending."""
    pairs = [(phrase, number) for number, value in enumerate(values) for phrase in value.phrases]
    return [phrase for phrase, _ in pairs], [number for _, number in pairs]
