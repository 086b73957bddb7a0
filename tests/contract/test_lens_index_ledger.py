"""Lens indexes and their jobs in the catalog, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from catalog_samples import LEASE, LIBRARY, Clock, claimed

from app.catalog import SqlCatalog
from app.errors import LeaseLostError, NotFoundError, UnknownCollectionError
from app.types.documents import GarbageKind, IndexRole, Job, JobKind, JobPriority, JobState, Lens
from app.types.lens_indexes import LensIndex

VALUES = ("cat = kitten", "dog")
SECOND = replace(LIBRARY, active_index="library--2", document_steps=7)


def queued(catalog: SqlCatalog, lens: str = "animals", values: tuple[str, ...] = VALUES) -> LensIndex:
    return catalog.lens_indexes.queue("library", lens, values)


def built(catalog: SqlCatalog, found: LensIndex | None = None) -> LensIndex:
    """As the worker does it."""
    found = found or queued(catalog)
    job = claimed(catalog)
    assert (job.kind, job.document_id) == (JobKind.LENS_INDEX, found.id)
    assert finished(catalog, job)
    return catalog.lens_indexes.get(found.id)


def finished(catalog: SqlCatalog, job: Job, *, field: str = "") -> bool:
    found, collection = catalog.lens_indexes.get(job.document_id), catalog.collection("library")
    field = field or found.field_in(collection)
    catalog.lens_indexes.begin(job, index=collection.active_index, field=field)
    done = replace(found, built_index=collection.active_index, built_field=field, chunks=7, seconds=0.5)
    return catalog.lens_indexes.complete(job, done)


def test_one_is_queued_built_and_listed(catalog: SqlCatalog) -> None:
    assert catalog.lens_indexes.of_collection("library") == []
    found = queued(catalog)
    assert found.job is not None
    assert (found.values, found.job.state, found.job.priority) == (VALUES, JobState.QUEUED, JobPriority.INTERACTIVE)
    assert not found.is_built_for(LIBRARY)
    done = built(catalog, found)
    assert catalog.lens_indexes.of_collection("library") == [done]
    assert (done.chunks, done.seconds, done.is_built_for(LIBRARY)) == (7, 0.5, True)
    assert done.job is not None
    assert (done.job.state, done.job.progress) == (JobState.DONE, 1.0)
    assert not done.is_built_for(SECOND)
    assert catalog.claim("worker-1", lease=LEASE) is None
    with pytest.raises(UnknownCollectionError):
        catalog.lens_indexes.queue("nowhere", "animals", VALUES)
    with pytest.raises(NotFoundError):
        catalog.lens_indexes.get("nothing")
    assert catalog.lens_indexes.of_collection("nowhere") == []


def test_queued_again_it_is_one_job_and_one_row(catalog: SqlCatalog) -> None:
    first, second = queued(catalog), queued(catalog)
    assert (first.id, first.edition) == (second.id, second.edition)
    assert first.revision < second.revision
    assert len(catalog.jobs()) == 1
    other = queued(catalog, values=("cat", "dog"))
    assert (other.id, other.edition) == (first.id, first.edition + 1)
    assert other.field_in(LIBRARY) != first.field_in(LIBRARY)
    assert [each.lens for each in (queued(catalog, "b"), queued(catalog, "a"))] == ["b", "a"]
    assert [each.lens for each in catalog.lens_indexes.of_collection("library")] == ["a", "animals", "b"]


def test_what_was_queued_again_meanwhile_is_not_done(catalog: SqlCatalog) -> None:
    queued(catalog)
    job = claimed(catalog)
    before = catalog.lens_indexes.get(job.document_id)
    queued(catalog)
    done = replace(before, built_index="library--1", built_field="lens_x")
    assert not catalog.lens_indexes.complete(job, done)
    assert catalog.job(job.id).state is JobState.RUNNING
    assert finished(catalog, job)
    assert len(catalog.jobs()) == 1


def test_a_lost_lease_completes_nothing(catalog: SqlCatalog, clock: Clock) -> None:
    queued(catalog)
    lost = claimed(catalog)
    clock.advance(LEASE * 2)
    taken = claimed(catalog, "worker-2")
    assert taken.id == lost.id
    with pytest.raises(LeaseLostError):
        finished(catalog, lost)
    assert finished(catalog, taken)


def test_its_job_fails_is_retried_released_and_cancelled_as_others_are(catalog: SqlCatalog, clock: Clock) -> None:
    queued(catalog)
    job = claimed(catalog)
    catalog.fail(job, "away", retry_in=timedelta(seconds=10))
    assert catalog.job(job.id).state is JobState.FAILED
    clock.advance(timedelta(seconds=11))
    job = claimed(catalog)
    catalog.release(job, reason="away")
    assert (catalog.job(job.id).state, catalog.job(job.id).error) == (JobState.QUEUED, "away")
    clock.advance(timedelta(minutes=2))
    catalog.fail(claimed(catalog), "broken", retry_in=None)
    assert catalog.job(job.id).state is JobState.DEAD
    assert catalog.retry_dead("library") == 1
    catalog.cancel(job.id)
    assert catalog.job(job.id).state is JobState.CANCELLED
    catalog.retry(job.id)
    assert finished(catalog, claimed(catalog))


def test_bulk_ingestion_leaves_it_to_the_worker(catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
    queued(catalog)
    job = submitted()
    [taken] = catalog.shards.claim("ray", collection="library", limit=10, lease=LEASE)
    assert taken.id == job.id
    assert claimed(catalog).kind is JobKind.LENS_INDEX


def test_a_paused_collection_builds_none(catalog: SqlCatalog) -> None:
    queued(catalog)
    catalog.pause("library")
    assert catalog.claim("worker-1", lease=LEASE) is None
    catalog.resume("library")
    assert finished(catalog, claimed(catalog))


def test_other_values_of_its_lens_are_queued_and_the_former_labels_removed(catalog: SqlCatalog) -> None:
    catalog.save_lens(Lens("animals", "Which?", values=VALUES))
    done = built(catalog)
    catalog.save_lens(Lens("animals", "Which one?", values=VALUES))
    assert catalog.lens_indexes.get(done.id).revision == done.revision
    catalog.save_lens(Lens("animals", "Which?", values=("cat", "dog")))
    changed = catalog.lens_indexes.get(done.id)
    assert (changed.values, changed.edition, changed.is_built_for(LIBRARY)) == (("cat", "dog"), 2, False)
    assert catalog.garbage.due() == []
    again = built(catalog, changed)
    assert [(each.kind, each.name) for each in catalog.garbage.due()] == [
        (GarbageKind.LABELS, f"library--1/{done.built_field}")
    ]
    assert again.built_field == changed.field_in(LIBRARY)


def test_with_lens_values_or_collection_it_goes(catalog: SqlCatalog) -> None:
    for go in (
        lambda: catalog.delete_lens("animals"),
        lambda: catalog.save_lens(Lens("animals", "Which?")),
        lambda: catalog.lens_indexes.delete("library", "animals"),
    ):
        catalog.save_lens(Lens("animals", "Which?", values=VALUES))
        done = built(catalog)
        go()
        assert catalog.lens_indexes.of_collection("library") == catalog.jobs() == []
        assert f"library--1/{done.built_field}" in [each.name for each in catalog.garbage.due()]
    assert not catalog.lens_indexes.delete("library", "animals")
    queued(catalog)
    catalog.delete_collection("library")
    assert catalog.lens_indexes.of_collection("library") == catalog.jobs() == []


def test_a_switch_of_indexes_queues_it_and_keeps_the_former_labels(catalog: SqlCatalog) -> None:
    done = built(catalog)
    name = catalog.indexes.reserve("library", lease=LEASE)
    catalog.indexes.add_building(replace(SECOND, active_index=name))
    assert catalog.indexes.switch("library", IndexRole.BUILDING)
    switched = catalog.collection("library")
    assert not catalog.lens_indexes.get(done.id).is_built_for(switched)
    again = built(catalog, catalog.lens_indexes.get(done.id))
    assert (again.is_built_for(switched), again.is_built_for(LIBRARY)) == (True, False)
    assert not [each for each in catalog.garbage.due() if each.kind is GarbageKind.LABELS]
    assert catalog.indexes.switch("library", IndexRole.PREVIOUS)
    assert built(catalog, catalog.lens_indexes.get(done.id)).built_field == done.built_field


def test_a_switch_in_the_middle_of_a_build_is_noticed(catalog: SqlCatalog) -> None:
    queued(catalog)
    job = claimed(catalog)
    before = catalog.lens_indexes.get(job.document_id)
    name = catalog.indexes.reserve("library", lease=LEASE)
    catalog.indexes.add_building(replace(SECOND, active_index=name))
    assert catalog.indexes.switch("library", IndexRole.BUILDING)
    assert not catalog.lens_indexes.complete(job, replace(before, built_index="library--1", built_field="lens_x"))
    assert finished(catalog, job)


def test_what_the_vector_index_lost_is_built_again(catalog: SqlCatalog) -> None:
    done = built(catalog)
    catalog.lens_indexes.queue_all("library")
    assert catalog.lens_indexes.get(done.id).is_built_for(LIBRARY)
    catalog.lens_indexes.queue_all("library", is_lost=True)
    assert not catalog.lens_indexes.get(done.id).is_built_for(LIBRARY)
    assert finished(catalog, claimed(catalog))
