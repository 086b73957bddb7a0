"""Documents are listed by where they come from, and keep their id when their file moves; on both databases."""

from __future__ import annotations

from dataclasses import replace

from catalog_samples import LIBRARY, claimed, new_chunk, new_document

from app.catalog import SqlCatalog
from app.types.documents import DocumentState, Job, JobState


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
