"""What the catalog keeps of physical indexes, on both databases: names, contents, the switch, garbage, restoring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from catalog_samples import LEASE, LIBRARY, Clock, claimed, new_chunk, new_document

from app.catalog import SqlCatalog
from app.errors import ConflictError, LeaseLostError
from app.types.documents import (
    Chunk,
    Collection,
    DocumentRecord,
    DocumentState,
    GarbageKind,
    IndexRole,
    Job,
    JobKind,
    JobState,
)

HOUR = timedelta(hours=1)


@pytest.fixture
def building(catalog: SqlCatalog) -> Collection:
    """A second index of the library, with longer chunks."""
    target = replace(LIBRARY, chunk_tokens=300, active_index=catalog.indexes.reserve("library", lease=LEASE))
    catalog.indexes.add_building(target)
    return target


def names(catalog: SqlCatalog, kind: GarbageKind) -> list[str]:
    return sorted(garbage_item.name for garbage_item in catalog.garbage.due() if garbage_item.kind is kind)


def test_a_name_is_given_once_even_after_its_collection_is_gone(catalog: SqlCatalog) -> None:
    assert catalog.indexes.reserve("library", lease=LEASE) == "library--2"
    catalog.delete_collection("library")
    assert catalog.indexes.reserve("library", lease=LEASE) == "library--3"


def test_a_reservation_that_ends_is_a_removal_unless_it_is_used_or_prolonged(catalog: SqlCatalog, clock: Clock) -> None:
    unused, used, prolonged = (catalog.indexes.reserve(name, lease=LEASE) for name in ("a", "b", "c"))
    catalog.create_collection(replace(LIBRARY, name="b", active_index=used))
    catalog.indexes.prolong_reservation(prolonged, lease=3 * LEASE)
    clock.advance(2 * LEASE)
    assert names(catalog, GarbageKind.INDEX) == [unused]
    with pytest.raises(ConflictError, match="has expired"):
        catalog.indexes.prolong_reservation(unused, lease=LEASE)
    with pytest.raises(ConflictError, match="has expired"):
        catalog.indexes.add_building(replace(LIBRARY, active_index=unused))


def test_a_clock_that_was_ahead_keeps_no_garbage_and_no_reservation(catalog: SqlCatalog, clock: Clock) -> None:
    right = clock.now
    clock.advance(timedelta(days=365))
    catalog.garbage.note(GarbageKind.FILE, ["f"], due_in=timedelta(0))
    unused, in_use = (catalog.indexes.reserve(name, lease=LEASE) for name in ("a", "b"))
    clock.now = right
    assert names(catalog, GarbageKind.FILE) == ["f"]
    assert names(catalog, GarbageKind.INDEX) == [unused, in_use]
    with pytest.raises(ConflictError, match="has expired"):  # it may be removed at any moment
        catalog.indexes.prolong_reservation(in_use, lease=LEASE)
    with pytest.raises(ConflictError, match="has expired"):
        catalog.create_collection(replace(LIBRARY, name="b", active_index=in_use))


def test_a_removal_noted_again_while_it_is_done_is_not_forgotten(catalog: SqlCatalog, clock: Clock) -> None:
    catalog.garbage.note(GarbageKind.FILE, ["f", "g", "f"], due_in=timedelta(0))
    first, second = catalog.garbage.due()
    clock.advance(HOUR)
    catalog.garbage.note(GarbageKind.FILE, ["f"], due_in=timedelta(0))
    for garbage_item in (first, second):
        catalog.garbage.forget(garbage_item)
    assert names(catalog, GarbageKind.FILE) == ["f"]


def test_deleted_and_replaced_documents_let_go_of_their_files(
    catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job]
) -> None:
    document_id = ingested("a.txt")
    submitted("a.txt", content_hash="b" * 64)
    assert names(catalog, GarbageKind.FILE) == ["a" * 64]
    assert catalog.document(document_id).revision == 2
    catalog.submit_delete(document_id)
    catalog.complete_delete(claimed(catalog))
    assert names(catalog, GarbageKind.FILE) == ["a" * 64, "b" * 64]
    assert not catalog.garbage.needs_file("b" * 64)


def test_a_deleted_collection_leaves_a_note_of_all_its_indexes_and_files(
    catalog: SqlCatalog, building: Collection, ingested: Callable[..., str]
) -> None:
    ingested("a.txt")
    catalog.delete_collection("library")
    assert names(catalog, GarbageKind.INDEX) == ["library--1", building.active_index]
    assert names(catalog, GarbageKind.FILE) == ["a" * 64]
    assert catalog.indexes.names("library") == []


def test_a_new_index_gets_what_it_lacks_and_takes_over_when_it_has_all(
    catalog: SqlCatalog, building: Collection, ingested: Callable[..., str]
) -> None:
    first, second = sorted([ingested("a.txt"), ingested("b.txt")])
    index = building.active_index
    assert [each.id for each in catalog.indexes.unindexed_documents("library", index)] == [first, second]
    assert [each.id for each in catalog.indexes.unindexed_documents("library", index, after=first)] == [second]
    assert catalog.indexes.record(index, catalog.document(first), [new_chunk(first, 7)])
    assert not catalog.indexes.switch("library", IndexRole.BUILDING)
    assert catalog.indexes.record(index, catalog.document(second), [])
    assert catalog.indexes.count_unindexed("library", index) == 0
    assert [chunk.ordinal for chunk in catalog.chunks(first)] == [0, 1]
    assert catalog.indexes.switch("library", IndexRole.BUILDING)
    assert catalog.collection("library") == building
    assert [chunk.ordinal for chunk in catalog.chunks(first)] == [7]
    assert (catalog.document(first).chunk_count, catalog.document(second).chunk_count) == (1, 0)
    assert catalog.indexes.standby("library", IndexRole.PREVIOUS) == LIBRARY
    assert catalog.indexes.names("library") == [index, "library--1"]


def test_what_changed_while_it_was_indexed_is_not_recorded(
    catalog: SqlCatalog, building: Collection, ingested: Callable[..., str], submitted: Callable[..., Job]
) -> None:
    document = catalog.document(ingested("a.txt"))
    submitted("a.txt", content_hash="b" * 64)
    assert not catalog.indexes.record(building.active_index, document, [])
    catalog.submit_delete(document.id)
    assert not catalog.indexes.record(building.active_index, catalog.document(document.id), [])
    assert catalog.indexes.count_unindexed("library", building.active_index) == 0  # what is going is not waited for


def test_the_switch_takes_running_jobs_back(
    catalog: SqlCatalog, building: Collection, submitted: Callable[..., Job]
) -> None:
    submitted("a.txt")
    job = claimed(catalog)
    assert catalog.indexes.record(building.active_index, catalog.document(job.document_id), [])
    assert catalog.indexes.switch("library", IndexRole.BUILDING)
    assert catalog.job(job.id).state is JobState.QUEUED
    with pytest.raises(LeaseLostError):
        catalog.complete_ingest(job, title="", metadata={}, chunks=[])
    assert catalog.claim("worker-2", lease=LEASE) is None  # its worker may still be writing
    catalog.release(job)
    assert claimed(catalog).id == job.id


def test_a_roll_back_queues_what_changed_since(
    catalog: SqlCatalog, building: Collection, ingested: Callable[..., str]
) -> None:
    kept, changed = ingested("a.txt"), ingested("b.txt")
    for document_id in (kept, changed):
        catalog.indexes.record(building.active_index, catalog.document(document_id), [])
    catalog.indexes.switch("library", IndexRole.BUILDING)
    catalog.submit("library", new_document("b.txt", content="c"))
    catalog.complete_ingest(claimed(catalog), title="", metadata={}, chunks=[])
    assert catalog.indexes.switch("library", IndexRole.PREVIOUS)
    assert catalog.collection("library") == LIBRARY
    assert catalog.document(kept).state is DocumentState.READY
    assert claimed(catalog).document_id == changed


def test_an_index_that_is_given_up_is_removed_with_its_chunks(
    catalog: SqlCatalog, building: Collection, ingested: Callable[..., str]
) -> None:
    document_id = ingested("a.txt")
    catalog.indexes.record(building.active_index, catalog.document(document_id), [new_chunk(document_id, 7)])
    assert catalog.indexes.discard("library", IndexRole.BUILDING) == building.active_index
    assert catalog.indexes.chunk_count(building.active_index) == 0
    assert names(catalog, GarbageKind.INDEX) == [building.active_index]
    assert catalog.indexes.discard("library", IndexRole.BUILDING) is None
    with pytest.raises(ConflictError, match="was discarded"):
        catalog.indexes.record(building.active_index, catalog.document(document_id), [])


def test_the_consistency_check_sees_chunks_their_documents_and_which_are_idle(
    catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job]
) -> None:
    idle, busy = ingested("a.txt"), ingested("b.txt")
    submitted("b.txt", content_hash="b" * 64)
    ids = [new_chunk(document_id, ordinal).id for document_id in (idle, busy) for ordinal in (0, 1)]
    assert [chunk.id for page in catalog.consistency.chunk_pages("library--1") for chunk in page] == sorted(ids)
    assert catalog.consistency.chunk_owners("library--1", [ids[0], ids[2], "no such id"]) == {
        ids[0]: idle,
        ids[2]: busy,
    }
    assert catalog.consistency.unqueued_documents([idle, busy, "no such id"]) == {idle: True, busy: False}
    assert catalog.consistency.queue_again(idle)
    assert catalog.consistency.unqueued_documents([idle]) == {idle: False}
    assert not catalog.consistency.queue_again("no such id")


def test_a_collection_is_restored_whole_or_not_at_all(
    catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job]
) -> None:
    ingested("a.txt")
    submitted("waiting.txt")
    records = [record for page in catalog.transfer.document_records("library") for record in page]
    rows: list[DocumentRecord | Chunk] = []
    for record in records:
        rows += [record, *catalog.chunks(record.document.id)]
    catalog.delete_collection("library")

    target = replace(LIBRARY, active_index=catalog.indexes.reserve("library", lease=LEASE))
    with pytest.raises(ConflictError, match="another name"):
        catalog.transfer.restore_collection(target, [*rows, rows[0]])
    assert catalog.collections() == []
    catalog.transfer.restore_collection(target, rows)
    assert catalog.collection("library") == target
    assert [record for page in catalog.transfer.document_records("library") for record in page] == records
    assert catalog.indexes.chunk_count(target.active_index) == 2
    assert catalog.indexes.count_unindexed("library", target.active_index) == 1
    waiting = claimed(catalog)
    assert (catalog.document(waiting.document_id).uri, waiting.kind) == ("waiting.txt", JobKind.INGEST)
    with pytest.raises(ConflictError, match="reservation"):
        catalog.transfer.restore_collection(replace(target, name="other"), [])


def test_chunks_are_sampled_from_all_over_an_index(catalog: SqlCatalog) -> None:
    document, _ = catalog.submit("library", new_document())
    job = claimed(catalog)
    chunks = [replace(new_chunk(document.id, number), id=str(uuid4())) for number in range(20)]
    assert not catalog.consistency.is_at_rest("library")
    catalog.complete_ingest(job, title="t", metadata={}, chunks=chunks)
    assert catalog.consistency.is_at_rest("library")
    name = catalog.collection("library").active_index
    sampled = set(catalog.consistency.sample_chunks(name, count=15))
    assert sampled <= {chunk.id for chunk in chunks}
    assert len(sampled) > 1
    assert catalog.consistency.sample_chunks("none--1", count=3) == []
    [[stored]] = catalog.consistency.stored_files("library")
    assert (stored.document_id, stored.content_hash, stored.is_read) == (document.id, document.content_hash, True)
