"""The actors of a cluster, one per model that fits. They live as long as the driver, across shards."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection as Container
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from app.errors import GircseError
from app.types.documents import Collection
from ingest.ray_engine.cluster import Place, find_places, living_nodes
from ingest.ray_engine.node import Node
from ingest.ray_engine.parts import BrokenRunError, NodeParts
from ingest.ray_engine.results import Work

log = logging.getLogger(__name__)

_RENEW_TIMEOUT_S = 60
_ROOM_AFTER_S = 30.0  # wait for the first model before a warning says why
_Actor: Any = ray.remote(concurrency_groups={"leases": 1})(Node)  # type: ignore[call-overload]


@dataclass(eq=False)
class PooledNode:
    """One actor and its place. `is_loaded` turns true once its model is loaded; before that, its node may be busy."""

    actor: ray.actor.ActorHandle
    place: Place
    loading: ray.ObjectRef
    is_loaded: bool = False

    def index(self, run: str, collection: Collection, works: Sequence[Work]) -> ray.ObjectRefGenerator:
        return self.actor.index.options(num_returns="streaming").remote(run, collection, works)

    def renew(self, run: str, lost: Container[str], seconds: float) -> ray.ObjectRef:
        """Renews leases. Uses its own concurrency group, so that the actor answers while all slots are taken."""
        return self.actor.renew.options(concurrency_group="leases").remote(run, set(lost), seconds)


class NodePool:
    """The actors of the cluster. Not thread-safe, except `renew`."""

    def __init__(self, parts: NodeParts, *, use_gpus: bool) -> None:
        self._parts = parts
        self._use_gpus = use_gpus
        self._nodes: Mapping[Place, PooledNode] = {}
        self._waiting_since = time.monotonic()

    @property
    def slot_count(self) -> int:
        """Slots of all nodes, including those whose model is not loaded yet."""
        return sum(place.slots for place in self._nodes)

    def refresh(self) -> None:
        """Drops actors of nodes that are gone, and starts actors at places without one. Raises ConflictError when the
        cluster has room for none."""
        places = find_places(living_nodes(), use_gpus=self._use_gpus)
        self._nodes = {place: self._nodes.get(place) or self._begin(place) for place in places}

    def _begin(self, place: Place) -> PooledNode:
        actor = _Actor.options(
            num_cpus=place.cpus,
            num_gpus=place.gpus,
            max_concurrency=place.slots,
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(place.node_id, soft=False),
        ).remote(self._parts, slots=place.slots, patience_s=place.patience_s, threads=place.threads)
        return PooledNode(actor, place, actor.load.remote())

    def loaded(self, *, timeout_s: float) -> list[PooledNode]:
        """The nodes whose models are loaded. If none is, waits up to `timeout_s` for the first.

        Raises the error of a model that failed to load.
        """
        loading = {node.loading: node for node in self._nodes.values() if not node.is_loaded}
        is_waiting = len(loading) == len(self._nodes)
        if loading:
            done, _ = ray.wait([*loading], num_returns=len(loading), timeout=0)
            if not done and is_waiting:
                done, _ = ray.wait([*loading], timeout=timeout_s)
            for reference in done:
                self._note_loaded(loading[reference])
        nodes = [node for node in self._nodes.values() if node.is_loaded]
        self._warn_if_waiting(has_any=bool(nodes))
        return nodes

    def _note_loaded(self, node: PooledNode) -> None:
        try:
            name = ray.get(node.loading)
        except RayError as error:
            self.drop(node)
            raise cause_of(error) from error
        node.is_loaded = True
        log.info("Node %s has the model %s", node.place.node_id[:8], name)

    def _warn_if_waiting(self, *, has_any: bool) -> None:
        now = time.monotonic()
        if has_any or not self._nodes:
            self._waiting_since = now
        elif now - self._waiting_since > _ROOM_AFTER_S:
            self._waiting_since = now
            log.warning("No node of the cluster has loaded a model yet: CPUs or GPUs are busy, or the model is large.")

    def drop(self, node: PooledNode) -> None:
        """Kills a broken actor. The next `refresh` starts another one at its place."""
        ray.kill(node.actor)
        self._nodes = {place: kept for place, kept in self._nodes.items() if kept is not node}

    def renew(self, run: str, lost: Container[str], seconds: float) -> dict[str, float]:
        """Renews the leases on all loaded nodes; returns the progress, 0 to 1, by job id.

        Kills a node that does not answer within 60 s; its blocks then fail with BrokenRunError.
        """
        calls = {node.renew(run, lost, seconds): node for node in self._nodes.values() if node.is_loaded}
        answered, silent = ray.wait([*calls], num_returns=len(calls), timeout=_RENEW_TIMEOUT_S) if calls else ([], [])
        for call in silent:
            log.warning("Node %s does not answer and is ended.", calls[call].place.node_id[:8])
            ray.kill(calls[call].actor)
        progress: dict[str, float] = {}
        for call in answered:
            try:
                progress |= ray.get(call)
            except RayError as error:
                log.debug("The leases of a node were not renewed: %s", error)
        return progress


def cause_of(error: RayError) -> GircseError:
    """The GircseError that a node raised; any other failure becomes a BrokenRunError."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, GircseError):
        return error.cause
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # A traceback ends with the error; Ray's own messages begin with it.
    line = lines[-1 if isinstance(error, RayTaskError) else 0]
    return BrokenRunError(f"The Ray cluster lost a part of the work: {line}")
