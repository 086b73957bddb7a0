"""What texts are among the values of a lens, as numbers, and how a lens index keeps it in the payload of a point.

A label is `{"value": 3, "p": "…"}`: the number of the value, that of OTHER after the last one, and the distribution as
float16 in base64, which is a third of its size in JSON.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from app.types.values import OTHER, LensValue, ValueCount, ValueReading, ValueScope, ValueSummary, value_names
from embedder.text.relevance import similarities

_KEPT = np.dtype("<f2")


@dataclass(frozen=True, slots=True)
class ValueLabels:
    """Of n texts. `numbers`: (n,) of 0 to V, where V is OTHER; `probabilities`: (n, V)."""

    numbers: np.ndarray
    probabilities: np.ndarray

    def kept(self) -> list[tuple[int, bytes]]:
        """Of each text its number and its distribution in two bytes a value."""
        probabilities = self.probabilities.astype(_KEPT)
        return list(zip(self.numbers.tolist(), [row.tobytes() for row in probabilities], strict=True))

    def packed(self) -> tuple[np.ndarray, np.ndarray]:
        """Both arrays in as few bytes as they are kept in: there are at most 200 values."""
        return self.numbers.astype(np.uint8), self.probabilities.astype(_KEPT)

    def and_then(self, others: ValueLabels) -> ValueLabels:
        numbers = np.concatenate([self.numbers, others.numbers])
        return ValueLabels(numbers, np.concatenate([self.probabilities, others.probabilities]))

    def at(self, rows: np.ndarray) -> ValueLabels:
        return ValueLabels(self.numbers[rows].astype(np.int64), self.probabilities[rows].astype(np.float32))

    @classmethod
    def of_kept(cls, kept: Sequence[tuple[int, bytes]], value_count: int) -> ValueLabels:
        probabilities = np.frombuffer(b"".join(row for _, row in kept), dtype=_KEPT).reshape(len(kept), value_count)
        return cls(np.array([number for number, _ in kept], dtype=np.int64), probabilities.astype(np.float32))

    def payloads(self) -> list[dict[str, object]]:
        kept = self.probabilities.astype(_KEPT)
        return [
            {"value": number, "p": b64encode(row.tobytes()).decode("ascii")}
            for number, row in zip(self.numbers.tolist(), kept, strict=True)
        ]

    @classmethod
    def of_payloads(cls, payloads: Sequence[object], value_count: int) -> ValueLabels:
        """Of labels that `payloads` made for so many values."""
        labels = [cast("Mapping[str, object]", each) for each in payloads]
        kept = b"".join(b64decode(str(each["p"])) for each in labels)
        probabilities = np.frombuffer(kept, dtype=_KEPT).reshape(len(labels), value_count).astype(np.float32)
        return cls(np.array([each["value"] for each in labels], dtype=np.int64), probabilities)


@dataclass(frozen=True, slots=True)
class ValueReadings:
    """Of n texts, as arrays, since few of them are shown. `names`: of the V values, then OTHER; (n,) each: `numbers` of
    the value, `probabilities` of the most probable one, `similarities` to the query's distribution."""

    names: Sequence[str]
    numbers: np.ndarray
    probabilities: np.ndarray
    similarities: np.ndarray

    def __getitem__(self, row: int) -> ValueReading:
        name = self.names[int(self.numbers[row])]
        return ValueReading(name, float(self.probabilities[row]), float(self.similarities[row]))


def read_labels(passages: ValueLabels, query: ValueLabels, values: Sequence[LensValue]) -> ValueReadings:
    """`query` is of one text."""
    alike = similarities(passages.probabilities, query.probabilities[0])
    return ValueReadings(value_names(values), passages.numbers, passages.probabilities.max(axis=1), alike)


def summarize(
    counts: Mapping[int, int], query: ValueLabels, values: Sequence[LensValue], *, scope: ValueScope
) -> ValueSummary:
    """`counts`: by number."""
    names = value_names(values)
    counted = [
        ValueCount(value.name, counts.get(number, 0), float(query.probabilities[0, number]))
        for number, value in enumerate(values)
    ]
    other = ValueCount(OTHER, counts.get(len(values), 0), None)
    return ValueSummary(names[int(query.numbers[0])], (*counted, other), sum(counts.values()), scope)
