"""Bulk ingestion on a Ray cluster of two nodes on this machine: undisturbed, with a node killed, with a killed driver.

Each run must leave what one worker leaves. A minute each and more, so with --long alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from patience import wait_until

pytest.importorskip("ray")

from chaos_corpus import real_files
from chaos_processes import processes_of
from chaos_run import wait_until_idle
from chaos_state import State, differences, read_state
from ray.cluster_utils import Cluster

from app.services import Services
from app.settings import Settings
from app.testing import text_source
from app.types.documents import JobState
from app.wiring.bulk import open_engine
from app.wiring.catalog import open_catalog
from app.wiring.ingestion import run_worker
from app.wiring.services import open_services
from ingest.readers import type_of_suffix

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

GIRCSE = [sys.executable, "-P", "-c", "from app.cli import main; main()"]
COLLECTION = "bulk"
FILES = 120
STORE_BYTES = 120_000_000
LEASE_S = 5
VECTOR_TOLERANCE = 1e-5
PATIENCE_S = 400


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for file in real_files(FILES):
        (folder / file.name).write_bytes(file.data)
    (folder / "damaged.pdf").write_bytes(b"%PDF-1.4 nothing more")
    (folder / "long.txt").write_text("\n\n".join(file.data.decode() for file in real_files(FILES)[:40]))
    return folder


@pytest.fixture(scope="module")
def expected(corpus: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> State:
    """What a worker leaves."""
    with open_services(Settings(home=tmp_path_factory.mktemp("worker"), model=str(model))) as services:
        submit(services, corpus)
        with working(lambda stop: run_worker(services, stop)):
            wait_until_idle(services, timeout_s=PATIENCE_S)
        return read_state(services, COLLECTION)


@pytest.fixture
def two_nodes() -> Iterator[Cluster]:
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False},
    )
    cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def create_collection(services: Services) -> None:
    services.library.create_collection(COLLECTION, document_steps=2, chunk_tokens=100, chunk_overlap=15)


def submit(services: Services, corpus: Path) -> None:
    create_collection(services)
    for file in sorted(corpus.iterdir()):
        services.library.add_document(
            COLLECTION, text_source(file.as_uri(), file.read_bytes(), media_type=type_of_suffix(file.name))
        )


@contextmanager
def working(work: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def ready(services: Services) -> int:
    return services.catalog.job_counts()[JobState.DONE]


def assert_same(expected: State, found: State) -> None:
    told = differences(expected, found)
    assert [line for line in told if line not in expected.faults] == []
    for uri, document in expected.documents.items():
        for one, other in zip(document.points, found.documents[uri].points, strict=True):
            assert np.abs(one.vector - other.vector).max() < VECTOR_TOLERANCE, uri


def test_two_nodes_leave_what_a_worker_leaves(
    corpus: Path, model: Path, expected: State, two_nodes: Cluster, home: Path
) -> None:
    settings = Settings(home=home, model=str(model), ray_address=two_nodes.address, shard_documents=70)
    with open_services(settings) as services:
        submit(services, corpus)
        with open_engine(services) as engine, working(lambda stop: engine.run(COLLECTION, stop)):
            wait_until_idle(services, timeout_s=PATIENCE_S)
        assert_same(expected, read_state(services, COLLECTION))


def test_a_node_killed_in_the_middle_costs_nothing_but_time(
    corpus: Path, model: Path, expected: State, two_nodes: Cluster, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(home=home, model=str(model), ray_address=two_nodes.address, lease_s=LEASE_S)
    with open_services(settings) as services:
        submit(services, corpus)
        with open_engine(services) as engine, ExitStack() as opened:
            engine.wait_until_loaded(2)
            opened.enter_context(working(lambda stop: engine.run(COLLECTION, stop)))
            wait_until(lambda: ready(services) > 0)
            two_nodes.remove_node(next(iter(two_nodes.worker_nodes)), allow_graceful=False)
            assert ready(services) < FILES  # there was something left to lose
            wait_until_idle(services, timeout_s=PATIENCE_S)
        assert "A run broke" in caplog.text
        assert_same(expected, read_state(services, COLLECTION))


def test_a_killed_driver_is_followed_by_another_one(
    corpus: Path, model: Path, expected: State, two_nodes: Cluster, home: Path
) -> None:
    settings = Settings(home=home, model=str(model))
    with open_services(settings) as services:
        create_collection(services)
    command = [*GIRCSE, "ingest", str(corpus), "-c", COLLECTION, "--engine", "ray"]
    environment = {
        **os.environ,
        "GIRCSE_HOME": str(home),
        "GIRCSE_MODEL": str(model),
        "GIRCSE_RAY_ADDRESS": two_nodes.address,
        "GIRCSE_LEASE_S": str(LEASE_S),
    }
    with open_catalog(settings) as catalog:
        with subprocess.Popen(command, env=environment) as first:
            wait_until(lambda: catalog.job_counts()[JobState.DONE] >= 10)
            first.kill()
        held = catalog.job_counts()[JobState.RUNNING]
        assert held  # nobody gave them back
        second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        assert second.returncode == 1, second.stderr  # for the damaged file
        assert "1 failed" in second.stdout
    with open_services(settings) as services:
        assert_same(expected, read_state(services, COLLECTION))
    wait_until(lambda: processes_of(home) == [])
