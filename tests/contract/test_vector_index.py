"""One contract for every vector index: Edge over HTTP, a Qdrant server, the Qdrant client's own memory, and the double
for tests. The server is that of tests/qdrant_servers.py.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse
from qdrant_servers import QUICK_SERVER, OwnCollections, QdrantServer, open_index

from app import testing as testing_module
from app.edge import EdgeProcess
from app.errors import ConflictError, FilterError, InputError, NotFoundError, VectorIndexUnavailableError
from app.maintenance.optimize import optimize_index
from app.ports.parts import VectorIndex
from app.search.bm25 import AVERAGE_WORDS, K1, B
from app.testing import InMemoryVectorIndex
from app.types.chunk_text import hash_of_text
from app.types.documents import MetadataValue, Point, PointDamage, ScoredPoint
from app.types.lens_indexes import Label
from app.vectors import QdrantVectorIndex
from app.vectors import labels as labels_module

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]

NORTH, EAST, UP = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
NORTH_EAST = [math.sqrt(0.5), math.sqrt(0.5), 0.0]


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeProcess]:
    with EdgeProcess(tmp_path_factory.mktemp("edge")) as process:
        yield process


@pytest.fixture(scope="module")
def edge_index(edge: EdgeProcess) -> Iterator[QdrantVectorIndex]:
    index = QdrantVectorIndex.over_edge(edge)
    yield index
    index.close()


@pytest.fixture(scope="module")
def connected_index(qdrant_server: QdrantServer) -> Iterator[QdrantVectorIndex]:
    index = open_index(qdrant_server.url, qdrant_server.api_key)
    yield index
    index.close()


@pytest.fixture
def server_index(connected_index: QdrantVectorIndex) -> Iterator[QdrantVectorIndex]:
    """What a test has made there is removed after it."""
    yield connected_index
    collections.drop_from(connected_index)


@pytest.fixture(params=["edge", QUICK_SERVER])
def engine_index(request: pytest.FixtureRequest) -> QdrantVectorIndex:
    return request.getfixturevalue(f"{request.param}_index")


@pytest.fixture(params=["edge", "memory", QUICK_SERVER])
def qdrant_index(request: pytest.FixtureRequest) -> QdrantVectorIndex:
    if request.param == "memory":
        return QdrantVectorIndex(QdrantClient(":memory:"))
    return request.getfixturevalue(f"{request.param}_index")


@pytest.fixture(params=["edge", "memory", "double", QUICK_SERVER])
def index(request: pytest.FixtureRequest) -> VectorIndex:
    if request.param == "double":
        return InMemoryVectorIndex()
    if request.param == "memory":
        return QdrantVectorIndex(QdrantClient(":memory:"))
    return request.getfixturevalue(f"{request.param}_index")


collections = OwnCollections()
new_name = collections.new_name


def point_id(number: int) -> str:
    return str(uuid.UUID(int=number))


def point(number: int, vector: Sequence[float] = NORTH, *, document_id: str = "d1", **metadata: MetadataValue) -> Point:
    payload = {"page_content": f"text {number}", "metadata": {"document_id": document_id, **metadata}}
    return Point(id=point_id(number), vector=vector, payload=payload)


def filled(index: VectorIndex, *points: Point) -> str:
    name = new_name()
    index.create(name, dimension=3)
    index.upsert(name, points)
    return name


def found_numbers(index: VectorIndex, name: str, *, limit: int = 10, **filters: str) -> list[int]:
    return [uuid.UUID(hit.id).int for hit in index.search(name, NORTH, limit=limit, filters=filters)]


def chunk(number: int, text: str, vector: Sequence[float] = NORTH, **metadata: MetadataValue) -> Point:
    return Point(
        id=point_id(number),
        vector=vector,
        payload={"page_content": text, "metadata": {"document_id": "d1", **metadata}},
    )


def numbers(hits: Sequence[ScoredPoint]) -> list[int]:
    return [uuid.UUID(hit.id).int for hit in hits]


def test_an_index_exists_from_its_creation_until_it_is_dropped(index: VectorIndex) -> None:
    name = new_name()
    assert not index.exists(name)
    index.create(name, dimension=3)
    assert index.exists(name)
    assert index.count(name) == 0
    index.drop(name)
    assert not index.exists(name)
    index.drop(name)  # a second time is no error


def test_creating_again_keeps_the_points(index: VectorIndex) -> None:
    name = filled(index, point(1))
    index.create(name, dimension=3)
    assert index.count(name) == 1


def test_another_dimension_is_refused(qdrant_index: QdrantVectorIndex) -> None:
    name = filled(qdrant_index)
    with pytest.raises(ConflictError, match="dimension 4"):
        qdrant_index.create(name, dimension=4)


def test_hits_come_nearest_first_with_their_cosine_and_payload(index: VectorIndex) -> None:
    name = filled(index, point(1, EAST), point(2, NORTH_EAST), point(3, NORTH))
    hits = index.search(name, NORTH, limit=2)
    assert [hit.id for hit in hits] == [point_id(3), point_id(2)]
    assert [hit.score for hit in hits] == pytest.approx([1.0, math.sqrt(0.5)], abs=1e-6)
    assert hits[0].payload == {"page_content": "text 3", "metadata": {"document_id": "d1"}}


def test_optimising_changes_no_answer(index: VectorIndex) -> None:
    name = filled(index, point(1, EAST), point(2, NORTH_EAST), point(3, NORTH))
    before = index.search(name, NORTH, limit=2)
    report = optimize_index(index, name, poll_interval_s=0.02)
    assert index.search(name, NORTH, limit=2) == before
    assert (report.after.points, report.after.activity, report.after.fault) == (3, None, None)


def test_length_of_a_vector_does_not_count(index: VectorIndex) -> None:
    name = filled(index, point(1, [x * 1e-5 for x in NORTH]), point(2, [x * 100 for x in NORTH_EAST]))
    assert [hit.score for hit in index.search(name, [1e-6, 0.0, 0.0], limit=2)] == pytest.approx(
        [1.0, math.sqrt(0.5)], abs=1e-6
    )


def test_equal_scores_come_in_the_order_of_ids_wherever_the_limit_cuts(index: VectorIndex) -> None:
    ties = [point(number) for number in range(90, 10, -1)]
    name = filled(index, *ties, point(1, EAST), point(99, NORTH_EAST))
    for limit in (1, 7, 60, 80):
        assert found_numbers(index, name, limit=limit) == list(range(11, 11 + limit))
    assert found_numbers(index, name, limit=100) == [*range(11, 91), 99, 1]


def test_upserting_again_replaces(index: VectorIndex) -> None:
    name = filled(index, point(1, NORTH), point(2, EAST))
    index.upsert(name, [point(1, UP, document_id="d2"), point(2, EAST)])
    assert index.count(name) == 2
    assert found_numbers(index, name, limit=1, document_id="d2") == [1]
    assert index.search(name, UP, limit=1)[0].id == point_id(1)


def test_no_points_is_no_error(index: VectorIndex) -> None:
    name = filled(index, point(1))
    index.upsert(name, [])
    index.delete_points(name, [])
    assert index.count(name) == 1


@pytest.mark.parametrize("bad", [[math.nan, 1.0, 0.0], [math.inf, 0.0, 0.0], [0.0, 0.0, 0.0]])
def test_a_vector_without_direction_is_refused_and_nothing_is_written(index: VectorIndex, bad: list[float]) -> None:
    name = filled(index)
    with pytest.raises(ValueError, match=point_id(2)):
        index.upsert(name, [point(1), point(2, bad)])
    assert index.count(name) == 0


RED, TREE = "a red boat on the red sea", "a tree in the garden"


def bm25(tf: int, length: int, *, chunks: int, having: int) -> float:
    """As Qdrant and app/search/bm25.py share it out, worked out anew."""
    idf = math.log((chunks - having + 0.5) / (having + 0.5) + 1)
    return idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / AVERAGE_WORDS))


def test_chunks_are_found_by_their_words_and_scored_by_bm25(index: VectorIndex) -> None:
    name = filled(index, chunk(1, RED), chunk(2, TREE), chunk(3, "the boat"), chunk(4, "…"))
    assert index.has_sparse(name)
    hits = index.search_sparse(name, "Red BOAT?", limit=10)
    assert numbers(hits) == [1, 3]
    # The chunk without words does not count among the three.
    red, boat = bm25(2, 7, chunks=3, having=1), bm25(1, 7, chunks=3, having=2)
    assert hits[0].score == pytest.approx(red + boat, rel=1e-3)
    assert hits[1].score == pytest.approx(bm25(1, 2, chunks=3, having=2), rel=1e-3)
    assert hits[1].payload["page_content"] == "the boat"


@pytest.mark.parametrize("text", ["", "?!", "zebra"])
def test_a_text_without_a_known_word_finds_nothing_by_words(index: VectorIndex, text: str) -> None:
    name = filled(index, chunk(1, RED), chunk(2, TREE))
    assert index.search_sparse(name, text, limit=10) == []
    [dense], words = index.search_legs(name, [NORTH], text, limit=10)
    assert (numbers(dense), words) == ([1, 2], [])


def test_words_follow_what_is_written_and_deleted(index: VectorIndex) -> None:
    name = filled(index, chunk(1, RED), chunk(2, TREE))
    index.upsert(name, [chunk(1, "a grey boat")])
    assert numbers(index.search_sparse(name, "red", limit=10)) == []
    assert numbers(index.search_sparse(name, "grey", limit=10)) == [1]
    index.set_payloads(name, {point_id(1): {"page_content": "a grey boat", "metadata": {"document_id": "d9"}}})
    assert numbers(index.search_sparse(name, "grey", limit=10)) == [1]
    index.delete_points(name, [point_id(1)])
    assert numbers(index.search_sparse(name, "grey", limit=10)) == []


def test_legs_are_what_each_finds_alone(index: VectorIndex) -> None:
    name = filled(index, *(chunk(n, f"{'red ' * n}{TREE}", [n, 7 - n, 1], half=n % 2) for n in range(1, 7)))
    for filters in ({}, {"half": "1"}):
        (dense, other), words = index.search_legs(name, [EAST, NORTH], "red", limit=2, filters=filters)
        assert numbers(dense) == numbers(index.search(name, EAST, limit=2, filters=filters))
        assert numbers(other) == numbers(index.search(name, NORTH, limit=2, filters=filters)) != numbers(dense)
        assert numbers(words) == numbers(index.search_sparse(name, "red", limit=2, filters=filters))
        assert [hit.score for hit in words] == sorted((hit.score for hit in words), reverse=True)
        assert (len(dense), len(words)) == (2, 2)
        assert not filters or all(n % 2 for n in [*numbers(dense), *numbers(words)])


def test_legs_come_without_payloads_which_are_asked_for_by_id(index: VectorIndex) -> None:
    name = filled(index, chunk(1, RED), chunk(2, TREE))
    [dense], words = index.search_legs(name, [NORTH], "red", limit=2, with_payload=False)
    assert [hit.payload for hit in (*dense, *words, *index.search(name, NORTH, limit=1, with_payload=False))] == [
        {}
    ] * 4
    found = index.payloads(name, [point_id(2), point_id(404)])
    assert {each: payload["page_content"] for each, payload in found.items()} == {point_id(2): TREE}
    assert index.payloads(name, []) == {}


def test_equal_scores_of_either_leg_come_in_the_order_of_ids(index: VectorIndex) -> None:
    name = filled(index, *(chunk(n, RED) for n in range(40, 0, -1)), chunk(50, TREE, EAST))
    [dense], words = index.search_legs(name, [NORTH], "red", limit=3)
    assert numbers(dense) == numbers(words) == [1, 2, 3]
    assert numbers(index.search_sparse(name, "red", limit=3)) == [1, 2, 3]


def test_points_come_back_with_their_dense_vector_alone(index: VectorIndex) -> None:
    name = filled(index, chunk(1, RED, EAST))
    [found] = index.retrieve(name, [point_id(1), point_id(404)])
    assert list(found.vector) == pytest.approx(EAST)
    assert found.payload["page_content"] == RED


def test_words_survive_an_optimisation(engine_index: QdrantVectorIndex) -> None:
    name = filled(engine_index, *(chunk(n, f"{RED} {n}") for n in range(1, 30)))
    before = engine_index.search_sparse(name, "17", limit=3)
    optimize_index(engine_index, name, on_progress=lambda condition: None)
    assert engine_index.search_sparse(name, "17", limit=3) == before
    assert numbers(before) == [17]


def test_an_index_of_an_earlier_release_takes_points_and_refuses_words(qdrant_index: QdrantVectorIndex) -> None:
    name = new_name()
    params = models.VectorParams(size=3, distance=models.Distance.COSINE)
    qdrant_index.client.create_collection(name, vectors_config=params)
    qdrant_index.create(name, dimension=3)
    qdrant_index.upsert(name, [chunk(1, RED)])
    assert numbers(qdrant_index.search(name, NORTH, limit=1)) == [1]
    assert qdrant_index.retrieve(name, [point_id(1)])[0].vector == NORTH
    assert not qdrant_index.has_sparse(name)
    for ask in (
        lambda: qdrant_index.search_sparse(name, "red", limit=1),
        lambda: qdrant_index.search_legs(name, [NORTH], "red", limit=1),
    ):
        with pytest.raises(ConflictError, match="created by an old release and has no word index"):
            ask()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text("ab 猫犬é", max_size=12), min_size=1, max_size=8),
    query=st.text("ab 猫犬é", min_size=1, max_size=6),
)
def test_every_index_scores_words_alike(engine_index: QdrantVectorIndex, texts: list[str], query: str) -> None:
    indexes: list[VectorIndex] = [engine_index, QdrantVectorIndex(QdrantClient(":memory:")), InMemoryVectorIndex()]
    found = []
    for each in indexes:
        name = filled(each, *(chunk(n, text) for n, text in enumerate(texts, start=1)))
        found.append({hit.id: hit.score for hit in each.search_sparse(name, query, limit=20)})
        each.drop(name)
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-4)


def test_payloads_are_replaced_and_vectors_and_labels_stay(index: VectorIndex) -> None:
    name = filled(index, point(1, NORTH, year=1), point(2, EAST))
    index.set_labels(name, "lens_a", {point_id(1): {"value": 2}})
    payload = {"page_content": "new", "metadata": {"document_id": "d9"}}
    index.set_payloads(name, {point_id(1): payload, point_id(404): {"page_content": "?"}})
    hit = index.search(name, NORTH, limit=1)[0]
    assert (hit.id, hit.payload) == (point_id(1), {**payload, "lens_a": {"value": 2}})
    assert hit.score == pytest.approx(1.0)
    assert index.count(name) == 2


def labelled(index: VectorIndex, field: str, **labels: int) -> str:
    """Six chunks, of which p1 … p6 have labels; the vectors turn from north to east."""
    name = filled(index, *(chunk(n, f"{RED} {n}", [7 - n, n, 0], half=n % 2) for n in range(1, 7)))
    index.add_labels(name, field)
    index.set_labels(name, field, {point_id(int(key[1:])): {"value": value, "p": "x"} for key, value in labels.items()})
    return name


def test_searches_see_every_point_of_a_label(index: VectorIndex) -> None:
    name = labelled(index, "lens_a", p1=0, p2=1, p3=0, p4=1, p5=0, p6=1)
    one = Label("lens_a", 1)
    assert numbers(index.search(name, NORTH, limit=2, label=one)) == [2, 4]
    assert numbers(index.search(name, NORTH, limit=9, label=Label("lens_a", 7))) == []
    assert numbers(index.search(name, NORTH, limit=9, label=Label("lens_b", 1))) == []
    assert sorted(numbers(index.search_sparse(name, "red", limit=9, label=one))) == [2, 4, 6]
    [dense], words = index.search_legs(name, [EAST], "red", limit=9, filters={"half": "0"}, label=one)
    assert numbers(dense) == [6, 4, 2]
    assert sorted(numbers(words)) == [2, 4, 6]
    [dense], words = index.search_legs(name, [EAST], "red", limit=9, filters={"half": "1"}, label=one)
    assert (dense, words) == ([], [])


def test_labels_are_counted_within_a_filter(index: VectorIndex) -> None:
    name = labelled(index, "lens_a", p1=0, p2=1, p3=0, p4=2, p5=2)
    assert index.label_counts(name, "lens_a") == {0: 2, 1: 1, 2: 2}
    assert index.label_counts(name, "lens_a", filters={"half": "1"}) == {0: 2, 2: 1}
    index.set_labels(name, "lens_a", {point_id(1): {"value": 2, "p": "y"}, point_id(404): {"value": 2}})
    index.delete_points(name, [point_id(2)])
    assert index.label_counts(name, "lens_a") == {0: 1, 2: 3}
    assert index.count(name) == 5


def test_points_with_a_label_come_page_by_page(index: VectorIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.vectors.index._SCROLL_PAGE", 2)
    name = labelled(index, "lens_a", p1=0, p2=1, p3=0, p4=2, p5=0)
    every = [each for page in index.labelled(name, "lens_a") for each in page]
    assert {each.id for each in every} == {point_id(n) for n in range(1, 6)}
    assert every[0].payload["lens_a"]["p"] == "x"  # type: ignore[index]
    only = [each for page in index.labelled(name, "lens_a", value=0) for each in page]
    assert {str(each.payload["page_content"]) for each in only} == {f"{RED} {n}" for n in (1, 3, 5)}
    assert [each for page in index.labelled(name, "lens_b") for each in page] == []


def test_what_lacks_a_label_is_told_with_its_vector(index: VectorIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (labels_module, testing_module):
        monkeypatch.setattr(module, "UNLABELLED_PAGE", 2)
    name = labelled(index, "lens_a", p2=0)
    index.upsert(name, [Point(point_id(50), UP, {"page_content": "of another program"})])
    pages = list(index.unlabelled(name, "lens_a"))
    assert [len(ids) for ids, _ in pages] == [2, 2, 1]
    assert sorted(each for ids, _ in pages for each in ids) == [point_id(n) for n in (1, 3, 4, 5, 6)]
    vectors = {each: vector for ids, found in pages for each, vector in zip(ids, found.vectors, strict=True)}
    texts = {each: text for ids, found in pages for each, text in zip(ids, found.texts, strict=True)}
    assert texts[point_id(1)] == f"{RED} 1"
    first = vectors[point_id(1)]  # the double keeps vectors as they came
    assert first / math.hypot(*first) == pytest.approx([6 / 37**0.5, 1 / 37**0.5, 0])
    assert index.count_unlabelled(name, "lens_a") == 5
    assert index.count_unlabelled(name, "lens_b") == 6
    new = index.unlabelled(name, "lens_b")  # labelled while it is read, as a build does
    seen = 0
    for ids, _ in new:
        index.set_labels(name, "lens_b", {each: {"value": 0} for each in ids})
        seen += len(ids)
    assert seen == 6
    assert index.count_unlabelled(name, "lens_b") == 0


def test_vectors_come_without_their_payloads(index: VectorIndex) -> None:
    name = filled(index, point(1, NORTH), point(2, NORTH_EAST))
    ids, vectors = index.vectors(name, [point_id(2), point_id(404), point_id(1)])
    assert dict(zip(ids, vectors.tolist(), strict=True)) == {
        point_id(1): pytest.approx(NORTH),
        point_id(2): pytest.approx(NORTH_EAST),
    }
    assert vectors.dtype == np.float32
    assert index.vectors(name, [])[0] == []


def test_vectors_and_labels_come_with_whose_they_are(index: VectorIndex) -> None:
    name = labelled(index, "lens_a", p1=0, p2=1)
    ids = [point_id(1), point_id(404), point_id(2)]
    vectors = index.owned_vectors(name, ids)
    labels = index.owned_labels(name, "lens_a", ids)
    assert set(vectors.ids) == set(labels.ids) == {point_id(1), point_id(2)}
    by_id = {point.id: point for point in index.retrieve(name, ids)}
    for found in (vectors, labels):
        owners = {each: by_id[each].payload["metadata"]["document_id"] for each in found.ids}  # type: ignore[index]
        assert dict(zip(found.ids, found.document_ids, strict=True)) == owners
    assert dict(zip(vectors.ids, vectors.found.texts, strict=True)) == {point_id(n): f"{RED} {n}" for n in (1, 2)}
    for each, vector in zip(vectors.ids, vectors.found.vectors, strict=True):
        assert vector.tolist() == pytest.approx(list(by_id[each].vector))
    assert dict(zip(labels.ids, labels.found, strict=True)) == {
        point_id(1): {"value": 0, "p": "x"},
        point_id(2): {"value": 1, "p": "x"},
    }
    assert list(index.owned_labels(name, "lens_b", ids).found) == [None, None]
    assert list(index.owned_vectors(name, []).ids) == []


def test_a_search_and_one_of_a_label_beside_it_are_one_request(index: VectorIndex) -> None:
    name = labelled(index, "lens_a", p1=0, p2=1, p3=0, p4=1, p5=0, p6=1)
    one = (Label("lens_a", 1), 2)
    found, beside = index.search_beside(name, NORTH, limit=3, labelled=one)
    assert (numbers(found), numbers(beside)) == ([1, 2, 3], [2, 4])
    found, beside = index.search_beside(name, NORTH, limit=3, labelled=one, filters={"half": "0"}, with_payload=False)
    assert [each.id for each in found] == [point_id(n) for n in (2, 4, 6)]
    assert [each.id for each in beside] == [point_id(n) for n in (2, 4)]
    assert not found[0].payload


def test_all_labels_come_by_id(index: VectorIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "_LABELS_PAGE", 2)
    name = labelled(index, "lens_a", p1=0, p2=1, p5=0)
    found = [dict(page) for page in index.all_labels(name, "lens_a")]
    assert {each: label for page in found for each, label in page.items()} == {
        point_id(number): {"value": value, "p": "x"} for number, value in ((1, 0), (2, 1), (5, 0))
    }
    assert not any(index.all_labels(name, "lens_b"))


def test_labels_of_points_that_are_gone_are_left_out(index: VectorIndex) -> None:
    name = labelled(index, "lens_a", p1=0)
    index.set_labels(name, "lens_a", {point_id(2): {"value": 1}, point_id(404): {"value": 1}})
    assert index.label_counts(name, "lens_a") == {0: 1, 1: 1}
    assert point_id(404) not in set(index.point_ids(name))


def test_dropped_labels_leave_all_else(index: VectorIndex) -> None:
    name = labelled(index, "lens_a", p1=0, p2=1)
    index.add_labels(name, "lens_a")
    index.add_labels(name, "lens_b")
    index.set_labels(name, "lens_b", {point_id(1): {"value": 5}})
    for _ in range(2):
        index.drop_labels(name, "lens_a")
    [found] = index.retrieve(name, [point_id(1)])
    assert sorted(found.payload) == ["lens_b", "metadata", "page_content"]
    assert index.count_unlabelled(name, "lens_a") == 6
    assert index.label_counts(name, "lens_b") == {5: 1}


def test_labels_survive_an_optimisation(engine_index: QdrantVectorIndex) -> None:
    name = labelled(engine_index, "lens_a", p1=0, p2=1, p3=1)
    optimize_index(engine_index, name, on_progress=lambda condition: None)
    assert engine_index.label_counts(name, "lens_a") == {0: 1, 1: 2}
    assert numbers(engine_index.search(name, NORTH, limit=9, label=Label("lens_a", 1))) == [2, 3]
    engine_index.delete_points(name, [point_id(2)])
    engine_index.set_labels(name, "lens_a", {point_id(3): {"value": 0}, point_id(4): {"value": 4}})
    assert engine_index.label_counts(name, "lens_a") == {0: 2, 4: 1}


def test_points_are_deleted_by_id(index: VectorIndex) -> None:
    name = filled(index, point(1), point(2), point(3))
    index.delete_points(name, [point_id(2), point_id(404)])
    assert sorted(index.point_ids(name)) == [point_id(1), point_id(3)]


def test_a_document_is_counted_listed_and_deleted_alone(index: VectorIndex) -> None:
    name = filled(index, point(1, document_id="a"), point(2, document_id="b"), point(3, document_id="a"))
    assert index.count(name, document_id="a") == 2
    assert sorted(index.points_of(name, ["a"])) == [("a", point_id(1)), ("a", point_id(3))]
    assert sorted(index.points_of(name, ["a", "b", "gone"])) == sorted(
        [("a", point_id(1)), ("b", point_id(2)), ("a", point_id(3))]
    )
    index.delete_document(name, "a")
    assert list(index.point_ids(name)) == [point_id(2)]
    assert index.count(name, document_id="a") == 0


def test_all_ids_are_listed_over_many_pages(index: VectorIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.vectors.index._SCROLL_PAGE", 4)
    name = filled(index, *(point(number) for number in range(1, 12)))
    assert sorted(index.point_ids(name)) == [point_id(number) for number in range(1, 12)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"year": "1999"}, [1, 2, 3]),
        ({"year": "1999", "lang": "de"}, [2]),
        ({"draft": "true"}, [4]),
        ({"ratio": "0.5"}, [4]),
        ({"ratio": "-2"}, [5]),
        ({"lang": "d"}, []),
        ({"absent": "1"}, []),
        ({"two words": "yes"}, [5]),
    ],
)
def test_filters_compare_metadata_by_equality(
    qdrant_index: QdrantVectorIndex, asked: dict[str, str], expected: list[int]
) -> None:
    name = filled(
        qdrant_index,
        point(1, year=1999),
        point(2, year="1999", lang="de"),
        point(3, year=1999.0),
        point(4, year=2000, draft=True, ratio=0.5),
        point(5, year=19990, draft=False, ratio=-2, **{"two words": "yes"}),
    )
    assert found_numbers(qdrant_index, name, **asked) == expected


@pytest.fixture
def any_name() -> str:
    """One for all examples."""
    return new_name()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(min_size=1, max_size=8), value=st.text(max_size=8))
@example(key="0", value="\0")
def test_any_metadata_can_be_asked_for_or_is_refused(
    engine_index: QdrantVectorIndex, any_name: str, key: str, value: str
) -> None:
    name = any_name
    engine_index.create(name, dimension=3)
    try:
        engine_index.upsert(name, [Point(point_id(1), NORTH, {"page_content": "a text", "metadata": {key: value}})])
        found = engine_index.search(name, NORTH, limit=10, filters={key: value})
        assert [hit.id for hit in found] == [point_id(1)]
    except FilterError:
        assert set(key) & set('"\\') or "\0" in key + value


def test_an_alias_switches_from_one_index_to_another(index: VectorIndex) -> None:
    old, new, alias = filled(index, point(1)), filled(index, point(2)), new_name("library")
    index.point_to(alias, old)
    assert found_numbers(index, alias) == [1]
    index.point_to(alias, new)
    assert found_numbers(index, alias) == [2]
    assert index.exists(alias)
    index.drop(new)
    assert not index.exists(alias)


def test_an_alias_is_never_away_while_it_switches(engine_index: QdrantVectorIndex) -> None:
    indexes, alias = [filled(engine_index, point(1)), filled(engine_index, point(2))], new_name("library")
    engine_index.point_to(alias, indexes[0])
    with ThreadPoolExecutor(1) as threads:
        switching = threads.submit(lambda: [engine_index.point_to(alias, indexes[turn % 2]) for turn in range(20)])
        answers = [found_numbers(engine_index, alias)]
        while not switching.done():
            answers.append(found_numbers(engine_index, alias))
        switching.result()
    assert all(answer in ([1], [2]) for answer in answers)


@pytest.mark.parametrize("filters", [{"": "x"}, {'a"b': "x"}, {"a\\b": "x"}, {"a": "\ud800"}, {"\ud800": "a"}])
def test_a_filter_that_cannot_be_asked_is_refused(qdrant_index: QdrantVectorIndex, filters: dict[str, str]) -> None:
    name = filled(qdrant_index, point(1))
    with pytest.raises(FilterError, match=r"Give|leave out"):
        qdrant_index.search(name, NORTH, limit=1, filters=filters)


def test_a_missing_index_is_named_in_the_error(qdrant_index: QdrantVectorIndex) -> None:
    absent, alias = new_name("absent"), new_name("library")
    for use in (
        lambda: qdrant_index.search(absent, NORTH, limit=1),
        lambda: qdrant_index.upsert(absent, [point(1)]),
        lambda: qdrant_index.count(absent),
        lambda: list(qdrant_index.point_ids(absent)),
        lambda: qdrant_index.delete_document(absent, "d1"),
        lambda: qdrant_index.point_to(alias, absent),
    ):
        with pytest.raises(NotFoundError, match=rf"'{absent}'.*gircse doctor --rebuild"):
            use()


def test_a_vector_of_the_wrong_dimension_is_the_callers_mistake(engine_index: QdrantVectorIndex) -> None:
    name = filled(engine_index)
    with pytest.raises(InputError, match="expected dim: 3, got 2"):
        engine_index.upsert(name, [point(1, [1.0, 0.0])])
    with pytest.raises(InputError, match="expected dim: 3, got 2"):
        engine_index.search(name, [1.0, 0.0], limit=1)


def test_documents_are_counted_by_facet(qdrant_index: QdrantVectorIndex) -> None:
    name = filled(qdrant_index, point(1, document_id="a"), point(2, document_id="b"), point(3, document_id="a"))
    hits = qdrant_index.client.facet(name, "metadata.document_id", exact=True).hits
    assert [(hit.value, hit.count) for hit in hits] == [("a", 2), ("b", 1)]


def test_two_rankings_are_fused_by_reciprocal_rank(qdrant_index: QdrantVectorIndex) -> None:
    name = filled(qdrant_index, point(1, NORTH), point(2, NORTH_EAST), point(3, EAST))
    stages = [models.Prefetch(query=vector, limit=2) for vector in (NORTH, [0.2, 1.0, 0.0])]
    fused = qdrant_index.client.query_points(
        name, prefetch=stages, query=models.FusionQuery(fusion=models.Fusion.RRF), limit=3
    ).points
    # Stages: 1, 2 and 3, 2; Qdrant gives 1 / (2 + place). Equal sums come in any order from a server.
    assert [hit.score for hit in fused] == pytest.approx([2 / 3, 1 / 2, 1 / 2])
    assert fused[0].id == point_id(2)
    assert {hit.id for hit in fused[1:]} == {point_id(1), point_id(3)}


class HandMadeEmbeddings(Embeddings):
    def embed_query(self, text: str) -> list[float]:
        return EAST if text == "east" else NORTH

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@pytest.fixture
def store_of(qdrant_index: QdrantVectorIndex) -> Callable[[str], QdrantVectorStore]:
    def open_store(name: str) -> QdrantVectorStore:
        return QdrantVectorStore(qdrant_index.client, name, embedding=HandMadeEmbeddings())

    return open_store


def test_langchain_reads_and_writes_our_collections(
    qdrant_index: QdrantVectorIndex, store_of: Callable[[str], QdrantVectorStore]
) -> None:
    name = filled(qdrant_index, *(point(number) for number in range(30, 0, -1)), point(40, EAST, document_id="d2"))
    store = store_of(name)
    found = store.similarity_search("north", k=30)
    assert {document.metadata["_id"] for document in found} == {point_id(number) for number in range(1, 31)}
    only_d2 = models.Filter(
        must=[models.FieldCondition(key="metadata.document_id", match=models.MatchValue(value="d2"))]
    )
    assert store.similarity_search("north", k=5, filter=only_d2)[0].page_content == "text 40"
    [added] = store.add_texts(["east"], metadatas=[{"document_id": "d3"}])
    assert qdrant_index.count(name, document_id="d3") == 1
    assert store.get_by_ids([added])[0].page_content == "east"
    store.delete([added])
    assert qdrant_index.count(name, document_id="d3") == 0


def test_the_official_client_reads_every_answer(edge: EdgeProcess, edge_index: QdrantVectorIndex) -> None:
    """Unmodified, as a person would make it from the address and the token; its models check the shapes."""
    with pytest.warns(UserWarning, match="insecure connection"):
        client = QdrantClient(url=edge.start().url, api_key=edge.start().token)
    name = new_name()
    client.create_collection(name, vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
    client.create_payload_index(name, "tag", models.PayloadSchemaType.KEYWORD)
    ids = [str(uuid.UUID(int=number)) for number in (1, 2)]
    client.upsert(name, [models.PointStruct(id=ids[0], vector=[1, 0], payload={"tag": "a"})])
    client.upload_points(name, [models.PointStruct(id=ids[1], vector=[0, 1], payload={"tag": "b"})], wait=True)
    assert client.info().version
    assert name in [found.name for found in client.get_collections().collections]
    assert client.get_collection(name).payload_schema["tag"].data_type == models.PayloadSchemaType.KEYWORD
    assert client.retrieve(name, [ids[1]], with_vectors=True)[0].vector == [0, 1]
    assert client.scroll(name, limit=1)[1] == ids[1]
    assert client.facet(name, "tag").hits[0].count == 1
    client.delete_payload_index(name, "tag")
    with pytest.raises(UnexpectedResponse, match="no payload index"):
        client.facet(name, "tag")
    selector = models.FilterSelector(
        filter=models.Filter(must=[models.FieldCondition(key="tag", match=models.MatchValue(value="a"))])
    )
    client.delete(name, selector)
    assert client.count(name).count == 1


def test_langchain_finds_the_same_ids_in_the_same_order(edge_index: QdrantVectorIndex) -> None:
    name = filled(edge_index, *(point(number) for number in range(60, 0, -1)), point(99, NORTH_EAST))
    store = QdrantVectorStore(edge_index.client, name, embedding=HandMadeEmbeddings())
    by_langchain = [document.metadata["_id"] for document in store.similarity_search("north", k=5)]
    assert by_langchain == [hit.id for hit in edge_index.search(name, NORTH, limit=5)]
    assert by_langchain == [point_id(number) for number in range(1, 6)]


def a_chunk(number: int, text: str, *, told: str = "") -> Point:
    """`told`: the text that it says to be of."""
    metadata = {"document_id": "d", "title": "", "uri": "u", "ordinal": number, "start": 0, "end": 9, "page": None}
    metadata["text_hash"] = hash_of_text(told or text)
    return Point(point_id(number), NORTH, {"page_content": text, "metadata": metadata})


def test_an_inspection_names_points_whose_text_has_another_hash_or_other_words(qdrant_index: QdrantVectorIndex) -> None:
    name = new_name()
    qdrant_index.create(name, dimension=len(NORTH))
    qdrant_index.upsert(name, [a_chunk(number, f"The owl {number} sleeps.") for number in range(1, 9)])
    ids = [point_id(number) for number in range(1, 9)]
    assert qdrant_index.inspect(name, ids) is None
    qdrant_index.upsert(name, [a_chunk(3, "The owm 3 sleeps.", told="The owl 3 sleeps.")])
    assert qdrant_index.inspect(name, ids) == PointDamage(
        "texts of its chunks differ from what was written", (point_id(3),)
    )
    qdrant_index.upsert(name, [a_chunk(3, "The bat 3 sleeps.")])
    qdrant_index.set_payloads(name, {point_id(3): a_chunk(3, "The owl 3 sleeps.").payload})  # words stay
    expected = PointDamage("words of its chunks differ from what was written", (point_id(3),))
    assert qdrant_index.inspect(name, ids) == expected


def test_points_that_are_as_written_pass_an_inspection(index: VectorIndex) -> None:
    name = new_name()
    index.create(name, dimension=len(NORTH))
    index.upsert(name, [point(number) for number in range(1, 5)])
    ids = [point_id(number) for number in range(1, 5)]
    assert index.inspect(name, ids) is None
    assert index.inspect(name, [*ids, point_id(99)]) is None  # whether all are there is another question
    assert index.inspect(name, []) is None
    index.upsert(name, [Point(point_id(3), NORTH, {"metadata": {}})])
    assert "text" in str(index.inspect(name, ids))
    with pytest.raises(NotFoundError):
        index.inspect(new_name("absent"), ids)


def test_a_server_that_is_away_is_unavailable_and_says_what_to_check() -> None:
    index = QdrantVectorIndex.at("http://127.0.0.1:9")  # the discard port: nothing listens there
    assert not index.is_alive()
    with pytest.raises(VectorIndexUnavailableError, match="GIRCSE_QDRANT_URL"):
        index.count("docs")


@pytest.mark.server(is_quick=True)
def test_a_wrong_key_is_unavailable_and_names_the_setting(qdrant_server: QdrantServer) -> None:
    if qdrant_server.api_key is None:
        pytest.skip("this server asks for no key")
    index = QdrantVectorIndex.at(qdrant_server.url, api_key="wrong")
    with pytest.raises(VectorIndexUnavailableError, match="GIRCSE_QDRANT_API_KEY"):
        index.count("docs")
