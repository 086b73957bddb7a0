"""A Ray cluster: joined by its address, or started on this machine while it is needed. Sends no usage statistics."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import ray
from ray.exceptions import RayError

from app.errors import ConflictError, UnavailableError
from ingest.worker_slots import CPU_PATIENCE_S, DEFAULT_SLOTS

_LOCAL_OBJECT_STORE_BYTES = 128 * 1024 * 1024  # for results; by default Ray would take a third of the memory
_LOCAL = "local"
_CPUS_PER_MODEL = 2  # one for each of the two batches that a model computes in parallel
_GPU_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where one copy of the model runs: a node and a number on it. `threads` None: on a GPU of its own."""

    node_id: str
    number: int
    threads: int | None

    @property
    def cpus(self) -> float:
        """CPUs reserved on the node: half of the threads, so that a second driver fits beside it."""
        return 0 if self.threads is None else self.threads / 2

    @property
    def gpus(self) -> float:
        return 1 if self.threads is None else 0

    @property
    def slots(self) -> int:
        return _GPU_SLOTS if self.threads is None else DEFAULT_SLOTS

    @property
    def patience_s(self) -> float:
        return 0.0 if self.threads is None else CPU_PATIENCE_S


@dataclass(frozen=True, slots=True)
class NodeSize:
    id: str
    cpus: int
    gpus: int


@contextmanager
def open_cluster(address: str | None) -> Iterator[None]:
    """Joins or starts a cluster. Without `address` it runs on this machine alone and ends with the block.

    Raises UnavailableError when Ray cannot be reached or started.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    local_options = {
        "num_cpus": _cpu_count(),
        "object_store_memory": _LOCAL_OBJECT_STORE_BYTES,
        "include_dashboard": False,
    }
    try:
        ray.init(
            address=address or _LOCAL,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if address else local_options),  # type: ignore[arg-type]
        )
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        where = f"at {address!r}" if address else "on this machine"
        raise UnavailableError(f"Ray is not available {where}: {error}. Check GIRCSE_RAY_ADDRESS.") from error
    logging.getLogger("ray").setLevel(logging.WARNING)
    try:
        yield
    finally:
        ray.shutdown()


def has_gpus() -> bool:
    return any(node.gpus for node in living_nodes())


def living_nodes() -> list[NodeSize]:
    """The nodes that are alive now; nodes come and go."""
    return [
        NodeSize(node["NodeID"], int(node["Resources"].get("CPU", 0)), int(node["Resources"].get("GPU", 0)))
        for node in ray.nodes()
        if node["Alive"]
    ]


def find_places(nodes: list[NodeSize], *, use_gpus: bool) -> list[Place]:
    """One model per GPU; in a cluster without GPUs, one per two CPUs of a node. Raises ConflictError when no model
    fits."""
    if use_gpus and any(node.gpus for node in nodes):
        return [Place(node.id, number, None) for node in nodes for number in range(node.gpus)]
    places = [place for node in nodes for place in _on_cpus(node)]
    if not places:
        raise ConflictError("The Ray cluster has no CPU to index documents with: start its nodes with --num-cpus.")
    return places


def _on_cpus(node: NodeSize) -> list[Place]:
    if node.cpus == 0:
        return []
    count = max(1, node.cpus // _CPUS_PER_MODEL)
    return [Place(node.id, number, node.cpus // count) for number in range(count)]


def require_one_machine() -> None:
    """Raises ConflictError when a node is on another machine, which cannot reach the embedded vector engine."""
    addresses = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    others = addresses - {ray.util.get_node_ip_address()}
    if others:
        raise ConflictError(
            f"The Ray cluster has nodes on other machines ({', '.join(sorted(others))}), but the embedded vector "
            "engine can only be reached on this one. Set GIRCSE_QDRANT_URL to a Qdrant server that all can reach."
        )


def _cpu_count() -> int:
    """The CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
