"""What the pages are given from outside: frozen values and protocols. Knows neither Gradio nor any implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.evaluation_ports import Evaluations, JudgedQueries
from app.ports import Catalog
from app.search_types import SearchRequest, SearchResult
from app.types import Document, TextWindow

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
class AboutInfo:
    """What runs here."""

    model_name: str
    version: str


class SearchService(Protocol):
    def search(self, request: SearchRequest, /, *, explain: bool = True) -> SearchResult:
        """Raises GircseError when the request cannot be answered."""
        ...


class Texts(Protocol):
    def text_window(self, document: Document, start: int, end: int) -> TextWindow:
        """Those of the characters [start, end) that a document has. Raises GircseError with the reason."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """All that the pages work with. Without `add_files` documents can be seen and deleted, but not added.

    Without `judged` and `evaluations` nothing can be measured.
    """

    search: SearchService
    catalog: Catalog
    texts: Texts
    default_steps: int
    max_steps: int
    about: AboutInfo
    examples: Sequence[Example] = ()
    add_files: AddFiles | None = None
    judged: JudgedQueries | None = None
    evaluations: Evaluations | None = None
