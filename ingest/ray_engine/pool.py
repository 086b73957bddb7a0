"""Actors of a cluster, one for each model that it has room for. They live as long as the driver, over all shards."""

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
_ROOM_AFTER_S = 30.0  # of waiting for the first model a person is told why
_Actor: Any = ray.remote(concurrency_groups={"leases": 1})(Node)  # type: ignore[call-overload]


@dataclass(eq=False)
class PooledNode:
    """`is_loaded` once its model is. On a node whose CPUs or GPUs are taken that is when they are free."""

    actor: ray.actor.ActorHandle
    place: Place
    loading: ray.ObjectRef
    is_loaded: bool = False

    def index(self, run: str, collection: Collection, works: Sequence[Work]) -> ray.ObjectRefGenerator:
        return self.actor.index.options(num_returns="streaming").remote(run, collection, works)

    def renew(self, run: str, lost: Container[str], seconds: float) -> ray.ObjectRef:
        """Answered also while all slots are taken."""
        return self.actor.renew.options(concurrency_group="leases").remote(run, set(lost), seconds)


class NodePool:
    """To be used by one thread, but for `renew`."""

    def __init__(self, parts: NodeParts, *, use_gpus: bool) -> None:
        self._parts = parts
        self._use_gpus = use_gpus
        self._nodes: Mapping[Place, PooledNode] = {}
        self._waiting_since = time.monotonic()

    @property
    def slot_count(self) -> int:
        """Of all nodes, also of those that have no model yet."""
        return sum(place.slots for place in self._nodes)

    def refresh(self) -> None:
        """Leaves out what is on nodes that are gone, and begins to load models where there are none. Raises
        ConflictError when the cluster has room for none."""
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
        """Those whose models are there; where there is none, waits so long for one. Raises what a model's loading
        raised."""
        loading = {node.loading: node for node in self._nodes.values() if not node.is_loaded}
        is_waiting = len(loading) == len(self._nodes)
        if loading:
            found, _ = ray.wait([*loading], num_returns=len(loading), timeout=0)
            if not found and is_waiting:
                found, _ = ray.wait([*loading], timeout=timeout_s)
            for each in found:
                self._note_loaded(loading[each])
        nodes = [node for node in self._nodes.values() if node.is_loaded]
        self._tell_of_waiting(has_any=bool(nodes))
        return nodes

    def _note_loaded(self, node: PooledNode) -> None:
        try:
            name = ray.get(node.loading)
        except RayError as error:
            self.drop(node)
            raise cause_of(error) from error
        node.is_loaded = True
        log.info("Node %s has the model %s", node.place.node_id[:8], name)

    def _tell_of_waiting(self, *, has_any: bool) -> None:
        now = time.monotonic()
        if has_any or not self._nodes:
            self._waiting_since = now
        elif now - self._waiting_since > _ROOM_AFTER_S:
            self._waiting_since = now
            log.warning("No node of the cluster has a model yet: its CPUs or GPUs are taken, or the model is large.")

    def drop(self, node: PooledNode) -> None:
        """It is broken. The next `refresh` puts another one in its place."""
        ray.kill(node.actor)
        self._nodes = {place: each for place, each in self._nodes.items() if each is not node}

    def renew(self, run: str, lost: Container[str], seconds: float) -> dict[str, float]:
        """On all nodes that have their model. The progress of jobs.

        One that does not answer is ended, which shows in what it works on.
        """
        asked = {node.renew(run, lost, seconds): node for node in self._nodes.values() if node.is_loaded}
        answered, silent = ray.wait([*asked], num_returns=len(asked), timeout=_RENEW_TIMEOUT_S) if asked else ([], [])
        for each in silent:
            log.warning("Node %s does not answer, and is ended.", asked[each].place.node_id[:8])
            ray.kill(asked[each].actor)
        progress: dict[str, float] = {}
        for each in answered:
            try:
                progress |= ray.get(each)
            except RayError as error:
                log.debug("A node was not told of the leases: %s", error)
        return progress


def cause_of(error: RayError) -> GircseError:
    """What a node raised of our own errors, else that it is broken."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, GircseError):
        return error.cause
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # The last line of a traceback, the first of what Ray itself has to say.
    line = lines[-1 if isinstance(error, RayTaskError) else 0]
    return BrokenRunError(f"The Ray cluster lost a part of the work: {line}")
