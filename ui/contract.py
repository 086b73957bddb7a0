"""What the pages are given from outside: frozen values and protocols. Knows neither Gradio nor any implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.ports import Catalog
from app.search_types import SearchRequest, SearchResult
from app.types import Collection, Document, TextWindow
from app.upkeep_types import ContractChange, Fetch, ReindexStatus


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


class Collections(Protocol):
    """Makes and deletes collections; each raises GircseError with the reason."""

    def create_collection(
        self,
        name: str,
        *,
        document_instruction: str | None = None,
        document_steps: int | None = None,
        chunk_tokens: int = ...,
        chunk_overlap: int = ...,
    ) -> Collection: ...
    def ensure_collection(self, name: str) -> Collection: ...
    def delete_collection(self, name: str) -> None: ...


class Fetching(Protocol):
    """Brings web pages in, whether or not anybody watches; each raises GircseError with the reason."""

    def add(self, collection: str, urls: Sequence[str]) -> None: ...
    def fetches(self, collection: str) -> list[Fetch]: ...
    def retry(self, collection: str, url: str) -> None: ...
    def forget(self, collection: str, url: str) -> None: ...


class Reindexing(Protocol):
    """Indexes collections anew, whether or not anybody watches; each raises GircseError with the reason."""

    def start(self, name: str, change: ContractChange, *, restart: bool = False) -> ReindexStatus: ...
    def status(self, name: str) -> ReindexStatus: ...
    def roll_back(self, name: str) -> Collection: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """All that the pages work with."""

    search: SearchService
    catalog: Catalog
    texts: Texts
    collections: Collections
    fetching: Fetching
    reindexing: Reindexing
    default_steps: int
    max_steps: int
    about: AboutInfo
    examples: Sequence[Example] = ()
