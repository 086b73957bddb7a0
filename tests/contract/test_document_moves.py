"""Documents are listed by where they come from, keep their id when their file moves, move to another collection, and
stay when their deletion is called off; on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from catalog_samples import LEASE, LIBRARY, Clock, claimed, new_chunk, new_document

from app.catalog import SqlCatalog
from app.errors import ConflictError, LeaseLostError, UnknownCollectionError, UnknownDocumentError
from app.types.documents import DocumentState, Job, JobKind, JobState


def finished(catalog: SqlCatalog) -> Job:
    """Does the one job that is due, as a worker would."""
    job = claimed(catalog)
    catalog.complete_ingest(job, title="Found", metadata={"pages": 3}, chunks=[new_chunk(job.document_id)])
    return job


def test_keys_are_those_below_a_prefix_of_one_collection(catalog: SqlCatalog) -> None:
    catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))
    for uri in ("file:///a/2.txt", "file:///a/1.txt", "file:///A/3.txt", "file:///ab.txt", "file:///_/4.txt"):
        catalog.submit("library", new_document(uri, content="b"))
    catalog.submit("other", new_document("file:///a/5.txt"))
    keys = catalog.document_keys("library", uri_prefix="file:///a/")
    assert [key.uri for key in keys] == ["file:///a/1.txt", "file:///a/2.txt"]
    assert [key.content_hash for key in keys] == ["b" * 64, "b" * 64]
    assert catalog.document(keys[0].id).uri == "file:///a/1.txt"
    assert len(catalog.document_keys("library", uri_prefix="")) == 5
    assert catalog.document_keys("nowhere", uri_prefix="") == []


def test_moved_document_keeps_its_id_and_is_queued(catalog: SqlCatalog) -> None:
    old, _ = catalog.submit("library", new_document("old.txt"))
    finished(catalog)
    moved, job = catalog.submit("library", new_document("new.txt", moved_from=old.id))
    assert (moved.id, moved.uri, moved.state) == (old.id, "new.txt", DocumentState.QUEUED)
    assert moved.title == "Title of new.txt"
    assert moved.revision == old.revision + 1  # an index beside the active one has to follow
    assert "pages" not in moved.metadata
    assert job is not None
    assert job.state is JobState.QUEUED
    assert len(catalog.documents("library")) == 1
    finished(catalog)
    assert [chunk.document_id for chunk in catalog.chunks(old.id)] == [old.id]


def test_move_calls_off_a_deletion(catalog: SqlCatalog) -> None:
    old, _ = catalog.submit("library", new_document("old.txt"))
    finished(catalog)
    deletion = catalog.submit_delete(old.id)
    moved, _ = catalog.submit("library", new_document("new.txt", moved_from=old.id))
    assert moved.id == old.id
    assert catalog.job(deletion.id).state is JobState.CANCELLED


def test_move_onto_another_document_or_of_none_adds_or_replaces(catalog: SqlCatalog) -> None:
    old, _ = catalog.submit("library", new_document("old.txt"))
    other, _ = catalog.submit("library", new_document("new.txt", content="b"))
    replaced, _ = catalog.submit("library", new_document("new.txt", moved_from=old.id))
    assert replaced.id == other.id
    assert {each.uri for each in catalog.documents("library")} == {"old.txt", "new.txt"}
    added, _ = catalog.submit("library", new_document("third.txt", moved_from="no such id"))
    assert added.id not in (old.id, other.id)


def test_document_of_another_collection_does_not_move(catalog: SqlCatalog) -> None:
    catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))
    old, _ = catalog.submit("other", new_document("old.txt"))
    added, _ = catalog.submit("library", new_document("new.txt", moved_from=old.id))
    assert added.id != old.id
    assert catalog.document(old.id).uri == "old.txt"


def other_collection(catalog: SqlCatalog) -> None:
    catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))


def test_documents_move_to_another_collection_with_what_was_given(catalog: SqlCatalog) -> None:
    other_collection(catalog)
    ready, _ = catalog.submit("library", new_document("ready.txt"))
    finished(catalog)
    running, _ = catalog.submit("library", new_document("running.txt", content="b"))
    ingestion = claimed(catalog)
    moved = [document for document, _ in catalog.move_documents([ready.id, running.id], "other")]
    assert [(each.collection, each.uri, each.state) for each in moved] == [
        ("other", "ready.txt", DocumentState.QUEUED),
        ("other", "running.txt", DocumentState.QUEUED),
    ]
    assert moved[0].title == "Title of ready.txt"  # what was submitted, not what a reader found
    assert (moved[0].content_hash, moved[0].metadata) == (ready.content_hash, {"year": 1999, "kind": "note"})
    assert {moved[0].id, moved[1].id}.isdisjoint({ready.id, running.id})
    assert [catalog.document(each.id).state for each in (ready, running)] == [DocumentState.DELETING] * 2
    assert catalog.job(ingestion.id).state is JobState.CANCELLED


def test_moving_back_calls_the_deletion_off(catalog: SqlCatalog) -> None:
    other_collection(catalog)
    document, _ = catalog.submit("library", new_document("a.txt"))
    ((moved, _),) = catalog.move_documents([document.id], "other")
    ((back, job),) = catalog.move_documents([moved.id], "library")
    assert (back.id, back.state) == (document.id, DocumentState.QUEUED)
    assert job is not None
    assert job.kind is JobKind.INGEST


def test_a_move_that_cannot_be_done_moves_nothing(catalog: SqlCatalog) -> None:
    other_collection(catalog)
    first, _ = catalog.submit("library", new_document("first.txt"))
    second, _ = catalog.submit("library", new_document("second.txt"))
    catalog.submit("other", new_document("second.txt", content="b"))
    with pytest.raises(ConflictError, match="already has another document with the URI second"):
        catalog.move_documents([first.id, second.id], "other")
    with pytest.raises(UnknownDocumentError, match="no-such-id"):
        catalog.move_documents([first.id, "no-such-id"], "other")
    with pytest.raises(ConflictError, match="already"):
        catalog.move_documents([first.id], "library")
    with pytest.raises(UnknownCollectionError):
        catalog.move_documents([first.id], "nowhere")
    assert [each.uri for each in catalog.documents("other")] == ["second.txt"]
    assert {each.state for each in catalog.documents("library")} == {DocumentState.QUEUED}
    catalog.submit_delete(first.id)
    with pytest.raises(UnknownDocumentError):
        catalog.move_documents([first.id], "other")


def test_a_deletion_waits_and_is_called_off(catalog: SqlCatalog, clock: Clock) -> None:
    document, _ = catalog.submit("library", new_document("a.txt"))
    finished(catalog)
    deletion = catalog.submit_delete(document.id, delay=timedelta(seconds=60))
    assert catalog.document(document.id).state is DocumentState.DELETING
    assert catalog.deleted_among([document.id, "another"]) == {document.id}
    clock.advance(timedelta(seconds=59))
    assert catalog.claim("worker-1", lease=LEASE) is None
    restored = catalog.restore_document(document.id)
    assert (restored.kind, catalog.job(deletion.id).state) == (JobKind.INGEST, JobState.CANCELLED)
    assert catalog.deleted_among([document.id]) == set()
    assert finished(catalog).id == restored.id
    with pytest.raises(ConflictError, match="no deletion to cancel"):
        catalog.restore_document(document.id)
    catalog.submit_delete(document.id, delay=timedelta(seconds=60))
    clock.advance(timedelta(seconds=60))
    assert claimed(catalog).kind is JobKind.DELETE


def test_a_deletion_that_has_begun_is_called_off(catalog: SqlCatalog) -> None:
    document, _ = catalog.submit("library", new_document("a.txt"))
    finished(catalog)
    catalog.submit_delete(document.id)
    deletion = claimed(catalog)
    catalog.restore_document(document.id)
    with pytest.raises(LeaseLostError):
        catalog.complete_delete(deletion)
    with pytest.raises(UnknownDocumentError):
        catalog.restore_document("no-such-id")
