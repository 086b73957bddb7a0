"""Combines query and instruction into the one text that third-party rerankers take as query."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLACE = re.compile(r"\{(query|instruction)\}")


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """A template such as `{instruction} {query}`. Placeholders inside the inserted texts are not replaced."""

    text: str

    def fill(self, query: str, instruction: str) -> str:
        """The filled template; only the query if the instruction is empty."""
        if not instruction:
            return query
        filled = {"query": query, "instruction": instruction}
        return _PLACE.sub(lambda place: filled[place[1]], self.text)
