"""Search, library and what else doors work with, each behind the gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO, cast

from app.access.authorized_catalog import GuardedCatalog
from app.access.authorizer import Authorizer
from app.access.principal import Role
from app.collections.background_reindex import Reindexing
from app.collections.fetching import Fetching
from app.collections.library import CHUNK_OVERLAP, CHUNK_TOKENS, Library
from app.errors import ForbiddenError
from app.evaluation.background import unknown_run
from app.ports.evaluation import Evaluations, JudgedQueries
from app.ports.parts import Catalog
from app.search.service import SearchService
from app.services import Services
from app.types.documents import Collection, Document, IndexStatus, Job, Metadata, TextWindow
from app.types.evaluation import (
    Difference,
    EvaluationPlan,
    EvaluationRun,
    ImportReport,
    JudgedQuery,
    JudgementFile,
    JudgementSource,
)
from app.types.search import QueryEmbedding, SearchRequest, SearchResult
from app.types.upkeep import ContractChange, Fetch, ReindexStatus

READER, EDITOR = Role.READER, Role.EDITOR


class GuardedSearch:
    def __init__(self, search: SearchService, gate: Authorizer) -> None:
        self._search = search
        self._authorizer = gate

    def search(self, request: SearchRequest, *, explain: bool = True) -> SearchResult:
        with self._authorizer.passing(READER, request.collection):
            return self._search.search(request, explain=explain)

    def explain(self, result: SearchResult, request: SearchRequest) -> SearchResult:
        with self._authorizer.passing(READER, request.collection, result.collection):
            return self._search.explain(result, request)

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> QueryEmbedding:
        self._authorizer.who()
        return self._search.refine(text, instruction=instruction, steps=steps, token_bias=token_bias)


class GuardedLibrary:
    def __init__(self, library: Library, catalog: GuardedCatalog, gate: Authorizer) -> None:
        self._library = library
        self._catalog = catalog
        self._authorizer = gate

    def create_collection(
        self,
        name: str,
        *,
        document_instruction: str | None = None,
        document_steps: int | None = None,
        chunk_tokens: int = CHUNK_TOKENS,
        chunk_overlap: int = CHUNK_OVERLAP,
    ) -> Collection:
        self._require_own_name(name)
        made = self._library.create_collection(
            name,
            document_instruction=document_instruction,
            document_steps=document_steps,
            chunk_tokens=chunk_tokens,
            chunk_overlap=chunk_overlap,
        )
        self._authorizer.note("collection.created", name)
        return made

    def ensure_collection(self, name: str) -> Collection:
        self._require_own_name(name)
        return self._library.ensure_collection(name)

    def delete_collection(self, name: str) -> None:
        with self._authorizer.passing(EDITOR, name):
            self._authorizer.note("collection.deleted", name)
            self._library.delete_collection(name)

    def add_document(
        self,
        collection: str,
        content: bytes | BinaryIO,
        *,
        uri: str,
        media_type: str,
        title: str = "",
        metadata: Metadata | None = None,
    ) -> tuple[Document, Job | None]:
        with self._authorizer.passing(EDITOR, collection):
            return self._library.add_document(
                collection, content, uri=uri, media_type=media_type, title=title, metadata=metadata
            )

    def delete_document(self, document_id: str) -> Job:
        document = self._catalog.document(document_id)
        with self._authorizer.passing(EDITOR, document.collection):
            self._authorizer.note("document.deleted", document.id, {"collection": document.collection})
            return self._library.delete_document(document_id)

    def index_status(self, name: str) -> IndexStatus:
        with self._authorizer.passing(READER, name):
            return self._library.index_status(name)

    def optimize_index(self, name: str) -> IndexStatus:
        with self._authorizer.passing(EDITOR, name):
            return self._library.optimize_index(name)

    def text_window(self, document: Document, start: int, end: int) -> TextWindow:
        with self._authorizer.passing(READER, document.collection):
            return self._library.text_window(document, start, end)

    def _require_own_name(self, name: str) -> None:
        """A name that is another's is refused whether or not there is a collection of it."""
        principal = self._authorizer.who(EDITOR)
        if not principal.covers(name):
            own = ", ".join(principal.key_collections if "*" in principal.collections else principal.collections)
            raise ForbiddenError(f"You may not make {name!r}: your collections are {own or 'none'}.")


class GuardedFetching:
    def __init__(self, fetching: Fetching, gate: Authorizer) -> None:
        self._fetching = fetching
        self._authorizer = gate

    def add(self, collection: str, urls: Sequence[str]) -> None:
        with self._authorizer.passing(EDITOR, collection):
            self._fetching.add(collection, urls)

    def fetches(self, collection: str) -> list[Fetch]:
        with self._authorizer.passing(READER, collection):
            return self._fetching.fetches(collection)

    def retry(self, collection: str, url: str) -> None:
        with self._authorizer.passing(EDITOR, collection):
            self._fetching.retry(collection, url)

    def forget(self, collection: str, url: str) -> None:
        with self._authorizer.passing(EDITOR, collection):
            self._fetching.forget(collection, url)


class GuardedReindexing:
    def __init__(self, reindexing: Reindexing, gate: Authorizer) -> None:
        self._reindexing = reindexing
        self._authorizer = gate

    def start(self, name: str, change: ContractChange, *, restart: bool = False) -> ReindexStatus:
        with self._authorizer.passing(EDITOR, name):
            self._authorizer.note("collection.reindexed", name)
            return self._reindexing.start(name, change, restart=restart)

    def status(self, name: str) -> ReindexStatus:
        with self._authorizer.passing(READER, name):
            return self._reindexing.status(name)

    def roll_back(self, name: str) -> Collection:
        with self._authorizer.passing(EDITOR, name):
            self._authorizer.note("collection.rolled-back", name)
            return self._reindexing.roll_back(name)


class GuardedJudged:
    def __init__(self, judged: JudgedQueries, gate: Authorizer) -> None:
        self._judged = judged
        self._authorizer = gate

    def sources(self, collection: str) -> list[JudgementSource]:
        with self._authorizer.passing(READER, collection):
            return self._judged.sources(collection)

    def queries(self, collection: str, *, judged_by: Sequence[str] = ()) -> list[JudgedQuery]:
        with self._authorizer.passing(READER, collection):
            return self._judged.queries(collection, judged_by=judged_by)

    def import_files(
        self,
        collection: str,
        files: Iterable[JudgementFile],
        *,
        name: str | None = None,
        instruction: str | None = None,
    ) -> ImportReport:
        with self._authorizer.passing(EDITOR, collection):
            return self._judged.import_files(collection, files, name=name, instruction=instruction)

    def forget_import(self, collection: str, judged_by: str) -> int:
        with self._authorizer.passing(EDITOR, collection):
            return self._judged.forget_import(collection, judged_by)


class GuardedEvaluations:
    """An evaluation can be seen by whoever sees all collections that it asks."""

    def __init__(self, evaluations: Evaluations, gate: Authorizer) -> None:
        self._evaluations = evaluations
        self._authorizer = gate

    def start(self, plan: EvaluationPlan) -> EvaluationRun:
        with self._authorizer.passing(EDITOR, *_asked(plan)):
            return self._evaluations.start(plan)

    def runs(self) -> list[EvaluationRun]:
        return [run for run in self._evaluations.runs() if self._is_seen(run)]

    def run(self, run_id: str) -> EvaluationRun:
        run = self._evaluations.run(run_id)
        if not self._is_seen(run):
            raise unknown_run(run_id)
        return run

    def cancel(self, run_id: str) -> EvaluationRun:
        self._authorizer.who(EDITOR)
        return self._evaluations.cancel(self.run(run_id).id)

    def compare(self, run_id: str, *, baseline: int = 0) -> list[Difference]:
        return self._evaluations.compare(self.run(run_id).id, baseline=baseline)

    def close(self) -> None:
        self._evaluations.close()

    def _is_seen(self, run: EvaluationRun) -> bool:
        principal = self._authorizer.who()
        return all(map(principal.covers, _asked(run.plan)))


def guard_services(services: Services, gate: Authorizer) -> Services:
    """What doors are given. Bytes and vectors are reached through documents and searches, which are as_handler."""
    catalog = GuardedCatalog(services.catalog, gate)
    return replace(
        services,
        catalog=cast("Catalog", catalog),
        search=cast("SearchService", GuardedSearch(services.search, gate)),
        library=cast("Library", GuardedLibrary(services.library, catalog, gate)),
        evaluations=GuardedEvaluations(services.evaluations, gate),
    )


def _asked(plan: EvaluationPlan) -> tuple[str, ...]:
    return (plan.judged_in, *plan.collections)
