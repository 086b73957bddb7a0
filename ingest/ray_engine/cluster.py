"""A Ray cluster: joined by its address, or started on this machine for as long as it is needed. Nothing is reported.

What of it the engine may use is looked at anew for every run, since nodes come and go.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import ray
from ray.exceptions import RayError

from app.errors import ConflictError, UnavailableError

_LOCAL_OBJECT_STORE_BYTES = 512 * 1024 * 1024  # parts of texts on their way; Ray would take a third of the memory
_LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Slots:
    """How many models run at once, and what each of them, and each reader, takes of a node."""

    embedders: int
    gpus_each: float
    cpus_each: float
    readers: int
    cpus_per_reader: float


@dataclass(frozen=True, slots=True)
class Cluster:
    has_gpus: bool


@contextmanager
def open_cluster(address: str | None) -> Iterator[Cluster]:
    """`address` None: a cluster of this machine alone, which ends with the block."""
    report_nothing()
    of_its_own = {
        "num_cpus": _cpu_count(),
        "object_store_memory": _LOCAL_OBJECT_STORE_BYTES,
        "include_dashboard": False,
    }
    try:
        ray.init(
            address=address or _LOCAL,
            log_to_driver=False,
            logging_level=logging.WARNING,
            **({} if address else of_its_own),  # type: ignore[arg-type]
        )
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        where = f"at {address!r}" if address else "on this machine"
        raise UnavailableError(f"There is no Ray {where}: {error}. Look at GIRCSE_RAY_ADDRESS.") from error
    logging.getLogger("ray").setLevel(logging.WARNING)
    try:
        yield Cluster(has_gpus=ray.cluster_resources().get("GPU", 0) >= 1)
    finally:
        ray.shutdown()


def report_nothing() -> None:
    """For each process that runs Ray Data: those of a cluster that is joined have the settings of its owner."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def find_slots(*, use_gpus: bool) -> Slots:
    """One embedder per GPU; without GPUs, one per CPU. A reader for every fourth CPU: it is a tenth of the work."""
    found = ray.cluster_resources()
    gpus, cpus = int(found.get("GPU", 0)) if use_gpus else 0, int(found.get("CPU", 0))
    return share_out(cpus=cpus, gpus=gpus)


def share_out(*, cpus: int, gpus: int) -> Slots:
    if cpus < 1:
        raise ConflictError("The Ray cluster has no CPU to read documents with: start its nodes with --num-cpus.")
    if gpus:
        return Slots(embedders=gpus, gpus_each=1, cpus_each=0, readers=cpus, cpus_per_reader=1)
    # Halves fit into any node, so no reader waits for ever beside models that hold what there is.
    return Slots(embedders=cpus, gpus_each=0, cpus_each=0.5, readers=max(1, cpus // 4), cpus_per_reader=0.5)


def require_one_machine() -> None:
    """Raises ConflictError when nodes are elsewhere, from where the embedded vector engine cannot be reached."""
    addresses = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    others = addresses - {ray.util.get_node_ip_address()}
    if others:
        raise ConflictError(
            f"The Ray cluster has nodes on other machines ({', '.join(sorted(others))}), and the embedded vector "
            "engine answers on this one alone. Set GIRCSE_QDRANT_URL to a Qdrant server that all of them reach."
        )


def _cpu_count() -> int:
    """Those that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
