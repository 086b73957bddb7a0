"""Distributes the documents of a shard over the nodes of a Ray cluster: large ones alone, small ones in blocks."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection as Container
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import uuid4

import ray
from ray.exceptions import RayError, RayTaskError

from app.types.documents import Collection
from ingest.ray_engine.parts import NodeParts
from ingest.ray_engine.pool import NodePool, PooledNode, cause_of
from ingest.ray_engine.results import Result, Work
from ingest.worker import DEFAULT_BLOCK, SMALL_BYTES

_LOOK_S = 0.2
_REFRESH_S = 5.0
_FEWEST_PER_BLOCK = 16
_NO_RUN = ""
_UnderWay = dict[ray.ObjectRefGenerator, PooledNode]


class RayCluster:
    """Runs documents on the nodes of a Ray cluster. Implements the port `Cluster` on the Ray cluster that this process
    is connected to."""

    def __init__(self, parts: NodeParts, *, use_gpus: bool) -> None:
        """Starts to load the models."""
        self._pool = NodePool(parts, use_gpus=use_gpus)
        self._pool.refresh()

    def wait_until_loaded(self, count: int = 1) -> None:
        """Waits until at least `count` models are loaded."""
        while len(self._pool.loaded(timeout_s=_LOOK_S)) < count:
            time.sleep(_LOOK_S)

    @contextmanager
    def open_run(self, collection: Collection, works: Sequence[Work]) -> Iterator[_RayRun]:
        self._pool.refresh()
        try:
            yield _RayRun(self._pool, collection, works)
        finally:
            self._pool.renew(_NO_RUN, (), 0)


class _RayRun:
    """Call `renew` before `results`. Another thread may call `renew`."""

    def __init__(self, pool: NodePool, collection: Collection, works: Sequence[Work]) -> None:
        self._id = uuid4().hex
        self._pool = pool
        self._collection = collection
        self._works = works
        self._lost: Container[str] = ()
        self._until = 0.0
        self._informed: set[PooledNode] = set()

    def results(self) -> Iterator[Sequence[Result]]:
        waiting = deque(blocks_of(self._works, slots=self._pool.slot_count))
        under_way: _UnderWay = {}
        refresh_at = time.monotonic() + _REFRESH_S
        while waiting or under_way:
            nodes = self._pool.loaded(timeout_s=_LOOK_S)
            self._assign(waiting, nodes, under_way)
            yield self._next(under_way) if under_way else []
            if time.monotonic() > refresh_at:
                self._pool.refresh()  # nodes may have joined
                refresh_at = time.monotonic() + _REFRESH_S

    def _assign(self, waiting: deque[Sequence[Work]], nodes: Sequence[PooledNode], under_way: _UnderWay) -> None:
        """Assigns waiting blocks to nodes evenly, until all slots are taken."""
        held = Counter(under_way.values())
        for level in range(max((node.place.slots for node in nodes), default=0)):
            for node in nodes:
                if waiting and held[node] <= level < node.place.slots:
                    self._inform(node)
                    under_way[node.index(self._id, self._collection, waiting.popleft())] = node
                    held[node] += 1

    def _inform(self, node: PooledNode) -> None:
        """Gives the node its leases before its first block. Raises BrokenRunError."""
        if node in self._informed:
            return
        try:
            ray.get(node.renew(self._id, self._lost, self._until - time.monotonic()))
        except RayError as error:
            raise self._broken(node, error) from error
        self._informed.add(node)

    def _next(self, under_way: _UnderWay) -> Sequence[Result]:
        ready, _ = ray.wait([*under_way], num_returns=1, timeout=_LOOK_S)
        for block in ready:
            try:
                results: Sequence[Result] = ray.get(next(block))  # type: ignore[arg-type]
            except StopIteration:
                del under_way[block]
            except RayError as error:
                raise self._broken(under_way[block], error) from error
            else:
                return results
        return []

    def _broken(self, node: PooledNode, error: RayError) -> Exception:
        if not isinstance(error, RayTaskError):
            self._pool.drop(node)
        return cause_of(error)

    def renew(self, lost: Container[str], *, seconds: float) -> Mapping[str, float]:
        self._lost, self._until = lost, time.monotonic() + seconds
        return self._pool.renew(self._id, lost, seconds)


def blocks_of(works: Sequence[Work], *, slots: int) -> Iterator[Sequence[Work]]:
    """Blocks of work: large documents alone, the largest first, so that none starts last; then small ones together.

    Small documents are spread so that each slot gets some.
    """
    large = [work for work in works if work.document.byte_count > SMALL_BYTES]
    for work in sorted(large, key=lambda work: work.document.byte_count, reverse=True):
        yield [work]
    small = [work for work in works if work.document.byte_count <= SMALL_BYTES]
    size = min(DEFAULT_BLOCK, max(_FEWEST_PER_BLOCK, len(small) // slots))
    for start in range(0, len(small), size):
        yield small[start : start + size]
