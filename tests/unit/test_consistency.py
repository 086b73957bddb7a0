"""Catalog against vectors, over the real engine and a server: each difference is found, mended, and then gone."""

from __future__ import annotations

import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from qdrant_servers import SERVER, QdrantServer, open_index

from app.catalog import file_of
from app.edge import EdgeProcess
from app.maintenance.consistency import ConsistencyCheck, Discrepancy, Inconsistency
from app.testing import text_source
from app.types.documents import DocumentState, IndexRole, Point
from app.vectors import QdrantVectorIndex

TEXTS = ("The cat sleeps.\n\nThe dog barks.", "Ships sail.", "Rain falls.")
VECTOR = [1.0] + [0.0] * 255


@pytest.fixture(scope="module")
def edge_index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantVectorIndex]:
    with EdgeProcess(tmp_path_factory.mktemp("edge")) as edge:
        index = QdrantVectorIndex.over_edge(edge)
        yield index
        index.close()


@pytest.fixture
def server_index(qdrant_server: QdrantServer) -> Iterator[QdrantVectorIndex]:
    with qdrant_server.with_own_names() as url:
        index = open_index(url, qdrant_server.api_key)
        yield index
        index.close()


@pytest.fixture(params=["edge", SERVER])
def application(request: pytest.FixtureRequest, toy_services_factory: Callable[..., Any]) -> Iterator[Any]:
    """Three documents, each searchable."""
    index: QdrantVectorIndex = request.getfixturevalue(f"{request.param}_index")
    application = toy_services_factory(index=index)
    for text in TEXTS:
        application.add(text)
    yield application
    for name in index.indexes():
        index.drop(name)


def consistency_of(application: Any) -> ConsistencyCheck:
    services = application.services
    return ConsistencyCheck(catalog=services.catalog, index=services.index, blobs=services.blobs)


def look(application: Any) -> list[Discrepancy]:
    return list(consistency_of(application).differences())


def inconsistencies(application: Any) -> Counter[Inconsistency]:
    found: Counter[Inconsistency] = Counter()
    for difference in look(application):
        found[difference.kind] += difference.count
    return found


def repair(application: Any, *, removes_unmanaged: bool = False) -> None:
    consistency = consistency_of(application)
    for difference in consistency.differences():
        consistency.repair(difference, removes_unmanaged=removes_unmanaged)
    application.work_off()


def point(number: int, document_id: str | None) -> Point:
    keys = ("title", "uri", "ordinal", "start", "end", "page", "text_hash")
    metadata = {} if document_id is None else {"document_id": document_id, **dict.fromkeys(keys, "x")}
    return Point(str(uuid.UUID(int=number)), VECTOR, {"page_content": "text", "metadata": metadata})


def answers(application: Any) -> list[tuple[str, float, object]]:
    query = application.embedder.embed_query("cat dog ships rain").vector
    return [(hit.id, hit.score, hit.payload) for hit in application.index.search("library", query, limit=10)]


def test_a_application_in_order_shows_no_difference(application: Any) -> None:
    assert look(application) == []


def test_points_that_are_gone_are_made_again(application: Any) -> None:
    before = answers(application)
    application.index.delete_points("library--1", [before[0][0], before[1][0]])
    assert inconsistencies(application) == {Inconsistency.MISSING_POINTS: 2}
    repair(application)
    assert (answers(application), look(application)) == (before, [])


def test_points_without_a_chunk_are_removed(application: Any) -> None:
    document = application.services.catalog.documents()[0]
    before = answers(application)
    application.index.upsert("library--1", [point(1, document.id), point(2, str(uuid.UUID(int=7)))])
    assert inconsistencies(application) == {Inconsistency.STALE_POINTS: 1, Inconsistency.LOST_POINTS: 1}
    repair(application)
    assert (answers(application), look(application)) == (before, [])


def test_a_point_that_names_another_document_gets_its_own_payload_back(application: Any) -> None:
    before = answers(application)
    stolen = application.index.retrieve("library--1", [before[0][0]])[0]
    other = str(uuid.UUID(int=7))
    application.index.upsert("library--1", [replace(stolen, payload=point(1, other).payload)])
    assert inconsistencies(application) == {Inconsistency.WRONG_POINTS: 1}
    repair(application)
    assert (answers(application), look(application)) == (before, [])


def test_unmanaged_points_and_collections_stay_unless_asked(application: Any) -> None:
    index = application.index
    index.upsert("library--1", [point(1, None)])
    for name in ("somebody", "other--1", "orphan--3"):
        index.create(name, dimension=2)
    index.point_to("other", "other--1")  # of another installation on the same server
    assert inconsistencies(application) == {
        Inconsistency.UNMANAGED_POINTS: 1,
        Inconsistency.UNMANAGED_INDEX: 2,
        Inconsistency.UNNAMED_INDEX: 1,
    }
    repair(application)
    assert inconsistencies(application) == {Inconsistency.UNMANAGED_POINTS: 1, Inconsistency.UNMANAGED_INDEX: 2}
    repair(application, removes_unmanaged=True)
    assert look(application) == []
    assert index.indexes() == ["library--1"]


def test_numbered_unmanaged_points_can_be_removed(application: Any) -> None:
    application.index.client.upsert("library--1", [{"id": 5, "vector": VECTOR, "payload": {}}])
    assert inconsistencies(application) == {Inconsistency.UNMANAGED_POINTS: 1}
    repair(application, removes_unmanaged=True)
    assert look(application) == []


def test_everything_comes_back_after_all_of_qdrant_was_deleted(application: Any) -> None:
    application.add("Another collection.", collection="letters")
    before = answers(application)
    for name in application.index.indexes():
        application.index.drop(name)
    assert inconsistencies(application) == {
        Inconsistency.MISSING_INDEX: 2,
        Inconsistency.MISSING_POINTS: len(before) + 1,
        Inconsistency.WRONG_ALIAS: 2,
    }
    repair(application)
    assert (answers(application), look(application)) == (before, [])
    assert application.index.count("letters") == 1


def test_a_public_name_that_means_another_index_is_put_right(application: Any) -> None:
    application.index.create("library--9", dimension=256)
    application.index.point_to("library", "library--9")
    repair(application)
    assert application.index.aliases() == {"library": "library--1"}
    repair(application)
    assert (look(application), application.index.indexes()) == ([], ["library--1"])


def test_what_a_job_is_at_work_on_is_left_to_it(application: Any) -> None:
    services = application.services
    document = services.catalog.documents()[0]
    services.library.add_document("library", text_source(document.uri, b"New text."))
    application.index.upsert("library--1", [point(1, document.id)])
    application.index.delete_points("library--1", [services.catalog.chunks(document.id)[0].id])
    assert look(application) == []


def test_remains_of_a_document_that_cannot_be_read_are_removed(application: Any) -> None:
    services = application.services
    document = services.catalog.documents()[0]
    services.library.add_document("library", text_source(document.uri, b" "))
    application.work_off()
    assert services.catalog.document(document.id).state is DocumentState.FAILED
    application.index.delete_points("library--1", [services.catalog.chunks(document.id)[0].id])
    application.index.upsert("library--1", [point(1, document.id)])
    assert set(inconsistencies(application)) == {Inconsistency.MISSING_POINTS, Inconsistency.STALE_POINTS}
    repair(application)
    assert look(application) == []
    assert application.index.count("library--1", document_id=document.id) == 0


def test_files_that_no_document_has_are_removed(application: Any) -> None:
    blobs = application.services.blobs
    kept = set(blobs.hashes())
    blobs.put(b"left by a crash")
    assert inconsistencies(application) == {Inconsistency.UNNEEDED_FILES: 1}
    repair(application)
    assert set(blobs.hashes()) == kept


def test_an_index_in_the_making_is_no_orphan_until_its_lease_ends(application: Any) -> None:
    catalog = application.services.catalog
    for lease in (timedelta(minutes=1), timedelta(0)):
        application.index.create(catalog.indexes.reserve("letters", lease=lease), dimension=2)
    assert look(application) == []  # the one whose lease has ended is removed on the way
    assert application.index.indexes() == ["letters--1", "library--1"]


def test_a_lost_previous_index_is_given_up_and_a_lost_new_one_starts_over(application: Any) -> None:
    catalog, index = application.services.catalog, application.index
    present = catalog.collection("library")
    for role in (IndexRole.PREVIOUS, IndexRole.BUILDING):
        name = catalog.indexes.reserve("library", lease=timedelta(minutes=1))
        catalog.indexes.add_building(replace(present, active_index=name))
        for document in catalog.documents("library"):
            assert catalog.indexes.record(name, document, [])
        if role is IndexRole.PREVIOUS:
            index.create(name, dimension=256)
            catalog.indexes.switch("library", IndexRole.BUILDING)
            catalog.indexes.switch("library", IndexRole.PREVIOUS)
            index.drop(name)
    assert inconsistencies(application)[Inconsistency.MISSING_INDEX] == 2
    repair(application)
    assert catalog.indexes.standby("library", IndexRole.PREVIOUS) is None
    assert catalog.indexes.count_unindexed("library", "library--3") == len(TEXTS)
    assert look(application) == []


def alter_rows(application: Any, *changes: str) -> None:
    """As damage does it: without looking at what refers to them."""
    with closing(sqlite3.connect(file_of(application.services.catalog.database.engine) or "")) as database:
        for change in changes:
            database.execute(change)
        database.commit()


def one_document(application: Any) -> Any:
    return application.services.catalog.documents("library")[0]


def test_points_of_a_lost_row_stay_as_long_as_their_file_is_kept(application: Any) -> None:
    document = one_document(application)
    before = answers(application)
    places = ("chunk WHERE document_id", "indexed_document WHERE document_id", "document WHERE id")
    alter_rows(application, *(f"DELETE FROM {place} = '{document.id}'" for place in places))
    count = application.index.count("library--1", document_id=document.id)
    assert inconsistencies(application) == {Inconsistency.LOST_DOCUMENTS: count, Inconsistency.UNNAMED_FILES: 1}
    repair(application)
    assert application.index.count("library--1", document_id=document.id) == count
    assert application.services.blobs.is_sound(document.content_hash)
    consistency = consistency_of(application)
    for difference in consistency.differences():  # the catalog was put back, and is right
        consistency.repair(difference, removes_proven=True)
    assert len(answers(application)) == len(before) - count
    assert application.services.blobs.is_sound(document.content_hash)


def test_points_of_a_lost_row_go_when_no_file_proves_them(application: Any) -> None:
    document = one_document(application)
    application.index.upsert("library--1", [point(1, str(uuid.UUID(int=7)))])
    application.services.blobs.put(b"left by a crash")
    assert inconsistencies(application) == {Inconsistency.LOST_POINTS: 1, Inconsistency.UNNEEDED_FILES: 1}
    repair(application)
    assert look(application) == []
    assert application.services.catalog.document(document.id)


def test_a_file_stays_that_a_row_with_a_damaged_hash_may_mean(application: Any) -> None:
    document = one_document(application)
    other = ("0" if document.content_hash[0] != "0" else "1") + document.content_hash[1:]
    alter_rows(application, f"UPDATE document SET content_hash = '{other}' WHERE id = '{document.id}'")
    assert inconsistencies(application) == {Inconsistency.UNNAMED_FILES: 1}
    repair(application)
    assert application.services.blobs.is_sound(document.content_hash)


@pytest.mark.parametrize("change", ['"start" = "start" + 1', '"end" = 3', "ordinal = 9", "page = 4"])
def test_a_row_of_a_chunk_that_contradicts_its_point_is_written_again(application: Any, change: str) -> None:
    document = one_document(application)
    before, chunks = answers(application), application.services.catalog.chunks(document.id)
    alter_rows(application, f"UPDATE chunk SET {change} WHERE id = '{chunks[0].id}'")
    assert inconsistencies(application) == {Inconsistency.WRONG_CHUNKS: 1}
    repair(application)
    assert (answers(application), look(application)) == (before, [])
    assert application.services.catalog.chunks(document.id) == chunks


def test_a_chunk_whose_row_names_no_document_is_given_back_and_keeps_its_point(application: Any) -> None:
    document = one_document(application)
    before, chunks = answers(application), application.services.catalog.chunks(document.id)
    alter_rows(application, f"UPDATE chunk SET document_id = 'x' WHERE id = '{chunks[0].id}'")
    assert inconsistencies(application) == {Inconsistency.WRONG_CHUNKS: 1, Inconsistency.WRONG_COUNTS: 1}
    repair(application)
    assert (answers(application), look(application)) == (before, [])
    assert application.services.catalog.chunks(document.id) == chunks


@pytest.mark.parametrize("column", ["uri", "title"])
def test_a_row_of_a_document_that_contradicts_its_points_is_only_told(application: Any, column: str) -> None:
    document = one_document(application)
    alter_rows(application, f"UPDATE document SET {column} = 'altered' WHERE id = '{document.id}'")
    count = len(application.services.catalog.chunks(document.id))
    assert inconsistencies(application) == {Inconsistency.WRONG_DOCUMENTS: count}
    repair(application)
    assert inconsistencies(application) == {Inconsistency.WRONG_DOCUMENTS: count}


def test_an_index_of_known_chunks_stays_where_the_row_of_its_collection_names_another_one(application: Any) -> None:
    before = answers(application)
    alter_rows(application, "UPDATE collection SET active_index = 'librarx--1'")
    assert set(inconsistencies(application)) == {Inconsistency.LOST_INDEX}
    repair(application)
    assert application.index.indexes() == ["library--1"]
    alter_rows(application, "UPDATE collection SET active_index = 'library--1'")
    assert (answers(application), look(application)) == (before, [])


@pytest.mark.parametrize("change", ["chunk_count = chunk_count + 4", "revision = revision + 8"])
def test_a_row_that_counts_its_chunks_wrongly_is_written_again(application: Any, change: str) -> None:
    document = one_document(application)
    alter_rows(application, f"UPDATE document SET {change} WHERE id = '{document.id}'")
    assert inconsistencies(application) == {Inconsistency.WRONG_COUNTS: 1}
    repair(application)
    assert look(application) == []
    assert application.services.catalog.document(document.id).chunk_count == document.chunk_count


def test_a_point_that_contradicts_its_document_alone_gets_its_payload_again(application: Any) -> None:
    application.add(
        "The cat sleeps.\n\n" + "\n\n".join(f"Dog {number} barks at {number} cats." * 9 for number in range(40))
    )
    before = answers(application)
    documents = {each.id: each for each in application.services.catalog.documents("library")}
    document = max(documents.values(), key=lambda each: each.chunk_count)
    assert document.chunk_count > 1
    _, point_id = next(application.index.points_of("library--1", [document.id]))
    [kept] = application.index.retrieve("library--1", [point_id])
    metadata = {**kept.payload["metadata"], "uri": "altered"}
    application.index.upsert("library--1", [replace(kept, payload={**kept.payload, "metadata": metadata})])
    assert inconsistencies(application) == {Inconsistency.WRONG_CHUNKS: 1}
    repair(application)
    assert (answers(application), look(application)) == (before, [])
