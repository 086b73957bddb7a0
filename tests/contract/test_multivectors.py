"""Indexes whose points have a vector for every step, on every index of test_vector_index.py."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse
from test_vector_index import (
    EAST,
    NORTH,
    UP,
    connected_index,
    edge,
    edge_index,
    engine_index,
    index,
    new_name,
    point,
    point_id,
    server_index,
)
from test_vector_index import pytestmark as pytestmark  # warnings of the client's memory

from app.errors import ConflictError
from app.maintenance.optimize import optimize_index
from app.ports.parts import VectorIndex
from app.types.documents import Point
from app.types.lens_indexes import Label
from app.vectors import QdrantVectorIndex
from app.vectors.points import batches, point_structs
from app.vectors.tuning import search_params

__all__ = ["connected_index", "edge", "edge_index", "engine_index", "index", "server_index"]  # the fixtures

STEPS, DIMENSION = 4, 6


def unit(*shape: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal(shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def several(number: int, steps: Sequence[Sequence[float]], **metadata: str) -> Point:
    return Point.of_steps(point_id(number), steps, point(number, **metadata).payload)


def filled(index: VectorIndex, vectors: np.ndarray) -> str:
    """Points 1, 2, … of two documents in turn, with vectors (n, K, D)."""
    name = new_name("steps")
    index.create(name, dimension=vectors.shape[2], vectors_per_point=vectors.shape[1])
    owners = itertools.cycle(["d1", "d2"])
    found = zip(vectors.tolist(), owners, strict=False)
    index.upsert(name, [several(at, steps, document_id=owner) for at, (steps, owner) in enumerate(found, start=1)])
    return name


def ranking(scores: np.ndarray, limit: int) -> tuple[list[str], list[float]]:
    order = np.argsort(-scores)[:limit]
    return [point_id(int(at) + 1) for at in order], scores[order].tolist()


def test_the_vector_that_is_most_alike_decides(index: VectorIndex) -> None:
    vectors, query = unit(30, STEPS, DIMENSION, seed=1), unit(DIMENSION, seed=2)
    name = filled(index, vectors)
    ids, scores = ranking((vectors @ query).max(axis=1), limit=8)
    hits = index.search(name, query.tolist(), limit=8)
    assert [hit.id for hit in hits] == ids
    assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-6)
    assert ids != ranking(vectors[:, -1] @ query, limit=8)[0]  # of the last vectors alone
    of_d1 = [hit.id for hit in index.search(name, query.tolist(), limit=30, filters={"document_id": "d1"})]
    assert of_d1 == [each for each in ranking((vectors @ query).max(axis=1), 30)[0] if int(each[-2:], 16) % 2]


def test_words_are_found_beside_them(index: VectorIndex) -> None:
    vectors, query = unit(9, STEPS, DIMENSION, seed=3), unit(DIMENSION, seed=4)
    name = filled(index, vectors)
    [dense], words = index.search_legs(name, [query.tolist()], "text 7", limit=9)
    assert [hit.id for hit in dense] == ranking((vectors @ query).max(axis=1), limit=9)[0]
    assert words[0].id == point_id(7)


def test_points_come_back_with_all_of_them_and_can_be_written_elsewhere(index: VectorIndex) -> None:
    vectors = unit(5, STEPS, DIMENSION, seed=5)
    name, other = filled(index, vectors), new_name("other")
    found = sorted(index.retrieve(name, [point_id(at) for at in (1, 3, 4, 404)]), key=lambda each: each.id)
    np.testing.assert_allclose([each.steps for each in found], vectors[[0, 2, 3]], atol=1e-6)
    assert found[0].payload["page_content"] == "text 1"
    index.create(other, dimension=DIMENSION, vectors_per_point=STEPS)
    index.upsert(other, found)
    query = vectors[2, 1].tolist()  # of an earlier step
    assert [hit.id for hit in index.search(other, query, limit=1)] == [point_id(3)]
    index.set_payloads(name, {point_id(1): {"page_content": "new", "metadata": {"document_id": "d1"}}})
    np.testing.assert_allclose(index.retrieve(name, [point_id(1)])[0].steps, vectors[0], atol=1e-6)


def test_the_last_stands_for_a_point_where_one_must_do(index: VectorIndex) -> None:
    vectors = unit(4, STEPS, DIMENSION, seed=6)
    name = filled(index, vectors)
    ids, found = index.vectors(name, [point_id(at) for at in range(1, 5)])
    last = {point_id(at): own for at, own in enumerate(vectors[:, -1], start=1)}
    np.testing.assert_allclose(found, [last[each] for each in ids], atol=1e-6)
    owned = index.owned_vectors(name, [point_id(2)])
    np.testing.assert_allclose(owned.found.vectors, vectors[[1], -1], atol=1e-6)
    index.add_labels(name, "lens_a")
    index.set_labels(name, "lens_a", {point_id(1): {"value": 2}})
    [(left, page)] = index.unlabelled(name, "lens_a")
    np.testing.assert_allclose(page.vectors, [last[each] for each in left], atol=1e-6)
    hits = index.search(name, vectors[0, 0].tolist(), limit=4, label=Label("lens_a", 2))
    assert [hit.score for hit in hits] == pytest.approx([1.0], abs=1e-6)


def test_points_of_the_other_kind_are_refused(index: VectorIndex) -> None:
    name, plain = filled(index, unit(1, 2, 3, seed=7)), new_name()
    index.create(plain, dimension=3)
    with pytest.raises(ValueError, match=point_id(2)):
        index.upsert(name, [point(2, NORTH)])
    with pytest.raises(ValueError, match=point_id(2)):
        index.upsert(plain, [several(2, [EAST, NORTH])])
    with pytest.raises(ValueError, match=point_id(2)):
        index.upsert(name, [several(2, [[0.0, 0.0, 0.0], NORTH])])
    assert (index.count(name), index.count(plain)) == (1, 0)
    with pytest.raises(ConflictError, match=name):
        index.create(name, dimension=3)
    index.create(name, dimension=3, vectors_per_point=2)


def test_they_pass_an_inspection(index: VectorIndex) -> None:
    name = filled(index, unit(6, STEPS, DIMENSION, seed=8))
    assert index.inspect(name, [point_id(at) for at in range(1, 7)]) is None


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_an_optimisation_changes_no_answer(engine_index: QdrantVectorIndex, quantization: str) -> None:
    engine_index = QdrantVectorIndex(
        engine_index.client,
        quantization=quantization,  # type: ignore[arg-type]
        is_embedded=engine_index._is_embedded,
    )
    vectors, query = unit(200, STEPS, DIMENSION, seed=9), unit(DIMENSION, seed=10).tolist()
    name = filled(engine_index, vectors)
    before = engine_index.search(name, query, limit=20)
    optimize_index(engine_index, name, on_progress=lambda condition: None)
    after = engine_index.search(name, query, limit=20)
    assert [hit.id for hit in after] == [hit.id for hit in before]
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before], abs=1e-6)
    np.testing.assert_allclose(engine_index.retrieve(name, [point_id(9)])[0].steps, vectors[8], atol=1e-6)


def test_what_is_written_during_an_optimisation_keeps_all_of_them(engine_index: QdrantVectorIndex) -> None:
    vectors = unit(300, STEPS, DIMENSION, seed=11)
    name = filled(engine_index, vectors[:299])
    engine_index.optimize(name)
    engine_index.upsert(name, [several(300, vectors[299].tolist())])
    optimize_index(engine_index, name, on_progress=lambda condition: None)
    np.testing.assert_allclose(engine_index.retrieve(name, [point_id(300)])[0].steps, vectors[299], atol=1e-6)


def test_an_index_with_a_graph_is_searched_by_it(engine_index: QdrantVectorIndex) -> None:
    """Counted as one vector of each point, a graph would look too small to be used."""
    name = filled(engine_index, unit(4, STEPS, DIMENSION, seed=14))
    info = engine_index.client.get_collection(name)
    assert search_params(info).exact
    with_words, in_graph = 4, 3
    assert not search_params(info.model_copy(update={"indexed_vectors_count": with_words + in_graph})).exact


def test_all_numbers_of_a_point_count_for_a_message() -> None:
    points = [several(at, steps) for at, steps in enumerate(unit(6, STEPS, DIMENSION, seed=15).tolist())]
    structs = point_structs(points, with_words=False, is_multivector=True)
    assert [len(each) for each in batches(structs, most_numbers=2 * STEPS * DIMENSION)] == [2, 2, 2]


class NorthEmbeddings(Embeddings):
    def embed_query(self, text: str) -> list[float]:
        return NORTH

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [NORTH for _ in texts]


def test_langchain_finds_the_same(engine_index: QdrantVectorIndex) -> None:
    name = filled(engine_index, unit(40, STEPS, 3, seed=12))
    store = QdrantVectorStore(engine_index.client, name, embedding=NorthEmbeddings())
    found = [(each.metadata["_id"], score) for each, score in store.similarity_search_with_score("north", k=9)]
    hits = engine_index.search(name, NORTH, limit=9)
    assert [each for each, _ in found] == [hit.id for hit in hits]
    assert [score for _, score in found] == pytest.approx([hit.score for hit in hits])


@pytest.mark.parametrize(
    ("vector", "told"),
    [([NORTH, EAST], "no multivector"), ([[*NORTH, 1.0]], "no multivector"), ([NORTH[:2]], "no multivector")],
)
def test_the_embedded_engine_refuses_them_where_one_vector_is_kept(
    edge_index: QdrantVectorIndex, vector: list[list[float]], told: str
) -> None:
    name = new_name()
    edge_index.create(name, dimension=3)
    with pytest.raises(UnexpectedResponse, match=told):
        edge_index.client.upsert(name, [models.PointStruct(id=1, vector=vector)])


def test_the_embedded_engine_checks_every_vector(edge_index: QdrantVectorIndex) -> None:
    name = filled(edge_index, unit(1, 2, 3, seed=13))
    for bad, told in (([NORTH, NORTH[:2]], "expected dim: 3, got 2"), ([UP, [0.0, 0.0, 0.0]], "zero vector")):
        with pytest.raises(UnexpectedResponse, match=told):
            edge_index.client.upsert(name, [models.PointStruct(id=1, vector=bad)])
    assert edge_index.count(name) == 1
