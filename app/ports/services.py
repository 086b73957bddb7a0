"""Ports: services for interfaces. Both the core's services and the services behind the guard implement them.

Every method raises GircseError with the reason if it fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from app.ports.answers import Answers
from app.ports.catalog import Catalog
from app.types.documents import Collection, Document, IndexStatus, Job, Source, TextWindow
from app.types.lens_indexes import LensIndexStatus
from app.types.proposals import ValueProposal
from app.types.quotas import Allowance
from app.types.search import SearchRequest, SearchResult
from app.types.texts import TextLayout
from app.types.upkeep import ContractChange, Fetch, ReindexStatus
from app.types.values import LensValue
from embedder.refinement import Refinement


class Search(Protocol):
    def search(self, request: SearchRequest, *, highlight: bool = True) -> SearchResult: ...
    def highlight(self, result: SearchResult) -> SearchResult:
        """The same result, with explanations in its hits."""
        ...

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        """The model's refinement of a query, without a search."""
        ...

    def rerank_texts(
        self, query: str, texts: Sequence[str], *, instruction: str | None = None, values: Sequence[LensValue] = ()
    ) -> list[float]:
        """Scores how well the given texts answer a query, in their order: higher is better."""
        ...


class Proposals(Protocol):
    def propose(self, instruction: str, collection: str) -> tuple[ValueProposal, ...]:
        """Values of the collection that the instruction could distinguish, best first."""
        ...


class Texts(Protocol):
    def text_window(self, document: Document, start: int, end: int) -> TextWindow:
        """The existing part of characters [start, end) of the document."""
        ...

    def layout(self, document: Document, start: int, end: int) -> TextLayout:
        """Headings, rows and cells in that range of the text; empty if none are stored."""
        ...


class Collections(Protocol):
    def create_collection(
        self,
        name: str,
        *,
        document_instruction: str | None = None,
        document_steps: int | None = None,
        chunk_tokens: int = ...,
        chunk_overlap: int = ...,
        chunk_context: bool = ...,
        chunk_structure: bool = ...,
    ) -> Collection: ...
    def ensure_collection(self, name: str) -> Collection: ...
    def delete_collection(self, name: str) -> None: ...
    def index_status(self, name: str) -> IndexStatus: ...
    def optimize_index(self, name: str) -> IndexStatus: ...


class Documents(Texts, Collections, Protocol):
    """The interface of `app.documents.library.Library`."""

    def add_document(self, collection: str, source: Source) -> tuple[Document, Job | None]: ...
    def delete_document(self, document_id: str, *, delay: timedelta = ...) -> Job:
        """Searches hide it immediately; it can be restored until the delay has passed and a worker has deleted it."""
        ...

    def move_documents(self, document_ids: Sequence[str], collection: str) -> list[tuple[Document, Job | None]]:
        """Ingest them into another collection and delete the originals. Returns the new documents."""
        ...

    def original_file(self, document: Document) -> Path:
        """The current path of the document's bytes."""
        ...


class Fetching(Protocol):
    """Fetches web pages in the background."""

    def add(self, collection: str, urls: Sequence[str], *, allowance: Allowance | None = None) -> None:
        """Fetched pages count against the quota that `allowance` names."""
        ...

    def fetches(self, collection: str) -> list[Fetch]: ...
    def retry(self, collection: str, url: str, *, allowance: Allowance | None = None) -> None: ...
    def forget(self, collection: str, url: str) -> None: ...


class Reindexing(Protocol):
    """Reindexes collections in the background."""

    def start(self, name: str, change: ContractChange, *, restart: bool = False) -> ReindexStatus: ...
    def status(self, name: str) -> ReindexStatus: ...
    def roll_back(self, name: str) -> Collection: ...


class LensIndexes(Protocol):
    """Values of all chunks of a collection under a lens, computed in the background."""

    def build(self, collection: str, lens: str) -> LensIndexStatus:
        """Queue a lens index with the current values of the lens; rebuilds an existing one."""
        ...

    def status(self, collection: str) -> list[LensIndexStatus]: ...
    def delete(self, collection: str, lens: str) -> None: ...


class ReadingServices(Protocol):
    """The read-only services."""

    @property
    def catalog(self) -> Catalog: ...
    @property
    def search(self) -> Search: ...
    @property
    def answers(self) -> Answers: ...
    @property
    def library(self) -> Texts: ...
