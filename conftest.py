"""A small application of real parts for tests: SQLite in a temporary folder, an index in memory, a toy embedder."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import hypothesis
import pytest
from denied_network import asked, deny_network
from fresh_catalog import connect_migrated
from qdrant_servers import new_double, qdrant_server, told

from app.answers.service import AnswerService
from app.catalog import SqlCatalog
from app.collections.lens_indexes import QueuedLensIndexes
from app.collections.lens_indexing import LensIndexer
from app.collections.standing import StandingCompletion
from app.collections.value_tables import CsvValueTables
from app.documents.blobs import FolderBlobStore
from app.documents.library import Library
from app.evaluation.background import evaluations_over
from app.maintenance.integrity import Integrity
from app.ports.parts import VectorIndex
from app.runtime.memory import limit_memory
from app.runtime.metrics import ProcessMetrics
from app.search.service import SearchService
from app.search.value_proposals import ValueProposer
from app.services import Services
from app.settings import Settings
from app.testing import InMemoryVectorIndex, ToyEmbedder, text_source
from app.types.documents import Document, DocumentState, Metadata
from ingest.pipeline import IngestPipeline
from ingest.readers import detect
from ingest.readers.document import read_file
from ingest.splitters import splitter_of
from ingest.worker import Worker

pytest_plugins = ["worker_memory"]

__all__ = ["qdrant_server"]  # a fixture

deny_network()
limit_memory()


@pytest.fixture(autouse=True)
def no_other_machine_is_asked() -> Iterator[None]:
    asked.clear()
    yield
    assert asked == []


class ToyServices:
    """`services` as the wiring gives them; `work_off` does every job that is due, as a worker would."""

    def __init__(
        self, home: Path, opened: ExitStack, *, embedder: ToyEmbedder, index: VectorIndex | None = None
    ) -> None:
        engine = connect_migrated(home / "catalog_test.db")
        opened.callback(engine.dispose)
        index = index or InMemoryVectorIndex()
        catalog, blobs = SqlCatalog(engine), FolderBlobStore(home / "files")
        self.embedder = embedder
        self.index = index
        self._numbers = itertools.count()
        evaluations = evaluations_over(catalog=catalog, index=index, embedder=embedder)
        opened.callback(evaluations.close)
        metrics = ProcessMetrics()
        integrity = Integrity(catalog, index, blobs, embedder=embedder)
        search = SearchService(catalog, index, embedder, soundness=integrity, observer=metrics)
        self.services = Services(
            settings=Settings(home=home),
            catalog=catalog,
            index=index,
            blobs=blobs,
            embedder=embedder,
            token_counter=embedder,
            search=search,
            answers=AnswerService(search, embedder),
            proposals=ValueProposer(catalog, index, embedder),
            library=Library(catalog=catalog, index=index, blobs=blobs, embedder=embedder, detect_format=detect),
            lens_indexes=QueuedLensIndexes(catalog),
            value_tables=CsvValueTables(catalog, index),
            evaluations=evaluations,
            integrity=integrity,
            checks={"catalog": catalog.is_alive, "index": index.is_alive},
            metrics=metrics,
        )
        self.pipeline = IngestPipeline(
            catalog=catalog,
            blobs=blobs,
            index=index,
            lens_indexing=LensIndexer(catalog=catalog, index=index, embedder=embedder),
            embedder=embedder,
            read=read_file,
            splitter_for=lambda each: splitter_of(each, embedder),
            complete=StandingCompletion(catalog, index, embedder),
        )
        self._worker = Worker(catalog=catalog, pipeline=self.pipeline, owner="test")

    def work_off(self) -> None:
        while self._worker.run_once():
            pass

    def add(self, text: str, *, collection: str = "library", metadata: Metadata | None = None) -> Document:
        """A document of this text, searchable."""
        self.services.library.ensure_collection(collection)
        source = text_source(f"text://{next(self._numbers)}", text, metadata=metadata)
        document, _ = self.services.library.add_document(collection, source)
        while document.state is DocumentState.QUEUED and self._worker.run_once():
            document = self.services.catalog.document(document.id)
        return document


# Thousands of modules are imported by then: looking through all of them again and again for garbage takes a third of
# the time that collecting the tests does.
gc.set_threshold(100_000, 20, 50)


# Number of examples for each property test that does not set one itself.
EXAMPLES, EXAMPLES_LONG = 12, 200

ONLY_LONG = ("test_ray_cluster.py", "test_ray_serve.py", "test_api_fuzz.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="Run the tests marked `long`, too.")
    parser.addoption("--server", action="store_true", help="Run all tests marked `server`; without it the quick ones.")
    parser.addoption("--screenshots", action="store_true", help="Write the pictures of docs/images.")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile(
        "gircse", max_examples=EXAMPLES_LONG if config.getoption("--long") else EXAMPLES
    )
    hypothesis.settings.load_profile("gircse")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Every test in it takes long, and its libraries a second to import in each process."""
    return True if collection_path.name in ONLY_LONG and not config.getoption("--long") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects long tests. It does not skip them, because reporting a thousand skipped tests takes seconds."""
    left_out, kept = [], []
    for item in items:
        takes_long = item.get_closest_marker("long") is not None and not config.getoption("--long")
        is_slow_server = any(not each.kwargs.get("is_quick") for each in item.iter_markers("server"))
        needs_server = is_slow_server and not config.getoption("--server")
        (left_out if takes_long or needs_server else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--server"):
        terminalreporter.section("the server of these tests")
        terminalreporter.line(told())


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def toy_services_class() -> type[ToyServices]:
    """For fixtures that outlive a test."""
    return ToyServices


@pytest.fixture(scope="module")
def lasting_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyServices]:
    """For the tests of a module that change nothing."""
    with ExitStack() as opened:
        yield ToyServices(tmp_path_factory.mktemp("lasting"), opened, embedder=ToyEmbedder())


@pytest.fixture
def new_index() -> Callable[..., VectorIndex]:
    """Modules whose tests run against a server, too, import another one: tests/qdrant_servers.py."""
    return new_double


@pytest.fixture
def toy_services_factory(tmp_path: Path, new_index: Callable[..., VectorIndex]) -> Iterator[Callable[..., ToyServices]]:
    with ExitStack() as opened:

        def build(
            name: str = "", *, embedder: ToyEmbedder | None = None, index: VectorIndex | None = None
        ) -> ToyServices:
            return ToyServices(tmp_path / name, opened, embedder=embedder or ToyEmbedder(), index=index or new_index())

        yield build


@pytest.fixture
def toy_services(toy_services_factory: Callable[..., ToyServices]) -> ToyServices:
    return toy_services_factory()
