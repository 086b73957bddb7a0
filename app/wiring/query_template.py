"""How a query and its instruction become the one text that re-rankers of others compare with passages."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLACE = re.compile(r"\{(query|instruction)\}")


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """As `{instruction} {query}`. What stands for the places is not read as a template again."""

    text: str

    def fill(self, query: str, instruction: str) -> str:
        """The query alone where there is no instruction."""
        if not instruction:
            return query
        filled = {"query": query, "instruction": instruction}
        return _PLACE.sub(lambda place: filled[place[1]], self.text)
