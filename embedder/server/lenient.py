"""Requests in the formats of other APIs: unknown fields are ignored, and a response header names them."""

from __future__ import annotations

from collections.abc import Set
from typing import ClassVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

IGNORED_HEADER = "x-gircse-ignored-fields"
_MOST_NAMED, _LONGEST_NAME = 20, 64


class Lenient(BaseModel):
    """A request body that ignores unknown fields. `WITHOUT_EFFECT`: known fields that are accepted but have no effect
    here."""

    model_config = ConfigDict(extra="allow")

    WITHOUT_EFFECT: ClassVar[frozenset[str]] = frozenset()

    def ignored(self) -> set[str]:
        """The names of the sent fields that have no effect."""
        given = {name for name in self.model_fields_set & self.WITHOUT_EFFECT if getattr(self, name) is not None}
        return given | set(self.model_extra or ())


def ignored_header(names: Set[str]) -> dict[str, str]:
    """The header with these names, percent-encoded and cut; empty if there are none. Below 1.4 KB: proxies refuse
    longer ones."""
    shown = [quote(name[:_LONGEST_NAME], safe="", errors="replace")[:_LONGEST_NAME] for name in sorted(names)]
    shown = shown[:_MOST_NAMED]
    return {IGNORED_HEADER: ", ".join(shown)} if shown else {}
