"""What a second look at the candidates of a search needs: a score for each passage under the query's instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RerankPassage:
    """`id` and `text_hash` name it for those who keep what they computed of it; `id` is "" where it is no chunk."""

    id: str
    text: str
    text_hash: str


class Reranker(Protocol):
    """Safe to call from several threads."""

    def scores(self, query: str, passages: Sequence[RerankPassage], *, instruction: str) -> list[float]:
        """How well each passage answers the query under the instruction ("": none), in their order.

        -1 to 1, the higher the better. Raises UnavailableError where there is no such score for each of them,
        InputError where query or instruction cannot be used.
        """
        ...

    def close(self) -> None: ...
