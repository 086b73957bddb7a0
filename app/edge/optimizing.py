"""Optimizes a shard in the background: another process works on a copy, which then replaces the live shard.

Edge holds the GIL while it optimizes (a minute for 50,000 vectors), and the server could not respond in that time. So
searches and writes use the live shard meanwhile. Changed ids are recorded and applied to the copy before the switch.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from app.edge.messages import CreateCollection, CreateIndex, Optimization
from app.edge.optimize_shard import NOTHING_TO_DO
from app.edge.shards import Changes, Shards

_REPLAYED_AT_ONCE = 200  # points per call; each call blocks the event loop and so all searches
_BREATH_S = 0.005  # pause between two calls, in which waiting searches run
_WRITERS_WAIT_S = 0.5  # longest time that writers are blocked before they get a turn


@dataclass(slots=True)
class OptimizerStage:
    """The current stage of the optimizer; `total` is None if points are not counted in this stage."""

    name: str
    done: int = 0
    total: int | None = None


class Optimizer:
    """Optimizes one shard at a time. Requests are recorded in the table until they are done: they survive a crash."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stages: dict[str, OptimizerStage] = {}
        self._turn = asyncio.Lock()
        self._indexes: dict[str, list[CreateIndex]] = {}

    def ask(self, name: str, config: CreateCollection) -> None:
        """Start optimizing a shard with `config`. Has no effect if it is already being optimized."""
        name = self.shards.resolve(name)
        if not self.is_running(name):
            self.shards.mark(name, awaits_optimizing=True)
            self._stages[name] = OptimizerStage("waiting for its turn")
            self._tasks[name] = asyncio.create_task(
                self._optimize(name, Optimization(config=config, indexes=self._indexes.pop(name, [])))
            )

    def index_later(self, name: str, index: CreateIndex) -> None:
        """Create a payload index at the next optimization. The request is lost if this process ends before."""
        self._indexes.setdefault(self.shards.resolve(name), []).append(index)

    def is_running(self, name: str) -> bool:
        task = self._tasks.get(self.shards.resolve(name))
        return task is not None and not task.done()

    def stage(self, name: str) -> OptimizerStage | None:
        return self._stages[self.shards.resolve(name)] if self.is_running(name) else None

    def error(self, name: str) -> str | None:
        """The error of the last run, or None."""
        task = self._tasks.get(self.shards.resolve(name))
        if task is None or not task.done() or task.cancelled():
            return None
        error = task.exception()
        return None if error is None else str(error)

    def cancel(self, name: str) -> None:
        self._indexes.pop(name, None)
        if task := self._tasks.pop(name, None):
            task.cancel()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _optimize(self, name: str, wanted: Optimization) -> None:
        async with self._turn:
            folder = self.shards.new_folder()
            try:
                changes = await self._copy(name, folder)
                self._stages[name] = OptimizerStage("merging and indexing")
                if await _run_in_process(folder, wanted):
                    folder = await self._catch_up_and_switch(name, folder, wanted.config, changes)
                else:
                    self.shards.mark(name, awaits_optimizing=False, config=wanted.config)
            finally:
                self.shards.stop_noting(name)
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _copy(self, name: str, folder: Path) -> Changes:
        """Copy the shard's files and start recording changes. Blocks writers, so that the files do not change."""
        self._stages[name] = OptimizerStage("copying")
        async with self.shards.write_lock(name):
            self.shards.flush()
            await asyncio.to_thread(shutil.copytree, self.shards.folder(name), folder)
            return self.shards.start_noting(name)

    async def _catch_up_and_switch(self, name: str, folder: Path, config: CreateCollection, changes: Changes) -> Path:
        """Apply recorded changes to the copy and put it in the shard's place. Returns the folder no longer needed."""
        copy = edge.EdgeShard.load(path=str(folder))
        await asyncio.sleep(_BREATH_S)
        stage = self._stages[name] = OptimizerStage("applying recent writes", total=len(changes))
        while True:
            async with self.shards.write_lock(name):
                give_way_at = time.monotonic() + _WRITERS_WAIT_S
                while changes and time.monotonic() < give_way_at:
                    stage.done += _replay(changes, self.shards.shard(name), copy)
                    stage.total = stage.done + len(changes)
                    await asyncio.sleep(_BREATH_S)
                if not changes:
                    copy.flush()
                    await asyncio.sleep(_BREATH_S)
                    return self.shards.replace(name, folder, copy, config)


async def _run_in_process(folder: Path, wanted: Optimization) -> bool:
    """Optimize in a child process; returns whether there was anything to do. The child ends when this process ends."""
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-P",
            "-m",
            "app.edge.optimize_shard",
            str(folder),
            wanted.model_dump_json(exclude_none=True),
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        exit_code = await process.wait()
    except asyncio.CancelledError:
        process.kill()
        raise
    if exit_code not in (0, NOTHING_TO_DO):
        raise RuntimeError(f"the optimizing process ended with code {exit_code}; see edge.log")
    return exit_code == 0


def _replay(changes: Changes, live: edge.EdgeShard, copy: edge.EdgeShard) -> int:
    """Bring some of the recorded points in the copy to their state in the live shard. Returns their number."""
    for operation in changes.take_schema():
        copy.update(operation=operation)
    ids = changes.take_points(_REPLAYED_AT_ONCE)
    records = live.retrieve(point_ids=list(ids), with_payload=True, with_vector=True)
    points = [edge.Point(id=record.id, vector=_named(record.vector), payload=record.payload) for record in records]
    if points:
        copy.update(operation=edge.UpdateOperation.upsert_points(points=points))
    gone = set(ids) - {record.id for record in records}
    if gone:
        copy.update(operation=edge.UpdateOperation.delete_points(point_ids=list(gone)))
    return len(ids)


def _named(vector: Any) -> Any:
    return vector if isinstance(vector, dict) else {"": vector}
