"""Nodes of Qdrant are killed, stopped, and cut off under searches and ingestion: nothing is lost, and no search waits
longer than it may. On one node, and on a cluster where there is one: tests/qdrant_servers.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import pytest
from chaos_proxy import FailingProxy
from patience import wait_until
from qdrant_servers import (
    OwnCollections,
    QdrantServer,
    is_answering,
    lone_qdrant,
    open_index,
    qdrant_cluster,
)

from app.errors import VectorIndexUnavailableError
from app.types.documents import Point
from app.vectors import QdrantVectorIndex, Sharding

__all__ = ["lone_qdrant", "qdrant_cluster"]  # fixtures

pytestmark = [pytest.mark.timeout(900), pytest.mark.server, pytest.mark.xdist_group("qdrant-nodes")]

LATEST_S = 5.0  # in which a search has its answer, or fails
SPARE_S = 1.0  # of a machine that is busy with other tests
AWAY_S = 8.0
NORTH = [1.0, 0.0, 0.0]
_BATCH = 20
_PAUSE_S = 0.02


@dataclass(frozen=True)
class Search:
    began: float  # time.monotonic()
    seconds: float
    error: str | None


@dataclass
class Traffic:
    """Searches one after the other, and points that are written until they are there, as jobs are tried again."""

    index: QdrantVectorIndex
    name: str
    searches: list[Search] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    _running: list[Future[None]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._running = [self._threads.submit(self._repeat, each) for each in (self._search, self._write)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads.shutdown()
        for each in self._running:
            each.result()

    def wait_for_more(self) -> None:
        """Until both go on well, or one has met a fault that it does not know."""
        searched, written = self._well(), len(self.written)
        wait_until(
            lambda: (
                any(each.done() for each in self._running)
                or (self._well() > searched + 20 and len(self.written) > written + _BATCH)
            )
        )

    def _well(self) -> int:
        return sum(each.error is None for each in list(self.searches))

    def _repeat(self, action: Callable[[], None]) -> None:
        while not self._stop.wait(_PAUSE_S):
            action()

    def _search(self) -> None:
        began, error = time.monotonic(), None
        try:
            self.index.search(self.name, NORTH, limit=5)
        except VectorIndexUnavailableError as refusal:
            error = str(refusal)
        self.searches.append(Search(began, time.monotonic() - began, error))

    def _write(self) -> None:
        first = len(self.written) + 1
        points = [
            Point(f"00000000-0000-0000-0000-{number:012d}", [1.0, number, 0.0], {"page_content": f"text {number}"})
            for number in range(first, first + _BATCH)
        ]
        while True:
            try:
                self.index.upsert(self.name, points)
                break
            except VectorIndexUnavailableError:
                if self._stop.wait(10 * _PAUSE_S):
                    return
        self.written |= {point.id for point in points}


@dataclass(frozen=True)
class Nodes:
    """A server as the product reaches it: every node behind a proxy, which can be cut."""

    server: QdrantServer
    proxies: list[FailingProxy]
    index: QdrantVectorIndex
    name: str

    @property
    def is_cluster(self) -> bool:
        return len(self.server.urls) > 1

    @contextmanager
    def killed(self, number: int) -> Iterator[None]:
        self._own_node(number).kill()
        yield
        self._own_node(number).start()

    def stopped(self, number: int) -> AbstractContextManager[None]:
        return self._own_node(number).stopped()

    @contextmanager
    def cut_off(self, number: int) -> Iterator[None]:
        self.proxies[number].is_cut = True
        yield
        self.proxies[number].is_cut = False

    def wait_until_whole(self) -> None:
        """Every node answers, and every replica is active again."""
        wait_until(lambda: all(is_answering(url, self.server.api_key) for url in self.server.urls))
        if self.is_cluster:
            wait_until(lambda: set(self._replica_states()) == {"Active"}, timeout_s=300)

    def _replica_states(self) -> list[str]:
        asked = self.index.client.http.distributed_api.collection_cluster_info(self.name).result
        assert asked is not None
        return [str(each.state.value) for each in (*asked.local_shards, *asked.remote_shards)]

    def _own_node(self, number: int):  # type: ignore[no-untyped-def]
        if not self.server.nodes:
            pytest.skip("the tests kill and stop only what they have started themselves")
        return self.server.nodes[number]


@pytest.fixture(params=[pytest.param("lone_qdrant", id="one"), pytest.param("qdrant_cluster", id="cluster")])
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    server: QdrantServer = request.getfixturevalue(request.param)
    collections = OwnCollections()
    with ExitStack() as opened:
        proxies = []
        for url in server.urls:
            there = urlsplit(url)
            proxy = FailingProxy(seed=0, target_host=there.hostname or "", target_port=there.port or 80)
            proxies.append(opened.enter_context(proxy))
        addresses = ",".join(f"http://127.0.0.1:{proxy.port}" for proxy in proxies)
        sharding = Sharding(shards=3, replicas=2) if len(proxies) > 1 else Sharding()
        index = open_index(addresses, server.api_key, sharding=sharding)
        opened.callback(index.close)
        name = collections.new_name("nodes")
        index.create(name, dimension=3)
        opened.callback(collections.drop_from, index)
        yield Nodes(server, proxies, index, name)


@pytest.mark.parametrize("way", ["killed", "stopped", "cut_off"])
def test_a_node_goes_and_comes_back(nodes: Nodes, way: str) -> None:
    away: list[tuple[float, float]] = []
    with Traffic(nodes.index, nodes.name) as traffic:
        for number in range(len(nodes.proxies)):
            traffic.wait_for_more()
            with getattr(nodes, way)(number):
                began = time.monotonic()
                if nodes.is_cluster:
                    traffic.wait_for_more()  # by the others
                wait_until(lambda began=began: time.monotonic() > began + AWAY_S)  # type: ignore[misc]
                away.append((began, time.monotonic()))
            nodes.wait_until_whole()
            traffic.wait_for_more()
    assert set(nodes.index.point_ids(nodes.name)) >= traffic.written
    assert nodes.index.count(nodes.name) - len(traffic.written) in (
        0,
        _BATCH,
    )  # the batch that was under way at the end
    latest = max(traffic.searches, key=lambda search: search.seconds)
    assert latest.seconds <= LATEST_S + SPARE_S, latest
    failed = [each for each in traffic.searches if each.error is not None]
    if nodes.is_cluster:
        late = [each for each in failed for began, ended in away if began + LATEST_S < each.began < ended]
        assert late == []
    else:
        assert failed
    assert all("GIRCSE_QDRANT_URL" in (each.error or "") for each in failed)
