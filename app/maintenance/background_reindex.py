"""Runs reindexing in threads of the serving process, one run per collection, so that no page has to stay open."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from app.errors import ConflictError, GircseError
from app.maintenance.reindex import Reindexer, ReindexReport
from app.types.access import current_principal
from app.types.documents import CONTRACT, Collection, IndexRole
from app.types.upkeep import ContractChange, ReindexState, ReindexStatus

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

log = logging.getLogger(__name__)

OpenReindexer = Callable[[Callable[[], bool]], AbstractContextManager[Reindexer]]  # argument: whether to stop

_AT_A_TIME = 2  # runs over all collections, one of each user; the others wait


class StoppedError(Exception):
    """The process stops before the index is complete. The unfinished index is kept."""


@dataclass(slots=True, eq=False)
class _Run:
    target: Collection
    owner: str  # "": the operator, who is not limited
    done: int = 0
    total: int = 0
    future: Future[ReindexReport] = field(default_factory=Future)  # another one once it runs


class BackgroundReindexing:
    """Starts and reports reindexing runs. Thread-safe. Keeps the result of a run until the next of its collection.

    The user of a run is the one on whose behalf `start` is called.
    """

    def __init__(self, catalog: SqlCatalog, *, open_reindexer: OpenReindexer) -> None:
        self._catalog = catalog
        self._open_reindexer = open_reindexer
        self._pool = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="reindex")
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._beginning: set[str] = set()
        self._waiting: list[_Run] = []  # in order of `start`
        self._building: list[_Run] = []

    def start(self, name: str, change: ContractChange, *, restart: bool = False) -> ReindexStatus:
        """Start a run, or resume an unfinished one.

        Raises ConflictError if one is running or nothing would change, and other errors of the request at once.
        """
        with self._lock:
            run = self._runs.get(name)
            if name in self._beginning or (run is not None and not run.future.done()):
                raise ConflictError(f"The collection {name!r} is already being reindexed. Wait until that is done.")
            self._beginning.add(name)
        try:
            with self._open_reindexer(self._stop.is_set) as reindexer:
                run = _Run(reindexer.begin(name, change, restart=restart), _owner())
            with self._lock:
                self._runs[name] = run
                self._waiting.append(run)
            self._begin_waiting()
        finally:
            with self._lock:
                self._beginning.discard(name)
        return self.status(name)

    def status(self, name: str) -> ReindexStatus:
        """The running or latest run of a collection, or its unfinished index. Raises UnknownCollectionError."""
        self._catalog.collection(name)
        with self._lock:
            run = self._runs.get(name)
        is_running = run is not None and not run.future.done()  # read before the catalog: a run ends by writing there
        can_roll_back = self._catalog.indexes.standby(name, IndexRole.PREVIOUS) is not None
        if run is not None and is_running:
            contract = _contract_of(run.target)
            return ReindexStatus(
                name, ReindexState.RUNNING, run.done, run.total, contract=contract, can_roll_back=can_roll_back
            )
        error = None if run is None or run.future.cancelled() else run.future.exception()
        building = self._catalog.indexes.standby(name, IndexRole.BUILDING)
        if building is not None:
            total = self._catalog.counted_collection(name).document_count
            done = total - self._catalog.indexes.count_unindexed(name, building.active_index)
            is_error = error is not None and not isinstance(error, StoppedError)
            return ReindexStatus(
                name,
                ReindexState.FAILED if is_error else ReindexState.HALF_BUILT,
                done,
                total,
                _reason(error) if is_error else None,
                contract=_contract_of(building),
                can_roll_back=can_roll_back,
            )
        if run is None or error is not None or run.future.cancelled():
            return ReindexStatus(name, ReindexState.NONE, can_roll_back=can_roll_back)
        report = run.future.result()
        return ReindexStatus(
            name,
            ReindexState.DONE,
            report.documents,
            report.documents,
            unreadable=len(report.unreadable),
            contract=_contract_of(run.target),
            can_roll_back=can_roll_back,
        )

    def roll_back(self, name: str) -> Collection:
        """Switch to the previous index. Raises ConflictError if there is none."""
        with self._open_reindexer(self._stop.is_set) as reindexer:
            return reindexer.roll_back(name)

    def close(self) -> None:
        """Stop running builds between two batches. The next start resumes them."""
        with self._lock:
            self._stop.set()
            waiting, self._waiting = self._waiting, []
        for run in waiting:
            run.future.cancel()
        self._pool.shutdown(wait=True)

    def _begin_waiting(self) -> None:
        """Begin the first runs that may begin. A user with many of them leaves room for those of others."""
        while (run := self._begin_one()) is not None:
            run.future.add_done_callback(partial(self._note_end, run))  # may run at once and takes the lock

    def _begin_one(self) -> _Run | None:
        with self._lock:
            busy = {run.owner for run in self._building if run.owner}
            run = next((each for each in self._waiting if each.owner not in busy), None)
            if run is None or self._stop.is_set() or len(self._building) == _AT_A_TIME:
                return None
            self._waiting.remove(run)
            self._building.append(run)
            run.future = self._pool.submit(self._build, run)
            return run

    def _note_end(self, run: _Run, future: Future[ReindexReport]) -> None:
        with self._lock:
            self._building.remove(run)
        self._begin_waiting()

    def _build(self, run: _Run) -> ReindexReport:
        def on_progress(done: int, total: int) -> None:
            run.done, run.total = done, total
            if self._stop.is_set():
                raise StoppedError

        with self._open_reindexer(self._stop.is_set) as reindexer:
            return reindexer.build(run.target, on_progress=on_progress)


def _owner() -> str:
    principal = current_principal()
    return "" if principal is None or principal.is_operator else principal.name


def _contract_of(collection: Collection) -> dict[str, str | int]:
    return {name: getattr(collection, name) for name in CONTRACT}


def _reason(error: BaseException | None) -> str:
    if isinstance(error, GircseError):
        return error.lasting_text
    log.error("Reindexing failed", exc_info=error)
    return "Internal error; see the server's log. The unfinished index is kept."
