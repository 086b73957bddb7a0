"""What interfaces ask of the services, as protocols: those of the core fit them, and so do those with an authorizer.

Every method raises GircseError with the reason when it cannot do what was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
        """The same result, whose hits say why they were found."""
        ...

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        """What the model makes of a query, without a search."""
        ...

    def rerank_texts(
        self, query: str, texts: Sequence[str], *, instruction: str | None = None, values: Sequence[LensValue] = ()
    ) -> list[float]:
        """How well texts of the caller's own answer a query, in their order: higher is better."""
        ...


class Proposals(Protocol):
    def propose(self, instruction: str, collection: str) -> tuple[ValueProposal, ...]:
        """Values that the instruction could tell apart in the collection, best first."""
        ...


class Texts(Protocol):
    def text_window(self, document: Document, start: int, end: int) -> TextWindow:
        """Those of the characters [start, end) that a document has."""
        ...

    def layout(self, document: Document, start: int, end: int) -> TextLayout:
        """Headings, rows and cells in that stretch of its text; none where they are not kept."""
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
    """All that `app.collections.library.Library` does for interfaces."""

    def add_document(self, collection: str, source: Source) -> tuple[Document, Job | None]: ...
    def delete_document(self, document_id: str, *, delay: timedelta = ...) -> Job:
        """No search shows it from now on; until the delay is over, and a worker has done it, it can be restored."""
        ...

    def restore_document(self, document_id: str) -> Job: ...
    def move_documents(self, document_ids: Sequence[str], collection: str) -> list[tuple[Document, Job | None]]:
        """Ingests them into another collection, whose new documents are returned, and deletes them where they are."""
        ...

    def original_file(self, document: Document) -> Path:
        """Where its bytes lie at this moment."""
        ...


class Fetching(Protocol):
    """Brings web pages in, whether or not anybody watches."""

    def add(self, collection: str, urls: Sequence[str], *, allowance: Allowance | None = None) -> None:
        """What is fetched is stored on the account that `allowance` names."""
        ...

    def fetches(self, collection: str) -> list[Fetch]: ...
    def retry(self, collection: str, url: str, *, allowance: Allowance | None = None) -> None: ...
    def forget(self, collection: str, url: str) -> None: ...


class Reindexing(Protocol):
    """Indexes collections anew, whether or not anybody watches."""

    def start(self, name: str, change: ContractChange, *, restart: bool = False) -> ReindexStatus: ...
    def status(self, name: str) -> ReindexStatus: ...
    def roll_back(self, name: str) -> Collection: ...


class LensIndexes(Protocol):
    """The values of all chunks of a collection under a lens, made in the background."""

    def build(self, collection: str, lens: str) -> LensIndexStatus:
        """Queues it: a new one, or one that is there, with the present values of the lens."""
        ...

    def status(self, collection: str) -> list[LensIndexStatus]: ...
    def delete(self, collection: str, lens: str) -> None: ...


class ValueTables(Protocol):
    """Every chunk of a collection with its value under the lens of an index."""

    def csv(self, collection: str, lens: str, *, value: str | None = None) -> Iterator[str]: ...


class ReadingServices(Protocol):
    """The services that change nothing."""

    @property
    def catalog(self) -> Catalog: ...
    @property
    def search(self) -> Search: ...
    @property
    def answers(self) -> Answers: ...
    @property
    def library(self) -> Texts: ...
