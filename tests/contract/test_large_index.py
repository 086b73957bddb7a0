"""Indexes that are large enough for a graph, in the embedded engine and on a server; what counts as large is made small
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from patience import wait_until
from qdrant_client import models
from qdrant_servers import SERVER, Node, QdrantServer, open_index

from app.edge import EdgeProcess
from app.maintenance.optimize import optimize_index
from app.settings import load_settings
from app.types.documents import Point, ScoredPoint
from app.vectors import QdrantVectorIndex, tuning
from app.vectors.filters import of_ids
from app.vectors.tuning import Quantization, SearchedIndexes, search_params
from app.wiring.index import open_index as open_index_of_settings

NAME = "docs--1"
COUNT, DIMENSION, LIMIT = 1500, 32, 10
SMALL_KB = 50  # of the 192 that COUNT vectors take
LEAST_RECALL = {"none": 0.98, "int8": 0.98, "binary": 0.7}  # 32 bits tell little; 384 tell more
MATCHES = {"none": None, "int8": models.ScalarQuantization, "binary": models.BinaryQuantization}


def point_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rows = np.random.default_rng(0).standard_normal((COUNT, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def queries() -> np.ndarray:
    rows = np.random.default_rng(1).standard_normal((30, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "GRAPH_FROM_KB", SMALL_KB)
    monkeypatch.setattr(tuning, "PAYLOAD_INDEXES_FROM", COUNT)


class Embedded:
    def __init__(self, folder: Path) -> None:
        self._folder, self._opened = folder, ExitStack()
        self._process = EdgeProcess(folder)

    def __enter__(self) -> Embedded:
        self._opened.enter_context(self._process)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def open(self, quantization: Quantization = "none") -> QdrantVectorIndex:
        index = QdrantVectorIndex.over_edge(self._process, quantization=quantization)
        self._opened.callback(index.close)
        return index

    def restart(self) -> None:
        self._process.stop()  # the next one who asks starts another

    def assert_quantized_files(self, are_there: bool) -> None:
        assert any(self._folder.rglob("quantized.data*")) == are_there


class Remote:
    """Its files are its own: `assert_quantized_files` looks at nothing."""

    def __init__(self, url: str, api_key: str | None, node: Node | None) -> None:
        self._url, self._api_key, self._node, self._opened = url, api_key, node, ExitStack()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def open(self, quantization: Quantization = "none") -> QdrantVectorIndex:
        index = open_index(self._url, self._api_key, quantization=quantization)
        self._opened.callback(index.close)
        return index

    def restart(self) -> None:
        """Of a server that was named nothing happens."""
        if self._node is not None:
            self._node.kill()
            self._node.start()

    def assert_quantized_files(self, are_there: bool) -> None:
        pass


@pytest.fixture(params=["edge", SERVER])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Embedded | Remote]:
    if request.param == "edge":
        with Embedded(tmp_path) as embedded:
            yield embedded
        return
    server: QdrantServer = request.getfixturevalue("qdrant_server")
    with server.with_own_names() as url, Remote(url, server.api_key, next(iter(server.nodes), None)) as remote:
        yield remote


def payload_of(number: int) -> dict[str, Any]:
    metadata = {"document_id": f"d{number // 10}", "uri": f"u{number}", "topic": f"t{number % 7}", "year": number}
    return {"page_content": f"text {number}", "metadata": metadata}


def fill(index: QdrantVectorIndex, rows: np.ndarray) -> None:
    index.create(NAME, dimension=DIMENSION)
    index.upsert(NAME, [Point(point_id(number), row, payload_of(number)) for number, row in enumerate(rows.tolist())])


def search_all(index: QdrantVectorIndex, queries: np.ndarray) -> list[list[ScoredPoint]]:
    return [index.search(NAME, query, limit=LIMIT) for query in queries.tolist()]


def recall(found: list[list[ScoredPoint]], rows: np.ndarray, queries: np.ndarray) -> float:
    best = np.sort(queries @ rows.T, axis=1)[:, -LIMIT]
    return float(np.mean([[hit.score >= best[n] - 1e-6 for hit in hits] for n, hits in enumerate(found)]))


def assert_scores_are_cosines(found: list[list[ScoredPoint]], rows: np.ndarray, queries: np.ndarray) -> None:
    for hits, query in zip(found, queries, strict=True):
        cosines = [float(rows[int(hit.id[-12:])] @ query) for hit in hits]
        assert [hit.score for hit in hits] == pytest.approx(cosines, abs=1e-6)


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize(
    "quantization",
    [each if each == "int8" else pytest.param(each, marks=pytest.mark.long) for each in get_args(Quantization)],
)
def test_a_graph_finds_nearly_all_and_scores_them_exactly(
    engine: Embedded | Remote, rows: np.ndarray, queries: np.ndarray, quantization: Quantization
) -> None:
    index = engine.open(quantization)
    fill(index, rows)
    assert recall(search_all(index, queries), rows, queries) == 1
    optimize_index(index, NAME, poll_interval_s=0.02)
    info = index.client.get_collection(NAME)
    assert info.config.optimizer_config.indexing_threshold == SMALL_KB
    kept = MATCHES[quantization]
    assert (
        info.config.quantization_config is None if kept is None else isinstance(info.config.quantization_config, kept)
    )
    engine.assert_quantized_files(quantization != "none")
    assert search_params(info).exact is False

    engine.restart()  # and everything is there after a restart
    index = engine.open(quantization)
    found = search_all(index, queries)
    assert_scores_are_cosines(found, rows, queries)
    assert recall(found, rows, queries) > LEAST_RECALL[quantization]
    index.upsert(NAME, [Point(point_id(COUNT), queries[0].tolist(), {"page_content": "new", "metadata": {}})])
    assert index.search(NAME, queries[0].tolist(), limit=1)[0].id == point_id(COUNT)


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize(
    "settings", [("int8", "none"), pytest.param(("binary", "none", "int8", "binary"), marks=pytest.mark.long)]
)
def test_an_index_takes_the_present_setting_when_it_is_optimised(
    engine: Embedded | Remote, rows: np.ndarray, queries: np.ndarray, settings: tuple[Quantization, ...]
) -> None:
    fill(engine.open(), rows)
    for quantization in settings:
        index = engine.open(quantization)
        optimize_index(index, NAME, poll_interval_s=0.02)
        config = index.client.get_collection(NAME).config
        assert bool(config.params.vectors.on_disk) == (quantization != "none")
        assert bool(config.quantization_config) == (quantization != "none")
        engine.assert_quantized_files(quantization != "none")
        assert_scores_are_cosines(search_all(index, queries), rows, queries)


def test_a_small_index_stays_exact_and_whole(engine: Embedded | Remote, rows: np.ndarray, queries: np.ndarray) -> None:
    index = engine.open("binary")
    fill(index, rows)
    before = search_all(index, queries)
    assert recall(before, rows, queries) == 1
    optimize_index(index, NAME, poll_interval_s=0.02)
    info = index.client.get_collection(NAME)
    assert search_params(info).exact
    engine.assert_quantized_files(False)
    assert search_all(index, queries) == before
    assert info.payload_schema.keys() == {"metadata.document_id"}


@pytest.mark.usefixtures("small_is_large")
def test_metadata_get_an_index_when_a_large_collection_is_optimised(
    engine: Embedded | Remote, rows: np.ndarray, queries: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, query = engine.open(), queries[0].tolist()
    with monkeypatch.context() as context:  # as a release that wrote no numbers beside the metadata
        context.setattr("app.vectors.points.numbers_of", lambda metadata: {})
        fill(index, rows)
    filters = ({"topic": "t3"}, {"year": "17"}, {"topic": "t3", "year": "17"}, {"year": "17.0"}, {"year": "x"})
    before = [index.search(NAME, query, limit=LIMIT, filters=each) for each in filters]
    assert [len(hits) for hits in before] == [LIMIT, 1, 1, 1, 0]
    optimize_index(index, NAME, poll_interval_s=0.02)
    expected = {"metadata.document_id", "metadata.topic", "metadata.year", "metadata_numbers.year"}
    wait_until(lambda: index.client.get_collection(NAME).payload_schema.keys() == expected)  # a server makes them later
    assert [index.search(NAME, query, limit=LIMIT, filters=each) for each in filters] == before
    assert index.retrieve(NAME, [point_id(17)])[0].payload == payload_of(17)

    changed = payload_of(17)["metadata"] | {"year": "17"}
    index.set_payloads(NAME, {point_id(17): {"metadata": changed}, point_id(18): {"metadata": {"year": [3.5, 4711]}}})
    found = [
        [hit.id for hit in index.search(NAME, query, limit=LIMIT, filters=each)]
        for each in ({"year": "17"}, {"year": "17.0"}, {"year": "4711"}, {"year": "18"})
    ]
    assert found == [[point_id(17)], [], [point_id(18)], []]


@pytest.mark.usefixtures("small_is_large")
def test_a_filter_by_a_number_reads_no_payloads_where_it_has_an_index(
    engine: Embedded | Remote, rows: np.ndarray
) -> None:
    index = engine.open()
    fill(index, rows)
    optimize_index(index, NAME, poll_interval_s=0.02)
    own = index.client.get_collection(NAME).payload_schema["metadata_numbers.year"]
    assert (own.data_type, own.points) == (models.PayloadSchemaType.FLOAT, len(rows))
    condition = index._condition(NAME, {"year": "17"})
    assert "metadata_numbers.year" in condition.model_dump_json()
    # What it does not find there, it does not look for elsewhere.
    without = models.SetPayload(payload={"metadata_numbers": {}}, filter=of_ids([point_id(17)]))
    index.client.batch_update_points(NAME, [models.SetPayloadOperation(set_payload=without)])
    assert index.search(NAME, rows[0].tolist(), limit=LIMIT, filters={"year": "17"}) == []


def test_the_setting_reaches_the_index(tmp_path: Path) -> None:
    with open_index_of_settings(load_settings(home=tmp_path, quantization="binary")) as index:
        index.create(NAME, dimension=DIMENSION)
        assert isinstance(index.client.get_collection(NAME).config.quantization_config, models.BinaryQuantization)


def collection_info(
    *, indexed: int, points: int, quantization: Quantization = "none", has_sparse: bool = False
) -> models.CollectionInfo:
    hnsw = models.HnswConfig(m=16, ef_construct=100, full_scan_threshold=10_000)
    optimizers = models.OptimizersConfig(
        deleted_threshold=0.2, vacuum_min_vector_number=1000, default_segment_number=0, flush_interval_sec=5
    )
    sparse = {"bm25": models.SparseVectorParams()} if has_sparse else None
    params = models.CollectionParams(vectors=tuning.vector_params(384, quantization), sparse_vectors=sparse)
    return models.CollectionInfo(
        status=models.CollectionStatus.GREEN,
        optimizer_status=models.OptimizersStatusOneOf.OK,
        segments_count=1,
        indexed_vectors_count=indexed,
        points_count=points,
        payload_schema={},
        config=models.CollectionConfig(
            params=params,
            hnsw_config=hnsw,
            optimizer_config=optimizers,
            quantization_config=tuning.quantization_config(quantization),
        ),
    )


@pytest.mark.parametrize(
    ("indexed", "points", "has_sparse", "exact"),
    [
        (66_667, 66_667, False, False),
        (66_666, 66_666, False, True),
        (0, 1_000_000, False, True),  # nothing of it has a graph yet
        (1_000_000, 1_000_000, True, True),  # nor here: only the words have an index
        (1_066_667, 1_000_000, True, False),
    ],
)
def test_a_hundred_megabytes_of_vectors_are_searched_by_a_graph(
    indexed: int, points: int, has_sparse: bool, exact: bool
) -> None:
    info = collection_info(indexed=indexed, points=points, has_sparse=has_sparse)
    assert search_params(info).exact is exact


@pytest.mark.parametrize(("quantization", "oversampling"), [("none", 1), ("int8", 2), ("binary", 16)])
def test_hits_of_a_graph_are_scored_again_with_the_original_vectors(
    quantization: Quantization, oversampling: float
) -> None:
    params = search_params(collection_info(indexed=100_000, points=100_000, quantization=quantization))
    assert params.quantization == models.QuantizationSearchParams(rescore=True, oversampling=oversampling)


def test_the_size_of_an_index_is_looked_at_again_after_a_while_and_when_it_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []

    def look(index: str) -> models.CollectionInfo:
        looks.append(index)
        return collection_info(indexed=100_000 * (len(looks) - 1), points=100_000)

    known = SearchedIndexes(look)
    assert [known.of("a").params.exact, known.of("a").params.exact] == [True, True]
    known.forget("a")
    assert [known.of("a").params.exact, known.of("a").params.exact] == [False, False]
    monkeypatch.setattr(tuning, "_LOOK_AGAIN_S", 0.0)
    known.of("a")
    assert looks == ["a", "a", "a"]
