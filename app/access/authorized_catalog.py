"""The catalog as interfaces see it: the port `Catalog`, each method of which asks the authorizer first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from app.access.authorizer import Authorizer
from app.errors import UnknownDocumentError, UnknownJobError
from app.ports.catalog import Catalog
from app.search.judgements import LOCAL_PERSON
from app.types.access import Role
from app.types.documents import (
    Chunk,
    Collection,
    CountedCollection,
    Document,
    DocumentState,
    FacetValue,
    IndexRole,
    Job,
    JobState,
    Judgement,
    Lens,
    PageStart,
)
from app.types.evaluation import JudgementSource
from app.types.idempotency import IdempotencyRecord
from app.types.search import Leg

READER, EDITOR = Role.READER, Role.EDITOR


class AuthorizedCatalog:
    def __init__(self, catalog: Catalog, authorizer: Authorizer) -> None:
        self._catalog = catalog
        self._authorizer = authorizer

    # Collections

    def collection(self, name: str) -> Collection:
        with self._authorizer.require_access(READER, name):
            return self._catalog.collection(name)

    def counted_collection(self, name: str) -> CountedCollection:
        with self._authorizer.require_access(READER, name):
            return self._catalog.counted_collection(name)

    def collections(self) -> list[CountedCollection]:
        return self._authorizer.visible()

    def standby(self, collection: str, role: IndexRole) -> Collection | None:
        with self._authorizer.require_access(READER, collection):
            return self._catalog.standby(collection, role)

    def pause(self, collection: str | None = None) -> list[str]:
        return [name for each in self._named(EDITOR, collection) for name in self._catalog.pause(each)]

    def resume(self, collection: str | None = None) -> list[str]:
        return [name for each in self._named(EDITOR, collection) for name in self._catalog.resume(each)]

    # Documents

    def document(self, document_id: str) -> Document:
        document = self._catalog.document(document_id)
        if not self._authorizer.require_role().covers(document.collection):
            raise UnknownDocumentError.of(document_id)  # as for an unknown id
        return document

    def documents(
        self, collection: str | None = None, *, state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]:
        with self._authorizer.require_access(READER, *self._one_or_all(collection)):
            return self._catalog.documents(collection, state=state, limit=limit, offset=offset)

    def find_documents(
        self, collection: str, *, text: str = "", state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]:
        with self._authorizer.require_access(READER, collection):
            return self._catalog.find_documents(collection, text=text, state=state, limit=limit, offset=offset)

    def count_documents(self, collection: str, *, text: str = "") -> dict[DocumentState, int]:
        with self._authorizer.require_access(READER, collection):
            return self._catalog.count_documents(collection, text=text)

    def submit_delete(self, document_id: str, *, delay: timedelta = timedelta()) -> Job:
        document = self.document(document_id)
        with self._authorizer.require_access(EDITOR, document.collection):
            self._authorizer.note("document.deleted", document.id, {"collection": document.collection})
            return self._catalog.submit_delete(document_id, delay=delay)

    def restore_document(self, document_id: str) -> Job:
        document = self.document(document_id)
        with self._authorizer.require_access(EDITOR, document.collection):
            self._authorizer.note("document.restored", document.id, {"collection": document.collection})
            return self._catalog.restore_document(document_id)

    def chunks(self, document_id: str) -> list[Chunk]:
        return self._catalog.chunks(self.document(document_id).id)

    def find_chunk(self, document_id: str, chunk_id: str) -> Chunk | None:
        return self._catalog.find_chunk(self.document(document_id).id, chunk_id)

    def page_starts(self, document_id: str, *, start: int, end: int) -> list[PageStart]:
        return self._catalog.page_starts(self.document(document_id).id, start=start, end=end)

    def facets(self, collection: str, filters: Mapping[str, str] | None = None) -> dict[str, list[FacetValue]]:
        with self._authorizer.require_access(READER, collection):
            return self._catalog.facets(collection, filters)

    # Jobs

    def job(self, job_id: str) -> Job:
        job = self._catalog.job(job_id)
        if not self._authorizer.require_role().covers(job.collection):
            raise UnknownJobError.of(job_id)
        return job

    def jobs(
        self, *, state: JobState | None = None, collection: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[Job]:
        with self._authorizer.require_access(READER, *self._one_or_all(collection)):
            return self._catalog.jobs(state=state, collection=collection, limit=limit, offset=offset)

    def job_counts(self, collection: str | None = None) -> dict[JobState, int]:
        with self._authorizer.require_access(READER, *self._one_or_all(collection)):
            return self._catalog.job_counts(collection)

    def latest_jobs(self, document_ids: Sequence[str]) -> dict[str, Job]:
        principal = self._authorizer.require_role()
        found = self._catalog.latest_jobs(document_ids)
        return {document_id: job for document_id, job in found.items() if principal.covers(job.collection)}

    def retry(self, job_id: str) -> Job:
        with self._authorizer.require_access(EDITOR, self.job(job_id).collection):
            return self._catalog.retry(job_id)

    def retry_dead(self, collection: str | None = None) -> int:
        return sum(self._catalog.retry_dead(each) for each in self._named(EDITOR, collection))

    def cancel(self, job_id: str) -> Job:
        with self._authorizer.require_access(EDITOR, self.job(job_id).collection):
            return self._catalog.cancel(job_id)

    # Lenses: visible to all

    def lenses(self) -> list[Lens]:
        self._authorizer.require_role()
        return self._catalog.lenses()

    def lens(self, name: str) -> Lens:
        self._authorizer.require_role()
        return self._catalog.lens(name)

    def save_lens(self, lens: Lens) -> None:
        self._authorizer.require_role(EDITOR)
        self._catalog.save_lens(lens)

    def delete_lens(self, name: str) -> None:
        self._authorizer.require_role(EDITOR)
        self._catalog.delete_lens(name)

    # Judgements: each person's are their own

    def save_judgement(self, judgement: Judgement) -> None:
        self._catalog.save_judgement(self._own(judgement))

    def delete_judgement(self, judgement: Judgement) -> bool:
        return self._catalog.delete_judgement(self._own(judgement))

    def judgement_pages(self, collection: str) -> Iterator[list[Judgement]]:
        with self._authorizer.require_access(READER, collection):
            return self._catalog.judgement_pages(collection)

    def judgement_sources(self, collection: str) -> list[JudgementSource]:
        with self._authorizer.require_access(READER, collection):
            return self._catalog.judgement_sources(collection)

    # Tuned weights

    def leg_weights(self, collection: str) -> Mapping[Leg, float] | None:
        with self._authorizer.require_access(READER, collection):
            return self._catalog.leg_weights(collection)

    # Answers under idempotency keys: each caller's are their own

    def begin_answer(self, caller: str, key: str, *, digest: str, lease: timedelta) -> IdempotencyRecord | None:
        self._authorizer.require_role(EDITOR)
        return self._catalog.begin_answer(caller, key, digest=digest, lease=lease)

    def keep_answer(self, caller: str, key: str, *, status: int, body: str, keep: timedelta) -> None:
        self._catalog.keep_answer(caller, key, status=status, body=body, keep=keep)

    def forget_answer(self, caller: str, key: str) -> None:
        self._catalog.forget_answer(caller, key)

    def is_alive(self) -> bool:
        return self._catalog.is_alive()

    def _own(self, judgement: Judgement) -> Judgement:
        """In the name of the caller, who must be allowed to judge the document."""
        with self._authorizer.require_access(EDITOR, self.document(judgement.document_id).collection) as principal:
            is_local = judgement.judged_by == LOCAL_PERSON and not principal.is_operator
            return replace(judgement, judged_by=principal.name) if is_local else judgement

    def _one_or_all(self, collection: str | None) -> tuple[str, ...]:
        """What the authorizer is to be asked for: the one that is named, or all there are."""
        if collection is not None:
            return (collection,)
        self._authorizer.require_everywhere(READER)
        return ()

    def _named(self, role: Role, collection: str | None) -> list[str | None]:
        """The one that is named, or each that may be seen; None where that is all of them."""
        if collection is not None:
            with self._authorizer.require_access(role, collection):
                return [collection]
        if self._authorizer.require_role(role).sees_everything:
            return [None]
        return [each.name for each in self._authorizer.visible()]
