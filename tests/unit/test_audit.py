"""Catalog against vectors, over the real engine: every difference is found, mended, and then there is none."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.collections.consistency import Audit, Difference, Fault
from app.edge import EdgeProcess
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
def house(toy_house_factory: Callable[..., Any], edge_index: QdrantVectorIndex) -> Iterator[Any]:
    """Three documents, each searchable."""
    house = toy_house_factory(index=edge_index)
    for text in TEXTS:
        house.add(text)
    yield house
    for name in edge_index.indexes():
        edge_index.drop(name)


def audit_of(house: Any) -> Audit:
    services = house.services
    return Audit(catalog=services.catalog, index=services.index, blobs=services.blobs)


def look(house: Any) -> list[Difference]:
    return list(audit_of(house).differences())


def faults(house: Any) -> Counter[Fault]:
    found: Counter[Fault] = Counter()
    for difference in look(house):
        found[difference.fault] += difference.count
    return found


def mend(house: Any, *, removes_foreign: bool = False) -> None:
    audit = audit_of(house)
    for difference in audit.differences():
        audit.mend(difference, removes_foreign=removes_foreign)
    house.work_off()


def point(number: int, document_id: str | None) -> Point:
    keys = ("title", "uri", "ordinal", "start", "end", "page", "text_hash")
    metadata = {} if document_id is None else {"document_id": document_id, **dict.fromkeys(keys, "x")}
    return Point(str(uuid.UUID(int=number)), VECTOR, {"page_content": "text", "metadata": metadata})


def answers(house: Any) -> list[tuple[str, float, object]]:
    query = house.embedder.embed_query("cat dog ships rain").vector
    return [(hit.id, hit.score, hit.payload) for hit in house.index.search("library", query, limit=10)]


def test_a_house_in_order_shows_no_difference(house: Any) -> None:
    assert look(house) == []


def test_points_that_are_gone_are_made_again(house: Any) -> None:
    before = answers(house)
    house.index.delete_points("library--1", [before[0][0], before[1][0]])
    assert faults(house) == {Fault.MISSING_POINTS: 2}
    mend(house)
    assert (answers(house), look(house)) == (before, [])


def test_points_without_a_chunk_are_removed(house: Any) -> None:
    document = house.services.catalog.documents()[0]
    before = answers(house)
    house.index.upsert("library--1", [point(1, document.id), point(2, str(uuid.UUID(int=7)))])
    assert faults(house) == {Fault.STALE_POINTS: 1, Fault.LOST_POINTS: 1}
    mend(house)
    assert (answers(house), look(house)) == (before, [])


def test_a_point_that_names_another_document_gets_its_own_payload_back(house: Any) -> None:
    before = answers(house)
    stolen = house.index.retrieve("library--1", [before[0][0]])[0]
    other = str(uuid.UUID(int=7))
    house.index.upsert("library--1", [replace(stolen, payload=point(1, other).payload)])
    assert faults(house) == {Fault.WRONG_POINTS: 1}
    mend(house)
    assert (answers(house), look(house)) == (before, [])


def test_foreign_points_and_collections_stay_unless_asked(house: Any) -> None:
    index = house.index
    index.upsert("library--1", [point(1, None)])
    for name in ("somebody", "other--1", "orphan--3"):
        index.create(name, dimension=2)
    index.point_to("other", "other--1")  # of another installation on the same server
    assert faults(house) == {Fault.FOREIGN_POINTS: 1, Fault.FOREIGN_INDEX: 2, Fault.UNNAMED_INDEX: 1}
    mend(house)
    assert faults(house) == {Fault.FOREIGN_POINTS: 1, Fault.FOREIGN_INDEX: 2}
    mend(house, removes_foreign=True)
    assert look(house) == []
    assert index.indexes() == ["library--1"]


def test_numbered_foreign_points_can_be_removed(house: Any) -> None:
    house.index.client.upsert("library--1", [{"id": 5, "vector": VECTOR, "payload": {}}])
    assert faults(house) == {Fault.FOREIGN_POINTS: 1}
    mend(house, removes_foreign=True)
    assert look(house) == []


def test_everything_comes_back_after_all_of_qdrant_was_deleted(house: Any) -> None:
    house.add("Another collection.", collection="letters")
    before = answers(house)
    for name in house.index.indexes():
        house.index.drop(name)
    assert faults(house) == {Fault.MISSING_INDEX: 2, Fault.MISSING_POINTS: len(before) + 1, Fault.WRONG_ALIAS: 2}
    mend(house)
    assert (answers(house), look(house)) == (before, [])
    assert house.index.count("letters") == 1


def test_a_public_name_that_means_another_index_is_put_right(house: Any) -> None:
    house.index.create("library--9", dimension=256)
    house.index.point_to("library", "library--9")
    mend(house)
    assert house.index.aliases() == {"library": "library--1"}
    mend(house)
    assert (look(house), house.index.indexes()) == ([], ["library--1"])


def test_what_a_job_is_at_work_on_is_left_to_it(house: Any) -> None:
    services = house.services
    document = services.catalog.documents()[0]
    services.library.add_document("library", b"New text.", uri=document.uri, media_type="text/plain")
    house.index.upsert("library--1", [point(1, document.id)])
    house.index.delete_points("library--1", [services.catalog.chunks(document.id)[0].id])
    assert look(house) == []


def test_remains_of_a_document_that_cannot_be_read_are_removed(house: Any) -> None:
    services = house.services
    document = services.catalog.documents()[0]
    services.library.add_document("library", b" ", uri=document.uri, media_type="text/plain")
    house.work_off()
    assert services.catalog.document(document.id).state is DocumentState.FAILED
    house.index.delete_points("library--1", [services.catalog.chunks(document.id)[0].id])
    house.index.upsert("library--1", [point(1, document.id)])
    assert set(faults(house)) == {Fault.MISSING_POINTS, Fault.STALE_POINTS}
    mend(house)
    assert look(house) == []
    assert house.index.count("library--1", document_id=document.id) == 0


def test_files_that_no_document_has_are_removed(house: Any) -> None:
    blobs = house.services.blobs
    kept = set(blobs.hashes())
    blobs.put(b"left by a crash")
    assert faults(house) == {Fault.UNNEEDED_FILES: 1}
    mend(house)
    assert set(blobs.hashes()) == kept


def test_an_index_in_the_making_is_no_orphan_until_its_lease_ends(house: Any) -> None:
    catalog = house.services.catalog
    for lease in (timedelta(minutes=1), timedelta(0)):
        house.index.create(catalog.reserve_index("letters", lease=lease), dimension=2)
    assert look(house) == []  # the one whose lease has ended is removed on the way
    assert house.index.indexes() == ["letters--1", "library--1"]


def test_a_lost_previous_index_is_given_up_and_a_lost_new_one_starts_over(house: Any) -> None:
    catalog, index = house.services.catalog, house.index
    present = catalog.collection("library")
    for role in (IndexRole.PREVIOUS, IndexRole.BUILDING):
        name = catalog.reserve_index("library", lease=timedelta(minutes=1))
        catalog.add_building_index(replace(present, active_index=name))
        for document in catalog.documents("library"):
            assert catalog.record_indexed(name, document, [])
        if role is IndexRole.PREVIOUS:
            index.create(name, dimension=256)
            catalog.switch_index("library", IndexRole.BUILDING)
            catalog.switch_index("library", IndexRole.PREVIOUS)
            index.drop(name)
    assert faults(house)[Fault.MISSING_INDEX] == 2
    mend(house)
    assert catalog.standby("library", IndexRole.PREVIOUS) is None
    assert catalog.count_unindexed("library", "library--3") == len(TEXTS)
    assert look(house) == []
