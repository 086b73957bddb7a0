"""What is deleted is gone, counted in the engine and looked for on the disk, also after a crash in the middle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from qdrant_servers import new_index

from app.documents.blobs import FolderBlobStore
from app.documents.garbage import remove_unneeded
from app.errors import (
    ConflictError,
    IncompleteDeletionError,
    NotFoundError,
    UnknownCollectionError,
    VectorIndexUnavailableError,
)
from app.testing import text_source
from app.types.documents import Collection, DocumentState, GarbageKind, JobState
from app.types.search import SearchRequest
from ingest.pipeline import IngestPipeline

__all__ = ["new_index"]  # a fixture: the tests run against a server, too

LEASE = timedelta(minutes=1)


class FlakyIndex:
    """Loses the next deletions, as a server does that answers before it has applied them."""

    lost_deletions = 0

    def delete_document(self, index: str, document_id: str) -> None:
        if self.lost_deletions:
            self.lost_deletions -= 1
        else:
            super().delete_document(index, document_id)  # type: ignore[misc]


class UnreachableIndex:
    is_away = False

    def drop(self, index: str) -> None:
        if self.is_away:
            raise VectorIndexUnavailableError("away")
        super().drop(index)  # type: ignore[misc]


def files_of(application: Any) -> set[str]:
    return set(application.services.blobs.hashes())


def test_a_deletion_that_left_points_is_tried_again_until_none_is_left(
    toy_services_factory: Callable[..., Any], new_index: Callable[..., Any]
) -> None:
    index = new_index(FlakyIndex)
    application = toy_services_factory(index=index)
    document = application.add("The cat sleeps.")
    index.lost_deletions = 1
    job = application.services.library.delete_document(document.id)
    application.work_off()
    waiting = application.services.catalog.job(job.id)
    assert waiting.state is JobState.QUEUED
    assert "still has 1 points" in (waiting.error or "")
    application.services.catalog.retry(job.id)  # now rather than after the pause
    application.work_off()
    assert application.services.catalog.job(job.id).state is JobState.DONE
    assert index.count("library--1") == 0


def test_a_deleted_document_takes_its_file_and_text_along(toy_services: Any, tmp_path: Path) -> None:
    kept, gone = toy_services.add("The cat sleeps."), toy_services.add("The dog barks.")
    toy_services.services.library.delete_document(gone.id)
    toy_services.work_off()
    assert files_of(toy_services) == {kept.content_hash}
    assert len(list((tmp_path / "files").iterdir())) == 2  # bytes and text


def test_bytes_that_another_document_has_stay(toy_services: Any) -> None:
    first, _ = toy_services.add("Same."), toy_services.add("Same.")
    toy_services.services.library.delete_document(first.id)
    toy_services.work_off()
    assert toy_services.services.blobs.get(first.content_hash) == b"Same."
    assert toy_services.services.blobs.get_text(first.content_hash) == "Same."


def test_a_replaced_document_lets_go_of_its_old_bytes(toy_services: Any) -> None:
    document = toy_services.add("The cat sleeps.")
    toy_services.services.library.add_document("library", text_source(document.uri, b"It woke up."))
    toy_services.work_off()
    assert files_of(toy_services) == {toy_services.services.catalog.document(document.id).content_hash}
    with pytest.raises(NotFoundError):
        toy_services.services.blobs.get(document.content_hash)


@pytest.mark.parametrize("added_after", [1, 2])
def test_bytes_added_again_while_they_are_removed_are_there_afterwards(tmp_path: Path, added_after: int) -> None:
    """The add falls right after the first, or the second, time that the garbage_item asks."""
    blobs = FolderBlobStore(tmp_path)
    content_hash = blobs.put(b"same bytes")
    answers: list[bool] = []

    def is_needed() -> bool:
        answers.append(len(answers) >= added_after)
        if len(answers) == added_after:
            assert blobs.get(content_hash) == b"same bytes"  # a reader finds them meanwhile
            if not blobs.path(content_hash).exists():  # as `Library.add_document` does
                blobs.put(b"same bytes")
        return answers[-1]

    blobs.discard(content_hash, is_needed=is_needed)
    assert len(answers) == 2
    assert blobs.get(content_hash) == b"same bytes"
    assert list(blobs.hashes()) == [content_hash]


def test_bytes_put_aside_by_a_removal_that_crashed_are_still_read_and_put_back(tmp_path: Path) -> None:
    blobs = FolderBlobStore(tmp_path)
    content_hash = blobs.put(b"bytes")
    blobs.put_text(content_hash, "text")

    def crash() -> bool:
        if not blobs.path(content_hash).exists():
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        blobs.discard(content_hash, is_needed=crash)
    assert (blobs.get(content_hash), blobs.get_text(content_hash)) == (b"bytes", "text")
    blobs.discard(content_hash, is_needed=lambda: True)
    assert blobs.path(content_hash).read_bytes() == b"bytes"
    blobs.discard(content_hash, is_needed=lambda: False)
    assert list(tmp_path.iterdir()) == []


def test_a_document_is_deleted_from_every_index_of_its_collection(toy_services: Any) -> None:
    document = toy_services.add("The cat sleeps.")
    catalog, index = toy_services.services.catalog, toy_services.index
    building = add_building_index(toy_services)
    point = index.retrieve("library--1", list(index.point_ids("library--1")))[0]
    index.upsert(building, [point])
    toy_services.services.library.delete_document(document.id)
    toy_services.work_off()
    assert (index.count("library--1"), index.count(building)) == (0, 0)
    assert catalog.indexes.count_unindexed("library", building) == 0


def add_building_index(application: Any, collection: str = "library") -> str:
    catalog = application.services.catalog
    name = catalog.indexes.reserve(collection, lease=LEASE)
    present = catalog.collection(collection)
    application.index.create(name, dimension=present.dimension)
    catalog.indexes.add_building(Collection(**{**fields_of(present), "active_index": name}))
    return str(name)


def fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def test_a_deleted_collection_leaves_no_index_and_no_file(toy_services: Any) -> None:
    toy_services.add("The cat sleeps.", collection="letters")
    kept = toy_services.add("The dog barks.", collection="notes")
    building = add_building_index(toy_services, "letters")
    toy_services.services.library.delete_collection("letters")
    assert toy_services.index.indexes() == ["notes--1"]
    assert files_of(toy_services) == {kept.content_hash}
    assert building == "letters--2"


def test_a_deletion_of_a_collection_that_broke_off_is_finished_by_the_next_one_who_looks(
    toy_services_factory: Callable[..., Any], new_index: Callable[..., Any]
) -> None:
    index = new_index(UnreachableIndex)
    application = toy_services_factory(index=index)
    document = application.add("The cat sleeps.", collection="letters")
    index.is_away = True
    with pytest.raises(VectorIndexUnavailableError):
        application.services.library.delete_collection("letters")
    with pytest.raises(UnknownCollectionError):
        application.services.catalog.collection("letters")
    index.is_away = False
    application.add("Another.", collection="letters")  # a new collection of that name is not in the way
    application.services.library.remove_unneeded()
    assert index.indexes() == ["letters--2"]
    assert document.content_hash not in files_of(application)


def test_a_collection_deleted_under_a_running_job_leaves_nothing(toy_services: Any) -> None:
    library, catalog = toy_services.services.library, toy_services.services.catalog
    library.ensure_collection("letters")
    library.add_document("letters", text_source("a", b"One.\n\nTwo."))
    job = catalog.claim("worker", lease=LEASE)
    pipeline: IngestPipeline = toy_services.pipeline

    def delete_now(_: float) -> None:
        if catalog.collection("letters").active_index == "letters--1":
            library.delete_collection("letters")
            library.create_collection("letters")  # what the job still writes must not reach the new one

    with pytest.raises(NotFoundError):
        pipeline.run(job, heartbeat=delete_now)
    assert toy_services.index.indexes() == ["letters--2"]
    assert toy_services.index.count("letters--2") == 0


def test_an_index_that_was_reserved_and_never_used_is_removed_when_its_lease_ends(toy_services: Any) -> None:
    catalog = toy_services.services.catalog
    name = catalog.indexes.reserve("letters", lease=timedelta(0))
    used = catalog.indexes.reserve("letters", lease=LEASE)
    for each in (name, used):
        toy_services.index.create(each, dimension=2)
    toy_services.services.library.remove_unneeded()
    assert toy_services.index.indexes() == [used]
    assert catalog.garbage.names(GarbageKind.INDEX) == [used]


def test_an_index_that_stays_after_it_was_dropped_is_an_error(
    toy_services_factory: Callable[..., Any], new_index: Callable[..., Any]
) -> None:
    class Stubborn:
        def drop(self, index: str) -> None:
            pass

    application = toy_services_factory(index=new_index(Stubborn))
    application.services.library.create_collection("letters")
    with pytest.raises(IncompleteDeletionError, match="letters--1"):
        application.services.library.delete_collection("letters")
    services = application.services
    with pytest.raises(IncompleteDeletionError):  # it is not forgotten
        remove_unneeded(garbage=services.catalog.garbage, index=services.index, blobs=services.blobs)


def test_what_waits_to_be_deleted_is_found_no_more_and_restored_without_embedding_it_again(toy_services: Any) -> None:
    services = toy_services.services
    document = toy_services.add("The cat sleeps.")
    embedded = len(toy_services.embedder.embedded_texts)
    services.library.delete_document(document.id, delay=timedelta(seconds=60))
    toy_services.work_off()
    request = SearchRequest(query="cat", collection="library")
    assert services.search.search(request).hits == ()
    assert services.index.count(services.catalog.collection("library").active_index) == 1
    services.catalog.restore_document(document.id)
    assert [hit.document.id for hit in services.search.search(request, highlight=False).hits] == [document.id]
    toy_services.work_off()
    assert services.catalog.document(document.id).state is DocumentState.READY
    assert len(toy_services.embedder.embedded_texts) == embedded


def test_a_moved_document_is_found_where_it_is_and_its_file_stays(toy_services: Any) -> None:
    services = toy_services.services
    document = toy_services.add("The cat sleeps.")
    toy_services.add("The kettle is broken.", collection="other")
    ((moved, _),) = services.library.move_documents([document.id], "other")
    toy_services.work_off()
    services.library.remove_unneeded()
    assert services.search.search(SearchRequest("cat", "other"), highlight=False).hits[0].document.id == moved.id
    assert services.search.search(SearchRequest("cat", "library")).hits == ()
    assert services.blobs.has(document.content_hash)
    assert services.index.count(services.catalog.collection("library").active_index) == 0
    with pytest.raises(NotFoundError):
        services.catalog.document(document.id)


def test_nothing_moves_into_a_collection_of_another_model(toy_services: Any) -> None:
    services = toy_services.services
    document = toy_services.add("The cat sleeps.")
    services.library.ensure_collection("other")
    toy_services.embedder.fingerprint = "toy-2"
    with pytest.raises(ConflictError):
        services.library.move_documents([document.id], "other")
    assert services.catalog.document(document.id).state is DocumentState.READY
