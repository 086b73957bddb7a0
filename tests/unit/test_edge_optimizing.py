"""An optimisation of the embedded engine: what is searched and written meanwhile, and what a crash leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from patience import wait_until
from typer.testing import CliRunner

from app.catalog import SqlCatalog, connect, upgrade
from app.cli import app
from app.edge import EdgeProcess
from app.errors import NotFoundError, VectorIndexUnavailableError
from app.maintenance.optimize import optimize_index
from app.types.documents import Collection, IndexStatus, Point
from app.vectors import QdrantVectorIndex

DIMENSION = 16
MOVING = 10  # points near the query, which a version of the collection puts in an order of its own
COUNT = 1500  # of which a third is deleted: enough for the engine to clean up
KEPT = COUNT - COUNT // 3 + MOVING
MERGING = "merging and indexing"


def point_id(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@dataclass(frozen=True)
class Sample:
    """A collection whose points can be told in advance: `count` of them, every third to be deleted."""

    count: int
    dimension: int = DIMENSION

    @property
    def query(self) -> list[float]:
        return [1.0] + [0.0] * (self.dimension - 1)

    def points(self) -> list[Point]:
        rows = np.random.default_rng(0).standard_normal((self.count, self.dimension))
        rows[:, 0] = -np.abs(rows[:, 0])  # turned away from the query
        return [self._point(number, row, version=0) for number, row in enumerate(unit(rows).tolist())]

    def doomed(self) -> list[str]:
        return [point_id(number) for number in range(0, self.count, 3)]

    def moving(self, version: int) -> list[Point]:
        """The points nearest to the query, in another order in every version."""
        rows = np.eye(self.dimension)[[1] * MOVING] * [[0.1 * (1 + (n + version) % MOVING)] for n in range(MOVING)]
        rows[:, 0] = 1.0
        return [self._point(self.count + n, row, version=version) for n, row in enumerate(unit(rows).tolist())]

    def nearest(self, version: int) -> list[tuple[str, int]]:
        """By brute force: what a search must find in this version."""
        points = self.moving(version)
        scores = np.asarray([point.vector for point in points]) @ np.asarray(self.query)
        return [(points[n].id, version) for n in np.argsort(-scores, kind="stable")]

    def _point(self, number: int, vector: list[float], *, version: int) -> Point:
        metadata = {"document_id": f"d{number // 10}", "version": version}
        return Point(point_id(number), vector, {"page_content": f"text {number}", "metadata": metadata})


class Searches:
    """One search every 50 ms until the block ends, which fails if one of them did."""

    def __init__(self, index: QdrantVectorIndex, query: list[float]) -> None:
        self.found: list[list[tuple[str, int]]] = []
        self._index, self._query = index, query
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Searches:
        self._searching = self._pool.submit(self._search_on)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        self._searching.result()

    def _search_on(self) -> None:
        while not self._stop.wait(0.05):
            hits = self._index.search("docs", self._query, limit=MOVING)
            self.found.append([(hit.id, hit.payload["metadata"]["version"]) for hit in hits])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("edge")


@pytest.fixture(scope="module")
def open_index(data_dir: Path) -> Iterator[Callable[[], QdrantVectorIndex]]:
    """A new client of one engine; the first one starts it, and every other one does when it is gone."""
    with ExitStack() as opened:

        def open_() -> QdrantVectorIndex:
            index = QdrantVectorIndex.over_edge(opened.enter_context(EdgeProcess(data_dir)))
            opened.callback(index.close)
            return index

        yield open_


@pytest.fixture
def index(open_index: Callable[[], QdrantVectorIndex]) -> Iterator[QdrantVectorIndex]:
    index = open_index()
    yield index
    index.drop("docs")


def fill(index: QdrantVectorIndex, sample: Sample, *, name: str = "docs") -> None:
    index.create(name, dimension=sample.dimension)
    index.upsert(name, [*sample.points(), *sample.moving(0)])
    index.delete_points(name, sample.doomed())  # over a fifth: so there is something to clean


def contents(index: QdrantVectorIndex, name: str = "docs") -> dict[str, tuple[list[float], object]]:
    found = index.retrieve(name, list(index.point_ids(name)))
    return {point.id: (list(point.vector), point.payload) for point in found}


def shard_folder(data_dir: Path, name: str = "docs") -> Path:
    table = json.loads((data_dir / "collections.json").read_text())
    return data_dir / "shards" / table["collections"][name]["folder"]


def has_remains(data_dir: Path) -> bool:
    table = json.loads((data_dir / "collections.json").read_text())
    known = {entry["folder"] for entry in table["collections"].values()}
    return known != {folder.name for folder in (data_dir / "shards").iterdir()}


def is_merging(index: QdrantVectorIndex) -> bool:
    return index.condition("docs").activity == MERGING


def check_search_and_write(index: QdrantVectorIndex, other: QdrantVectorIndex, sample: Sample) -> Searches:
    """Searches and versions follow one another through an optimisation; afterwards everything is as it was written."""
    fill(index, sample)
    stop = threading.Event()

    def write_on() -> int:
        version = 0
        while not stop.wait(0.02):
            version += 1
            other.upsert("docs", sample.moving(version))
        return version

    with Searches(index, sample.query) as searches, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_on)
        try:
            optimize_index(index, "docs", poll_interval_s=0.02)
        finally:
            stop.set()
        last_version = writing.result()
        time.sleep(0.2)
    versions = [found[0][1] for found in searches.found]
    assert searches.found == [sample.nearest(version) for version in versions]
    assert versions == sorted(versions), "a search saw what had been replaced before"
    assert 0 < versions[-1] == last_version
    kept = {point.id for point in sample.points()} - set(sample.doomed())
    assert set(index.point_ids("docs")) == kept | {point.id for point in sample.moving(0)}
    return searches


def test_searches_and_writes_go_on_and_never_mix(
    index: QdrantVectorIndex, open_index: Callable[[], QdrantVectorIndex], data_dir: Path
) -> None:
    index.create("docs", dimension=DIMENSION)
    former = shard_folder(data_dir)
    check_search_and_write(index, open_index(), Sample(COUNT))
    assert shard_folder(data_dir) != former, "nothing was optimised"
    wait_until(lambda: not has_remains(data_dir))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_searches_go_on_while_70000_points_are_optimised(
    index: QdrantVectorIndex, open_index: Callable[[], QdrantVectorIndex]
) -> None:
    searches = check_search_and_write(index, open_index(), Sample(105_000, dimension=384))
    assert index.condition("docs").indexed_vectors >= 2 * 70_000, "by words, and in a graph"
    assert len(searches.found) > 100


def test_every_kind_of_write_is_brought_over_to_the_last_bit(index: QdrantVectorIndex) -> None:
    sample = Sample(COUNT)
    fill(index, sample)
    fill(index, sample, name="twin")  # never optimised: what the other one must be in the end
    index.optimize("docs")
    wait_until(lambda: is_merging(index))
    for name in ("docs", "twin"):
        index.upsert(name, [*sample.moving(7), *Sample(COUNT + 300).points()[COUNT:]])
        index.delete_points(name, [point_id(1), point_id(COUNT + 200)])
        index.delete_document(name, "d20")
        index.set_payloads(name, {point_id(2): {"page_content": "new", "metadata": {"document_id": "d0"}}})
        index.client.create_payload_index(name, "metadata.version", "integer")
        assert name != "docs" or index.condition("docs").activity == MERGING
    optimize_index(index, "docs", poll_interval_s=0.02)
    assert contents(index) == contents(index, "twin")
    assert index.count("docs", document_id="d20") == 0
    schemas = [index.client.get_collection(name).payload_schema.keys() for name in ("docs", "twin")]
    assert schemas[0] == schemas[1] == {"metadata.document_id", "metadata.version"}


def test_a_failure_is_told_and_leaves_the_collection_as_it_was(index: QdrantVectorIndex, data_dir: Path) -> None:
    fill(index, Sample(COUNT))
    before = contents(index)
    config = shard_folder(data_dir) / "edge_config.json"
    sound = config.read_text()
    config.write_text("{")  # the open shard does not look at it again, but the copy does
    with pytest.raises(VectorIndexUnavailableError, match=r"could not optimize 'docs'.*edge\.log.*is unchanged"):
        optimize_index(index, "docs", poll_interval_s=0.02)
    assert contents(index) == before
    assert not has_remains(data_dir)
    config.write_text(sound)
    assert optimize_index(index, "docs", poll_interval_s=0.02).after.fault is None
    assert contents(index) == before


def test_a_collection_may_be_deleted_while_it_is_optimised(index: QdrantVectorIndex, data_dir: Path) -> None:
    fill(index, Sample(COUNT))
    index.optimize("docs")
    wait_until(lambda: is_merging(index))
    index.drop("docs")
    assert not index.exists("docs")
    wait_until(lambda: not has_remains(data_dir))
    with pytest.raises(NotFoundError):
        index.condition("docs")
    fill(index, Sample(COUNT))
    assert index.condition("docs").activity is None


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_a_kill_in_the_middle_loses_nothing_and_the_engine_is_asked_again(
    index: QdrantVectorIndex, data_dir: Path
) -> None:
    sample = Sample(COUNT)
    fill(index, sample)
    expected = contents(index)
    killed: list[int] = []
    waited: list[bool] = []

    def kill_once(condition: IndexStatus) -> None:
        waited.append(condition.awaits_optimizing)
        if condition.activity == MERGING and not killed:
            index.set_payloads("docs", {point_id(1): {"page_content": "written last", "metadata": {}}})
            killed.append(json.loads((data_dir / "edge.json").read_text())["pid"])
            os.kill(killed[0], signal.SIGKILL)
            expected[point_id(1)] = (expected[point_id(1)][0], {"page_content": "written last", "metadata": {}})
            assert contents(index) == expected  # another server is started
            wait_until(lambda: not has_optimizing_process(data_dir))

    assert optimize_index(index, "docs", on_progress=kill_once, poll_interval_s=0.01).after.points == KEPT
    assert killed
    assert any(waited)
    assert contents(index) == expected
    wait_until(lambda: not has_remains(data_dir))


def has_optimizing_process(data_dir: Path) -> bool:
    """One that works on a copy must not outlive its server. Told where the system shows its processes."""
    lines = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
    return any(b"optimize_shard" in line and str(data_dir).encode() in line for line in lines)


def test_the_command_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path))
    engine = connect(f"sqlite:///{tmp_path / 'catalog.db'}")
    upgrade(engine)
    SqlCatalog(engine).create_collection(Collection("reading", "toy", DIMENSION, "", 1, 200, 30, "reading--1"))
    engine.dispose()
    with EdgeProcess(tmp_path / "edge") as edge:
        index = QdrantVectorIndex.over_edge(edge)
        fill(index, Sample(COUNT), name="reading--1")
        said = [CliRunner().invoke(app, ["optimize", "reading"]).output for _ in range(2)]
        index.close()
    for each in said:
        assert re.search(r"Optimized 'reading' in \d+ s: 1,010 points in 1 segment, 1,010 vectors indexed", each)
