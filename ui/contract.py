"""What the pages are given from outside: frozen values and protocols. Knows neither Gradio nor any implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.ports import Catalog
from app.search_types import SearchRequest, SearchResult
from app.types import Document

AddFiles = Callable[[str, list[Path]], list[Document]]
"""(collection, files) -> the documents that were queued. Raises GircseError."""


@dataclass(frozen=True, slots=True)
class PageLink:
    name: str
    path: str


SEARCH = PageLink("Search", "/")
COMPARE = PageLink("Compare", "/compare")
DOCUMENTS = PageLink("Documents", "/documents")
EVALUATE = PageLink("Evaluate", "/evaluate")
ABOUT = PageLink("About", "/about")


@dataclass(frozen=True, slots=True)
class Example:
    """A search to try with one click."""

    query: str
    instruction: str


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`card` is the model's own description in Markdown, where it brings one."""

    fingerprint: str
    dimension: int
    query_instruction: str
    query_steps: int
    document_instruction: str
    document_steps: int
    max_steps: int
    card: str | None = None


@dataclass(frozen=True, slots=True)
class AboutInfo:
    """What runs here, for everybody who can open the pages: no address, path or key of anything.

    `faithfulness` is what was measured of the explanations, in Markdown; empty where nothing was.
    """

    model_name: str
    version: str
    model: ModelFacts | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    catalog_kind: str = ""
    index_kind: str = ""
    faithfulness: str = ""


class SearchService(Protocol):
    def search(self, request: SearchRequest, /, *, explain: bool = True) -> SearchResult:
        """Raises GircseError when the request cannot be answered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """All that the pages work with. Without `add_files` documents can be seen and deleted, but not added.

    `checks` ask a part each whether it can work now, as those of the same name in `Services`.
    """

    search: SearchService
    catalog: Catalog
    default_steps: int
    max_steps: int
    about: AboutInfo
    examples: Sequence[Example] = ()
    add_files: AddFiles | None = None
    checks: Mapping[str, Callable[[], bool]] = field(default_factory=dict)
