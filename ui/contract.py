"""What the pages need from the application: frozen values and protocols. Knows no Gradio, no implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.ports.evaluation import Evaluations, JudgedQueries
from app.ports.parts import Catalog
from app.types.documents import Collection, Document, TextWindow
from app.types.search import SearchRequest, SearchResult
from app.types.upkeep import ContractChange, Fetch, ReindexStatus


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
    """What runs here, for every user of the pages: no address, path or key.

    `faithfulness` is what was measured of the highlights, in Markdown; empty where nothing was.
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

    def explain(self, result: SearchResult, request: SearchRequest, /) -> SearchResult:
        """The same result, whose hits say why they were found."""
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
    """Fetches web pages in the background; each raises GircseError with the reason."""

    def add(self, collection: str, urls: Sequence[str]) -> None: ...
    def fetches(self, collection: str) -> list[Fetch]: ...
    def retry(self, collection: str, url: str) -> None: ...
    def forget(self, collection: str, url: str) -> None: ...


class Reindexing(Protocol):
    """Re-indexes collections in the background; each raises GircseError with the reason."""

    def start(self, name: str, change: ContractChange, *, restart: bool = False) -> ReindexStatus: ...
    def status(self, name: str) -> ReindexStatus: ...
    def roll_back(self, name: str) -> Collection: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """All that the pages work with. Without `judged` and `evaluations` nothing can be measured.

    `checks` ask a part each whether it can work now, as those of the same name in `Services`.
    """

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
    judged: JudgedQueries | None = None
    evaluations: Evaluations | None = None
    checks: Mapping[str, Callable[[], bool]] = field(default_factory=dict)
    has_logins: bool = False
