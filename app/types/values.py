"""Values of lenses, and the classification of texts and queries by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

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

    name: Annotated[str, Field(description="`other` if no value fits.")]
    probability: Annotated[float, Field(description="Probability of the most probable value.")]
    similarity: Annotated[
        float, Field(description="Cosine between the value distributions of the passage and the query.")
    ]


class ValueScope(StrEnum):
    """Which passages were counted."""

    CANDIDATES = "candidates"  # the search's first candidates
    COLLECTION = "collection"  # all passages that match the filters, by a lens index


@dataclass(frozen=True, slots=True)
class ValueCount:
    """Number of counted passages with a value, and the value's probability for the query."""

    name: str
    count: int
    probability: Annotated[float | None, Field(description="Probability for the query; null for `other`.")]


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """The values of a search: the query's own, and the number of passages with each. `query`: the query's own value.
    `counts`: over `passages` passages, in the order of the values, OTHER last."""

    query: Annotated[str, Field(description="The query's own value.")]
    counts: Annotated[tuple[ValueCount, ...], Field(description="In the order of the request; `other` last.")]
    passages: Annotated[int, Field(description="Number of counted passages.")]
    scope: Annotated[
        ValueScope,
        Field(
            description=(
                "candidates: counts the search's first candidates. collection: counts all passages "
                "that match the filters, by a lens index."
            )
        ),
    ] = ValueScope.CANDIDATES


def flatten_phrases(values: Sequence[LensValue]) -> tuple[list[str], list[int]]:
    """Returns the phrases of all values, and for each phrase the number of its value, ascending."""
    pairs = [(phrase, number) for number, value in enumerate(values) for phrase in value.phrases]
    return [phrase for phrase, _ in pairs], [number for _, number in pairs]
