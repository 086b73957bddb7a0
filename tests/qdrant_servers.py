"""The Qdrant server of the tests: one that is named, one that they start, or the embedded engine in its place.

GIRCSE_TEST_QDRANT_URL names one or, by commas, the nodes of a cluster (with the key GIRCSE_TEST_QDRANT_API_KEY);
GIRCSE_TEST_QDRANT is the path of Qdrant's program, of which the tests start one process, or three as a cluster. Without
either the embedded engine, as a process of its own that is asked over HTTP as any server is, stands in.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from patience import wait_until
from postgres_server import free_port
from qdrant_names import PREFIX, own_names

if TYPE_CHECKING:
    from app.vectors import QdrantVectorIndex

URL, API_KEY, PROGRAM = "GIRCSE_TEST_QDRANT_URL", "GIRCSE_TEST_QDRANT_API_KEY", "GIRCSE_TEST_QDRANT"
CLUSTER_NODES = 3
_PROBE_S = 2

# In every run where the test is quick, else under `make server-test` alone.
QUICK_SERVER = pytest.param("server", marks=pytest.mark.server(is_quick=True))
SERVER = pytest.param("server", marks=pytest.mark.server)


def told() -> str:
    """What the tests of a server run on."""
    if named := os.environ.get(URL):
        return f"{URL}={named}"
    if program := os.environ.get(PROGRAM):
        return f"{PROGRAM}={program}, started by the tests"
    return (
        f"NO QDRANT SERVER: the embedded engine of gircse, as a second process that was asked over HTTP, stood in. "
        f"Set {URL} or {PROGRAM} to run them on Qdrant."
    )


class Node:
    """A Qdrant process that the tests have started: it can be killed, stopped, and started again on its data."""

    def __init__(self, command: Sequence[str], folder: Path, *, api_key: str, settings: Mapping[str, str]) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._command, self._folder, self._api_key = command, folder, api_key
        self._settings = {
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(port),
            "QDRANT__SERVICE__GRPC_PORT": str(free_port()),
            "QDRANT__SERVICE__API_KEY": api_key,
            "QDRANT__STORAGE__STORAGE_PATH": str(folder / "storage"),
            "QDRANT__STORAGE__SNAPSHOTS_PATH": str(folder / "snapshots"),
            "QDRANT__TELEMETRY_DISABLED": "true",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """0 while it is not running."""
        return 0 if self._process is None else self._process.pid

    def launch(self) -> None:
        """Does not wait until it answers. No error where it runs already."""
        if self._process is None:
            with open(self._folder / "log", "ab") as log:
                self._process = subprocess.Popen(
                    self._command, cwd=self._folder, env={**os.environ, **self._settings}, stdin=subprocess.PIPE,
                    stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip

    def start(self) -> None:
        """Returns when it answers. No error where it runs already."""
        self.launch()
        assert self._process is not None
        log = self._folder / "log"

        def answers() -> bool:
            ended = self._process is not None and self._process.poll() is not None
            assert not ended, f"The node ended: {log.read_text('utf-8', 'replace')[-1000:]}"
            return is_answering(self.url, self._api_key)

        wait_until(answers, told=lambda: f"the node answers; it said {log.read_text('utf-8', 'replace')[-1000:]}")

    def kill(self) -> None:
        """By SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """By SIGSTOP: connections are taken and nothing is answered, until the block ends."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)


@dataclass(frozen=True)
class QdrantServer:
    """`nodes` are processes that the tests have started, in the order of `urls`; none where servers were named."""

    urls: tuple[str, ...]
    api_key: str | None
    nodes: tuple[Node, ...] = ()
    is_stand_in: bool = False

    @property
    def url(self) -> str:
        return self.urls[0]

    def with_own_names(self) -> AbstractContextManager[str]:
        """An address at which it looks empty at first, see qdrant_names.py."""
        return own_names(self.url, api_key=self.api_key)


def is_answering(url: str, api_key: str | None) -> bool:
    request = urllib.request.Request(f"{url}/collections", headers={"api-key": api_key} if api_key else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_PROBE_S) as answer:
            return answer.status == 200
    except OSError:
        return False


@contextmanager
def opened_server(folder: Path) -> Iterator[QdrantServer]:
    """In `folder`, which is new or empty, whatever the tests start themselves. Of a cluster that is named its first
    node is the one that is asked."""
    if named := _named_server():
        yield named
        return
    key = secrets.token_urlsafe(16)
    with Node(_command(), folder / "node", api_key=key, settings={}) as node:
        yield QdrantServer((node.url,), key, (node,), is_stand_in=PROGRAM not in os.environ)


@contextmanager
def opened_cluster(folder: Path) -> Iterator[QdrantServer]:
    """Skips where none is named and there is no program to start one."""
    named = _named_server()
    if named is not None and len(named.urls) > 1:
        yield named
        return
    if PROGRAM not in os.environ:
        pytest.skip(f"no cluster: set {PROGRAM} to Qdrant's program, or name its nodes in {URL}, with commas between")
    key, first = secrets.token_urlsafe(16), ""
    with ExitStack() as opened:
        nodes = []
        for number in range(CLUSTER_NODES):
            port = free_port()
            own = f"http://127.0.0.1:{port}"
            command = [*_command(), "--uri", own, *(["--bootstrap", first] if first else [])]
            settings = {"QDRANT__CLUSTER__ENABLED": "true", "QDRANT__CLUSTER__P2P__PORT": str(port)}
            nodes.append(opened.enter_context(Node(command, folder / f"node-{number}", api_key=key, settings=settings)))
            first = first or own
        yield QdrantServer(tuple(node.url for node in nodes), key, tuple(nodes))


def _named_server() -> QdrantServer | None:
    urls = tuple(each.strip().rstrip("/") for each in os.environ.get(URL, "").split(",") if each.strip())
    return QdrantServer(urls, os.environ.get(API_KEY)) if urls else None


def _command() -> list[str]:
    program = os.environ.get(PROGRAM)
    # -P: a folder named `app` where the person stands must not be taken for ours.
    return (
        [str(Path(program).resolve())]
        if program
        else [sys.executable, "-P", str(Path(__file__).parent / "edge_node.py")]
    )


def open_index(url: str, api_key: str | None, *, kind: type[Any] | None = None, **options: Any) -> QdrantVectorIndex:
    """As the product opens the index of a server. `kind`: a class derived from `QdrantVectorIndex`."""
    from app.vectors import QdrantVectorIndex  # a second to import, for the tests that have a server alone

    found: QdrantVectorIndex = (kind or QdrantVectorIndex).at(url, api_key=api_key, **options)
    return found


class OwnCollections:
    """Names for a test's collections on a server that others use, too, and their end."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def new_name(self, stem: str = "docs") -> str:
        self._names.append(f"{PREFIX}{stem}--{uuid.uuid4().hex[:12]}")
        return self._names[-1]

    def drop_from(self, index: QdrantVectorIndex) -> None:
        made, self._names = set(self._names), []
        for name in made & set(index.indexes()):
            index.drop(name)


# Fixtures


@pytest.fixture(scope="session")
def qdrant_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantServer]:
    with opened_server(tmp_path_factory.mktemp("qdrant")) as server:
        yield server


@pytest.fixture(params=["double", SERVER])
def new_index(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """For the applications of a module that imports it: new, empty indexes, in memory or on a server. `mixed_in` is a
    class whose methods come before theirs."""
    if request.param == "double":
        yield new_double
        return
    server: QdrantServer = request.getfixturevalue("qdrant_server")
    from app.vectors import QdrantVectorIndex

    with ExitStack() as opened:

        def build(mixed_in: type[Any] | None = None) -> QdrantVectorIndex:
            url = opened.enter_context(server.with_own_names())
            kind = QdrantVectorIndex if mixed_in is None else type("Mixed", (mixed_in, QdrantVectorIndex), {})
            index = open_index(url, server.api_key, kind=kind)
            opened.callback(index.close)
            return index

        yield build


@pytest.fixture
def qdrant_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantServer]:
    """Of a test's own where the tests start it: its nodes may be killed."""
    with opened_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def lone_qdrant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantServer]:
    """A server of one address, of a test's own where the tests start it."""
    with opened_server(tmp_path_factory.mktemp("lone")) as server:
        yield replace(server, urls=server.urls[:1])


@dataclass(frozen=True)
class Address:
    """`api_key` is "" where none is asked for."""

    url: str
    api_key: str

    def open_index(self) -> QdrantVectorIndex:
        return open_index(self.url, self.api_key or None)


@pytest.fixture(params=["edge", SERVER])
def engine_address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """Of an engine without collections, for processes that are not the test's own: the embedded one, or a server."""
    if request.param == "edge":
        from app.edge import EdgeProcess

        with EdgeProcess(tmp_path / "edge") as edge:
            connection = edge.start()
            yield Address(connection.url, connection.token)
        return
    server: QdrantServer = request.getfixturevalue("qdrant_server")
    with server.with_own_names() as url:
        yield Address(url, server.api_key or "")


def new_double(mixed_in: type[Any] | None = None) -> Any:
    from app.testing import InMemoryVectorIndex

    return InMemoryVectorIndex() if mixed_in is None else type("Mixed", (mixed_in, InMemoryVectorIndex), {})()
