"""Port of re-ranking: a score for each passage under the query's instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RerankPassage:
    """A passage to score. `id` and `text_hash` are cache keys; `id` is "" for a text that is no chunk."""

    id: str
    text: str
    text_hash: str


class Reranker(Protocol):
    """Scores passages for a query. Thread-safe."""

    def scores(self, query: str, passages: Sequence[RerankPassage], *, instruction: str) -> list[float]:
        """How well each passage answers the query under the instruction ("": none), in the order of the passages.

        -1 to 1, higher is better. Raises UnavailableError if any score is unavailable, InputError for an unusable query
        or instruction.
        """
        ...

    def close(self) -> None: ...
