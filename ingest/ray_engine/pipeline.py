"""A shard as a Ray Data pipeline: tasks that read and split, an actor per model, tasks that write.

A run breaks when a node or an actor is lost: waiting for a replacement could take for ever on a cluster that has no
room for one. The engine runs what is left again on the nodes that there are.
"""

from __future__ import annotations

import time
from collections.abc import Collection as Container
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import ray
import ray.data
from ray.data import ActorPoolStrategy, DataContext, Dataset, TaskPoolStrategy
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from app.errors import GircseError
from app.types.documents import Collection
from ingest.ray_engine.cluster import Slots, find_slots, report_nothing
from ingest.ray_engine.parts import BrokenRunError, Leases, NodeParts
from ingest.ray_engine.rows import Work, works_to_table
from ingest.ray_engine.stages import EmbedMissing, read_and_split, write_points

_EMBED_BATCH_SIZE = 256  # so that texts of a length find each other
_WRITES_PER_EMBEDDER = 2
_MOST_DOCUMENTS_PER_TASK = 16
_BLOCK_BYTES = 4 * 1024 * 1024  # what one stage gathers before the next may have it
_NEVER = -1.0
_LEASES_TIMEOUT_S = 60
_START_TIMEOUT_S = 120


class RayPipeline:
    """Implements the port `Pipeline` on the cluster that this process is connected to."""

    def __init__(self, parts: NodeParts, *, use_gpus: bool) -> None:
        self._parts = parts
        self._use_gpus = use_gpus

    @contextmanager
    def open_run(self, collection: Collection, works: Sequence[Work]) -> Iterator[_RayRun]:
        nodes = _living_nodes()
        slots = find_slots(use_gpus=self._use_gpus)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        process = RunProcess.options(scheduling_strategy=here).remote(  # type: ignore[attr-defined]
            works, self._parts, collection, slots
        )
        try:
            _require_started(process)
            yield _RayRun(process, nodes)
        finally:
            ray.kill(process)


class _RayRun:
    def __init__(self, process: ray.actor.ActorHandle, nodes: set[str]) -> None:
        self._process = process
        self._nodes = nodes

    def tables(self) -> Iterator[pa.Table]:
        try:
            table: pa.Table | None
            while (table := ray.get(self._process.next_table.remote())) is not None:
                yield table
        except RayTaskError as error:
            if isinstance(error.cause, GircseError):
                raise error.cause from error
            raise
        except RayError as error:
            raise _broken_by(error) from error

    def require_whole(self) -> None:
        if gone := self._nodes - _living_nodes():
            raise BrokenRunError(f"The Ray cluster lost {len(gone)} of its {len(self._nodes)} nodes.")

    def renew(self, lost: Container[str], *, seconds: float) -> None:
        try:
            ray.get(self._process.renew.remote(set(lost), seconds), timeout=_LEASES_TIMEOUT_S)
        except RayError as error:
            raise BrokenRunError(f"The Ray cluster cannot be told of the leases: {_telling_line(error)}") from error


@ray.remote(num_cpus=0, concurrency_groups={"leases": 1})  # type: ignore[call-overload]
class RunProcess:
    """A run in a process of its own beside the driver: its death takes all that it started along.

    Nothing else ends a run for certain. Ray Data gives its executor away with the first result alone, which never comes
    where the models hold the CPUs that the readers wait for, and its shutdown waits for tasks of nodes that are gone.
    The leases live here too, so nothing is written for a run that was ended. Only the clock of this process counts.
    """

    def __init__(self, works: Sequence[Work], parts: NodeParts, collection: Collection, slots: Slots) -> None:
        report_nothing()
        leases = _RemoteLeases(ray.get_runtime_context().current_actor)
        self._tables = _tables(works, parts=parts, collection=collection, slots=slots, leases=leases)
        self._until = 0.0
        self._lost: set[str] = set()

    def next_table(self) -> pa.Table | None:
        """None after the last one."""
        return next(self._tables, None)

    @ray.method(concurrency_group="leases")
    def renew(self, lost: set[str], seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._lost |= lost

    @ray.method(concurrency_group="leases")
    def lost(self, job_ids: set[str]) -> set[str]:
        return job_ids & self._lost if time.monotonic() < self._until else job_ids


class _RemoteLeases:
    """Implements the port `Leases` from any node."""

    def __init__(self, process: ray.actor.ActorHandle) -> None:
        self._process = process

    def lost(self, job_ids: Container[str]) -> set[str]:
        answer: Any = ray.get(self._process.lost.remote(set(job_ids)), timeout=_LEASES_TIMEOUT_S)
        return set(answer)


def _require_started(process: ray.actor.ActorHandle) -> None:
    try:
        ray.get(process.__ray_ready__.remote(), timeout=_START_TIMEOUT_S)
    except RayError as error:
        raise BrokenRunError(f"The Ray cluster did not start a run: {_telling_line(error)}") from error


def _tables(
    works: Sequence[Work], *, parts: NodeParts, collection: Collection, slots: Slots, leases: Leases
) -> Iterator[pa.Table]:
    try:
        dataset = _dataset(works, parts, collection, slots, leases)
        yield from dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
    except RayError as error:
        raise _cause_of_ours(error) or _broken_by(error) from error


def _dataset(works: Sequence[Work], parts: NodeParts, collection: Collection, slots: Slots, leases: Leases) -> Dataset:
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = _BLOCK_BYTES
    context.autoscaling_config.actor_pool_util_downscaling_threshold = _NEVER  # it ends models that have just loaded
    per_task = max(1, min(_MOST_DOCUMENTS_PER_TASK, len(works) // (4 * slots.readers)))
    blocks = [works_to_table(works[start : start + per_task]) for start in range(0, len(works), per_task)]
    return (
        ray.data.from_arrow(blocks)
        .map_batches(
            partial(read_and_split, parts=parts, collection=collection, leases=leases),
            batch_size=None,
            batch_format="pyarrow",
            compute=TaskPoolStrategy(slots.readers),
            num_cpus=slots.cpus_per_reader,
        )
        .map_batches(
            EmbedMissing,
            fn_constructor_kwargs={"parts": parts, "collection": collection, "leases": leases},
            batch_size=_EMBED_BATCH_SIZE,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(min_size=1, max_size=slots.embedders, initial_size=slots.embedders),
            num_cpus=slots.cpus_each,
            num_gpus=slots.gpus_each,
            ray_remote_args_fn=_fail_at_once,
        )
        .map_batches(
            partial(write_points, parts=parts, collection=collection, leases=leases),
            batch_size=None,
            batch_format="pyarrow",
            compute=TaskPoolStrategy(_WRITES_PER_EMBEDDER * slots.embedders),
            num_cpus=0,  # it waits for the index
        )
    )


def _living_nodes() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def _fail_at_once() -> dict[str, object]:
    return {"max_restarts": 0, "max_task_retries": 0}


def _cause_of_ours(error: BaseException) -> GircseError | None:
    """The error that one of our stages raised, below what Ray makes of it."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, GircseError):
            return found
        found = getattr(found, "cause", None) or found.__cause__
    return None


def _broken_by(error: RayError) -> BrokenRunError:
    return BrokenRunError(f"The Ray cluster lost a part of the work: {_telling_line(error)}")


def _telling_line(error: RayError) -> str:
    """The last of a traceback, the first of what Ray itself has to say."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if isinstance(error, RayTaskError) else 0]
