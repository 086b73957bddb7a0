"""Labels of texts for the values of a lens, as arrays, and their format in the payload of a lens index.

A label is `{"value": 3, "p": "…"}`: the number of the value (OTHER comes after the last value), and the distribution as
base64 of float16, a third of its size as JSON numbers.
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
    """Labels of n texts. `numbers`: (n,), 0 to V, where V means OTHER; `probabilities`: (n, V)."""

    numbers: np.ndarray
    probabilities: np.ndarray

    def kept(self) -> list[tuple[int, bytes]]:
        """(number, distribution as float16 bytes) of each text."""
        probabilities = self.probabilities.astype(_KEPT)
        return list(zip(self.numbers.tolist(), [row.tobytes() for row in probabilities], strict=True))

    def packed(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers as uint8 (there are at most 200 values), and probabilities as float16."""
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
        """Inverse of `payloads`, for labels with `value_count` values."""
        labels = [cast("Mapping[str, object]", payload) for payload in payloads]
        kept = b"".join(b64decode(str(label["p"])) for label in labels)
        probabilities = np.frombuffer(kept, dtype=_KEPT).reshape(len(labels), value_count).astype(np.float32)
        return cls(np.array([label["value"] for label in labels], dtype=np.int64), probabilities)


@dataclass(frozen=True, slots=True)
class ValueReadings:
    """Labels of n passages compared with the query's, as arrays; an index gives a single `ValueReading`.

    `names`: V values, then OTHER. (n,) each: `numbers` of the value, `probabilities` of the most probable value,
    `similarities` to the query's distribution.
    """

    names: Sequence[str]
    numbers: np.ndarray
    probabilities: np.ndarray
    similarities: np.ndarray

    def __getitem__(self, row: int) -> ValueReading:
        name = self.names[int(self.numbers[row])]
        return ValueReading(name, float(self.probabilities[row]), float(self.similarities[row]))


def read_labels(passages: ValueLabels, query: ValueLabels, values: Sequence[LensValue]) -> ValueReadings:
    """Compares the labels of passages with the query's label (of one text)."""
    similarity = similarities(passages.probabilities, query.probabilities[0])
    return ValueReadings(value_names(values), passages.numbers, passages.probabilities.max(axis=1), similarity)


def summarize(
    counts: Mapping[int, int], query: ValueLabels, values: Sequence[LensValue], *, scope: ValueScope
) -> ValueSummary:
    """Combines the number of passages per value with the query's own value and probabilities.

    counts: by the number of the value.
    """
    names = value_names(values)
    counted = [
        ValueCount(value.name, counts.get(number, 0), float(query.probabilities[0, number]))
        for number, value in enumerate(values)
    ]
    other = ValueCount(OTHER, counts.get(len(values), 0), None)
    return ValueSummary(names[int(query.numbers[0])], (*counted, other), sum(counts.values()), scope)
