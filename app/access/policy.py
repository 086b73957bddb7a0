"""Access policy: a rule for every method that interfaces can call. `app/access/guard.py` applies the rules.

The functions above the table find the collections of a call, fill in arguments, or compute results that depend on the
caller.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TypeVar

from app.access.guard import Access, Audit, Rule, Rules, Subject
from app.errors import ForbiddenError, NotFoundError, UnknownDocumentError, UnknownJobError
from app.evaluation.background import unknown_run
from app.ports.catalog import Catalog
from app.ports.evaluation import Evaluations
from app.ports.services import Documents
from app.search.judgements import LOCAL_PERSON
from app.types.access import Role, Scope
from app.types.answers import AnswerRequest
from app.types.documents import CountedCollection, Document, Job, Judgement, Source
from app.types.evaluation import Difference, EvaluationPlan, EvaluationRun
from app.types.quotas import Allowance
from app.types.search import ALL_COLLECTIONS, SearchRequest, SearchResult

READER, EDITOR, ADMIN = Role.READER, Role.EDITOR, Role.ADMIN

Request = TypeVar("Request", SearchRequest, AnswerRequest, SearchResult)


# The collections of a call


def one(access: Access, name: str) -> tuple[str, ...]:
    return (name,)


def one_or_visible(access: Access, name: str | None) -> tuple[str, ...]:
    """Without a name, the called function uses all collections that the caller sees."""
    return () if name is None else (name,)


def one_or_all(access: Access, name: str | None) -> tuple[str, ...]:
    if name is None:
        access.authorizer.require_everywhere(READER)
        return ()
    return (name,)


def all_for_reader(access: Access, nothing: None) -> tuple[str, ...]:
    """For results about all collections: the caller must see all of them."""
    access.authorizer.require_everywhere(READER)
    return ()


def all_for_admin(access: Access, nothing: None) -> tuple[str, ...]:
    access.authorizer.require_everywhere(ADMIN)
    return ()


def new_name(access: Access, name: str) -> tuple[str, ...]:
    """Rejects a name outside the caller's patterns, whether or not such a collection exists."""
    principal = access.authorizer.require_role(EDITOR)
    if not principal.covers(name):
        own = ", ".join(principal.key_collections if "*" in principal.collections else principal.collections)
        raise ForbiddenError(f"You may not create {name!r}: your collections are {own or 'none'}.")
    return (name,)


def of_document_id(access: Access, document_id: str) -> tuple[str, ...]:
    return (_document(access, document_id).collection,)


def of_document_ids(access: Access, document_ids: Sequence[str]) -> tuple[str, ...]:
    return tuple({_document(access, document_id).collection: None for document_id in document_ids})


def of_job_id(access: Access, job_id: str) -> tuple[str, ...]:
    return (_job(access, job_id).collection,)


def of_document(access: Access, document: Document) -> tuple[str, ...]:
    return (document.collection,)


def of_judgement(access: Access, judgement: Judgement) -> tuple[str, ...]:
    return of_document_id(access, judgement.document_id)


def of_request(access: Access, request: SearchRequest | AnswerRequest) -> tuple[str, ...]:
    """A search of all collections is limited by `among_visible` instead."""
    return () if request.collection == ALL_COLLECTIONS else (request.collection,)


def of_hits(access: Access, result: SearchResult) -> tuple[str, ...]:
    if result.collection == ALL_COLLECTIONS:
        return tuple({hit.document.collection: None for hit in result.hits})
    return (result.collection,)


def of_source_id(access: Access, source_id: str) -> tuple[str, ...]:
    """The source of a hidden collection is reported as unknown."""
    principal = access.authorizer.require_role(EDITOR)
    source = access.catalog.sources.get(source_id)
    if not principal.covers(source.collection):
        raise NotFoundError(f"No source with the id {source_id[:80]!r}.")
    return (source.collection,)


def of_plan(access: Access, plan: EvaluationPlan) -> tuple[str, ...]:
    return (plan.judged_in, *plan.collections)


# Arguments that depend on the caller


def among_visible(access: Access, request: Request) -> Request:
    if request.collection == ALL_COLLECTIONS:
        return replace(request, among=access.authorizer.visible_names())
    return request


def all_or_visible(access: Access, collections: Container[str] | None) -> Container[str] | None:
    return None if access.authorizer.require_role().sees_everything else access.authorizer.visible_names()


def own_allowance(access: Access, allowance: Allowance | None) -> Allowance | None:
    return access.quotas.allowance(access.authorizer.require_role())


def on_own_account(access: Access, source: Source) -> Source:
    return replace(source, allowance=own_allowance(access, None))


def own_name(access: Access, name: str) -> str:
    return access.authorizer.require_role().name


def in_own_name(access: Access, judgement: Judgement) -> Judgement:
    """A judgement without a person becomes the caller's, unless the caller is the operator, who is no person."""
    principal = access.authorizer.require_role()
    if judgement.judged_by != LOCAL_PERSON or principal.is_operator:
        return judgement
    return replace(judgement, judged_by=principal.name)


# Results that depend on the caller


def visible_document(access: Access, catalog: Catalog, document_id: str) -> Document:
    return _document(access, document_id)


def visible_job(access: Access, catalog: Catalog, job_id: str) -> Job:
    return _job(access, job_id)


def visible_collections(access: Access, catalog: Catalog) -> list[CountedCollection]:
    return access.authorizer.visible()


def visible_jobs(access: Access, catalog: Catalog, document_ids: Sequence[str]) -> dict[str, Job]:
    principal = access.authorizer.require_role()
    jobs = catalog.latest_jobs(document_ids)
    return {document_id: job for document_id, job in jobs.items() if principal.covers(job.collection)}


def pause_visible(access: Access, catalog: Catalog, collection: str | None = None) -> list[str]:
    return [name for visible in _each_visible(access, collection) for name in catalog.pause(visible)]


def resume_visible(access: Access, catalog: Catalog, collection: str | None = None) -> list[str]:
    return [name for visible in _each_visible(access, collection) for name in catalog.resume(visible)]


def retry_visible(access: Access, catalog: Catalog, collection: str | None = None) -> int:
    return sum(catalog.retry_dead(visible) for visible in _each_visible(access, collection))


def move_noted(
    access: Access, library: Documents, document_ids: Sequence[str], collection: str
) -> list[tuple[Document, Job | None]]:
    documents = [access.catalog.document(document_id) for document_id in document_ids]
    moved = library.move_documents(document_ids, collection)
    details = {document.id: {"collection": document.collection, "to": collection} for document in documents}
    access.authorizer.note_all_done("document.moved", details)
    return moved


def visible_runs(access: Access, evaluations: Evaluations) -> list[EvaluationRun]:
    return [run for run in evaluations.runs() if _is_visible(access, run)]


def visible_run(access: Access, evaluations: Evaluations, run_id: str) -> EvaluationRun:
    run = evaluations.run(run_id)
    if not _is_visible(access, run):
        raise unknown_run(run_id)
    return run


def cancel_visible(access: Access, evaluations: Evaluations, run_id: str) -> EvaluationRun:
    return evaluations.cancel(visible_run(access, evaluations, run_id).id)


def compare_visible(access: Access, evaluations: Evaluations, run_id: str, *, baseline: int = 0) -> list[Difference]:
    return evaluations.compare(visible_run(access, evaluations, run_id).id, baseline=baseline)


def _document(access: Access, document_id: str) -> Document:
    """A hidden document is reported as unknown."""
    principal = access.authorizer.require_role()
    document = access.catalog.document(document_id)
    if not principal.covers(document.collection):
        raise UnknownDocumentError.of(document_id)
    return document


def _job(access: Access, job_id: str) -> Job:
    principal = access.authorizer.require_role()
    job = access.catalog.job(job_id)
    if not principal.covers(job.collection):
        raise UnknownJobError.of(job_id)
    return job


def _each_visible(access: Access, collection: str | None) -> list[str | None]:
    """The named collection, else each collection that the caller sees; [None] if they see all."""
    if collection is not None:
        return [collection]
    if access.authorizer.require_role().sees_everything:
        return [None]
    return [visible.name for visible in access.authorizer.visible()]


def _is_visible(access: Access, run: EvaluationRun) -> bool:
    """An evaluation is visible to users who see all of its collections."""
    principal = access.authorizer.require_role()
    return all(map(principal.covers, of_plan(access, run.plan)))


# The rules

IN_COLLECTION, IN_NAME = (Subject("collection", one),), (Subject("name", one),)
IN_ONE_OR_ALL, IN_ONE_OR_VISIBLE = (Subject("collection", one_or_all),), (Subject("collection", one_or_visible),)
AS_NEW = (Subject("name", new_name),)
BY_DOCUMENT_ID, BY_JOB_ID = (Subject("document_id", of_document_id),), (Subject("job_id", of_job_id),)
BY_DOCUMENT, BY_SOURCE_ID = (Subject("document", of_document),), (Subject("source_id", of_source_id),)
BY_JUDGEMENT, BY_REQUEST = (Subject("judgement", of_judgement),), (Subject("request", of_request),)

OPEN = Rule(None)  # for anyone, even without a login
READS, READS_ONE, READS_DOCUMENT = Rule(READER), Rule(READER, IN_COLLECTION), Rule(READER, BY_DOCUMENT)
SEARCHES = Rule(READER, BY_REQUEST, give={"request": among_visible})
FETCHES = Rule(EDITOR, IN_COLLECTION, give={"allowance": own_allowance})
DELETES = Rule(EDITOR, BY_DOCUMENT_ID, audit=Audit("document.deleted", "document_id", ("collection",)))

CATALOG: Rules = {
    # Collections
    "collection": Rule(READER, IN_NAME),
    "counted_collection": Rule(READER, IN_NAME),
    "created_at": Rule(READER, IN_NAME),
    "collections": Rule(READER, instead=visible_collections),
    "pause": Rule(EDITOR, IN_ONE_OR_VISIBLE, instead=pause_visible),
    "resume": Rule(EDITOR, IN_ONE_OR_VISIBLE, instead=resume_visible),
    # Documents
    "document": Rule(READER, instead=visible_document),
    "documents": Rule(READER, IN_ONE_OR_ALL),
    "find_documents": READS_ONE,
    "count_documents": READS_ONE,
    "submit_delete": DELETES,
    "restore_document": Rule(EDITOR, BY_DOCUMENT_ID, audit=Audit("document.restored", "document_id", ("collection",))),
    "chunks": Rule(READER, BY_DOCUMENT_ID),
    "find_chunk": Rule(READER, BY_DOCUMENT_ID),
    "page_starts": Rule(READER, BY_DOCUMENT_ID),
    "facets": READS_ONE,
    # Jobs
    "job": Rule(READER, instead=visible_job),
    "jobs": Rule(READER, IN_ONE_OR_ALL),
    "job_counts": Rule(READER, IN_ONE_OR_ALL),
    "latest_jobs": Rule(READER, instead=visible_jobs),
    "retry": Rule(EDITOR, BY_JOB_ID),
    "retry_dead": Rule(EDITOR, IN_ONE_OR_VISIBLE, instead=retry_visible),
    "cancel": Rule(EDITOR, BY_JOB_ID),
    # Lenses do not belong to a collection
    "lenses": READS,
    "lens": READS,
    "save_lens": Rule(
        EDITOR,
        give={"indexed_in": all_or_visible},
        audit=Audit("lens.saved", "lens", subject_of=attrgetter("name")),
    ),
    "delete_lens": Rule(EDITOR, give={"indexed_in": all_or_visible}, audit=Audit("lens.deleted", "name")),
    # Judgements
    "save_judgement": Rule(EDITOR, BY_JUDGEMENT, give={"judgement": in_own_name}),
    "delete_judgement": Rule(EDITOR, BY_JUDGEMENT, give={"judgement": in_own_name}),
    "judgements": READS_ONE,
    "judgement_pages": READS_ONE,
    "judgement_sources": READS_ONE,
}

# `begin` comes first; the routes name the caller.
IDEMPOTENCY: Rules = {"begin": Rule(EDITOR), "keep": OPEN, "forget": OPEN}

SEARCH: Rules = {
    "search": SEARCHES,
    "highlight": Rule(READER, (Subject("result", of_hits),), give={"result": among_visible}),
    "refine": READS,
    "rerank_texts": READS,
}

ANSWERS: Rules = {"model": Rule(None, is_value=True), "answer": SEARCHES, "stream": SEARCHES}

PROPOSALS: Rules = {"propose": READS_ONE}

LIBRARY: Rules = {
    "create_collection": Rule(EDITOR, AS_NEW, audit=Audit("collection.created", "name", after=True)),
    "ensure_collection": Rule(EDITOR, AS_NEW),
    "delete_collection": Rule(EDITOR, IN_NAME, audit=Audit("collection.deleted", "name")),
    "add_document": Rule(EDITOR, IN_COLLECTION, give={"source": on_own_account}),
    "delete_document": DELETES,
    "move_documents": Rule(
        EDITOR,
        (*IN_COLLECTION, Subject("document_ids", of_document_ids)),
        instead=move_noted,
        notes=("document.moved",),
    ),
    "index_status": Rule(READER, IN_NAME),
    "optimize_index": Rule(EDITOR, IN_NAME),
    "text_window": READS_DOCUMENT,
    "layout": READS_DOCUMENT,
    "original_file": READS_DOCUMENT,
}

PAGES: Rules = {"page": READS_DOCUMENT, "image": READS_DOCUMENT}

FETCHING: Rules = {
    "add": FETCHES,
    "fetches": READS_ONE,
    "retry": FETCHES,
    "forget": Rule(EDITOR, IN_COLLECTION),
}

REINDEXING: Rules = {
    "start": Rule(EDITOR, IN_NAME, audit=Audit("collection.reindexed", "name")),
    "status": Rule(READER, IN_NAME),
    "roll_back": Rule(EDITOR, IN_NAME, audit=Audit("collection.rolled-back", "name")),
}

LENS_INDEXES: Rules = {
    "build": Rule(EDITOR, IN_COLLECTION, audit=Audit("lens-index.queued", "collection", ("lens",))),
    "status": READS_ONE,
    "delete": Rule(EDITOR, IN_COLLECTION, audit=Audit("lens-index.deleted", "collection", ("lens",))),
}

VALUE_TABLES: Rules = {"csv": READS_ONE}

JUDGED: Rules = {
    "sources": READS_ONE,
    "queries": READS_ONE,
    "import_files": Rule(EDITOR, IN_COLLECTION),
    "forget_import": Rule(EDITOR, IN_COLLECTION),
}

TUNING: Rules = {
    "weights": READS_ONE,
    "tune": Rule(
        EDITOR,
        IN_COLLECTION,
        give={"tuned_by": own_name},
        audit=Audit("weights.tuned", "collection", after=True, applied=attrgetter("is_applied")),
    ),
    "undo": Rule(EDITOR, IN_COLLECTION, audit=Audit("weights.undone", "collection", after=True)),
}

EVALUATIONS: Rules = {
    "start": Rule(EDITOR, (Subject("plan", of_plan),)),
    "runs": Rule(READER, instead=visible_runs),
    "run": Rule(READER, instead=visible_run),
    "cancel": Rule(EDITOR, instead=cancel_visible),
    "compare": Rule(READER, instead=compare_visible),
}

# These services know their caller and filter by owner themselves.

ACCOUNTS: Rules = {
    "me": READS,
    "users": Rule(ADMIN),
    "user": Rule(ADMIN),
    "add_user": Rule(ADMIN, scope=Scope.ACCESS, notes=("user.added",)),
    "change_user": Rule(ADMIN, scope=Scope.ACCESS, notes=("user.changed",)),
    "identities": Rule(ADMIN),
    "connect_user": Rule(ADMIN, scope=Scope.ACCESS, notes=("user.connected",)),
    "disconnect_user": Rule(ADMIN, scope=Scope.ACCESS, audit=Audit("user.disconnected", "name", after=True)),
    "has_own_password": READS,
    "change_own_password": Rule(READER, notes=("password.changed", "password.refused")),
    "remove_user": Rule(ADMIN, scope=Scope.ACCESS, audit=Audit("user.removed", "name", after=True)),
    "quota_use": READS,
    "sessions": READS,
    "end_session": Rule(READER, notes=("session.ended",)),
    "end_other_sessions": Rule(READER, scope=Scope.ACCESS, notes=("session.ended",)),
    "api_keys": READS,
    "add_key": Rule(READER, scope=Scope.ACCESS, notes=("key.added",)),
    "revoke_key": Rule(READER, notes=("key.revoked",)),
    "audit_entries": Rule(ADMIN, (Subject(None, all_for_admin),)),
}

APPLICATION_METRICS: Rules = {"render": Rule(READER, (Subject(None, all_for_reader),))}

OWN_SEARCHES: Rules = {
    "history_limit": Rule(None, is_value=True),
    "saved": READS,
    "find": READS,
    "save": READS,
    "rename": READS,
    "delete": READS,
    "history": READS,
    "record": READS,
    "forget": READS,
}

STANDING: Rules = {
    "watch": READS,
    "unwatch": READS,
    "standing": READS,
    "find": READS,
    "renew_feed": READS,
    "news": READS,
    "mark_seen": READS,
    "failures": READS,
    "alerts": READS,
    "feed": OPEN,  # the secret address authorizes; its owner must still have read access
}

SOURCES: Rules = {
    "sources": READS_ONE,
    "add": Rule(EDITOR, IN_COLLECTION, notes=("source.added",)),
    "credentials": Rule(EDITOR),
    "delete": Rule(EDITOR, BY_SOURCE_ID, notes=("source.deleted",)),
    "hurry": Rule(EDITOR, BY_SOURCE_ID),
}

POLICY: Mapping[str, Rules] = {
    "catalog": CATALOG,
    "idempotency": IDEMPOTENCY,
    "search": SEARCH,
    "answers": ANSWERS,
    "proposals": PROPOSALS,
    "library": LIBRARY,
    "pages": PAGES,
    "judged": JUDGED,
    "evaluations": EVALUATIONS,
    "tuning": TUNING,
    "accounts": ACCOUNTS,
    "application_metrics": APPLICATION_METRICS,
    "fetching": FETCHING,
    "reindexing": REINDEXING,
    "lens_indexes": LENS_INDEXES,
    "value_tables": VALUE_TABLES,
    "own_searches": OWN_SEARCHES,
    "standing": STANDING,
    "sources": SOURCES,
}
