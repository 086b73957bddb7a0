"""Runs evaluations in threads of the server, one of each user at a time, with progress and cancellation.

The last few of each user stay in memory. Closing the page does not stop them.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING

from app.errors import ConflictError, GircseError, InputError, NotFoundError
from app.evaluation.evaluate import Evaluator, PreparedEvaluation
from app.evaluation.scoring import differences
from app.ports.parts import Embedder, VectorIndex
from app.search.service import SearchService
from app.types.access import current_principal
from app.types.documents import utc_now
from app.types.evaluation import Difference, EvaluationPlan, EvaluationReport, EvaluationRun, EvaluationState, Measure

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

KEPT = 10  # of each user
AT_A_TIME = 4  # of different users
STOP_S = 5.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Run:
    """The state of a run. Only the run's own thread changes it, except for `is_cancelled`."""

    id: str
    owner: str
    prepared: PreparedEvaluation
    started_at: datetime
    began: float = field(default_factory=monotonic)
    ended: float | None = None
    state: EvaluationState = EvaluationState.RUNNING
    done: int = 0
    error: str | None = None
    report: EvaluationReport | None = None
    is_cancelled: threading.Event = field(default_factory=threading.Event)

    def snapshot(self) -> EvaluationRun:
        elapsed, done, total = (self.ended or monotonic()) - self.began, self.done, self.prepared.search_count
        is_running = self.state is EvaluationState.RUNNING
        return EvaluationRun(
            id=self.id,
            plan=self.prepared.plan,
            state=self.state,
            started_at=self.started_at,
            query_count=len(self.prepared.queries),
            done=done,
            total=total,
            remaining_s=elapsed / done * (total - done) if is_running and done else None,
            elapsed_s=elapsed,
            error=self.error,
            report=self.report,
        )


def evaluations_over(*, catalog: SqlCatalog, index: VectorIndex, embedder: Embedder) -> BackgroundEvaluations:
    """Builds the service. It searches with its own SearchService, so as not to evict users' queries from the cache."""
    search = SearchService(catalog, index, embedder)
    return BackgroundEvaluations(Evaluator(catalog=catalog, search=search, max_steps=lambda: embedder.info.max_steps))


def unknown_run(run_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no evaluation {run_id[:40]!r}. A server keeps the last {KEPT} of each user, until it stops."
    )


class BackgroundEvaluations:
    """Runs evaluations in threads. Implements `Evaluations`. The user is the one on whose behalf `start` is called."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}  # oldest first
        self._threads: list[threading.Thread] = []  # of the runs that have not ended

    def start(self, plan: EvaluationPlan) -> EvaluationRun:
        principal = current_principal()
        owner = "" if principal is None else principal.name
        self._require_free(owner)
        prepared = self._evaluator.prepare(plan)
        with self._lock:
            self._require_free(owner)
            run = _Run(uuid.uuid4().hex, owner, prepared, utc_now())
            self._runs[run.id] = run
            for old in [each.id for each in self._runs.values() if each.owner == owner][:-KEPT]:
                del self._runs[old]
            thread = threading.Thread(target=self._work, args=(run,), name="evaluation", daemon=True)
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            thread.start()
        return run.snapshot()

    def runs(self) -> list[EvaluationRun]:
        with self._lock:
            return [run.snapshot() for run in reversed(self._runs.values())]

    def run(self, run_id: str) -> EvaluationRun:
        return self._run(run_id).snapshot()

    def cancel(self, run_id: str) -> EvaluationRun:
        run = self._run(run_id)
        run.is_cancelled.set()
        return run.snapshot()

    def compare(self, run_id: str, *, baseline: int = 0) -> list[Difference]:
        run = self._run(run_id)
        report = run.report
        if report is None:
            raise ConflictError("This evaluation has no results to compare yet. Wait until it has ended.")
        labels = [scores.label for scores in report.scores]
        if not 0 <= baseline < len(labels):
            raise InputError(f"The baseline is one of the variants 0 to {len(labels) - 1}, not {baseline}.")
        values = {measure: [query.values[measure] for query in report.queries] for measure in Measure}
        return differences(values, labels, baseline=baseline, seed=run.prepared.plan.seed)

    def close(self) -> None:
        with self._lock:
            threads, runs = self._threads, list(self._runs.values())
        for run in runs:
            run.is_cancelled.set()
        until = monotonic() + STOP_S
        for thread in threads:
            thread.join(timeout=max(until - monotonic(), 0))

    def _run(self, run_id: str) -> _Run:
        with self._lock:
            run = self._runs.get(run_id)
        if run is None:
            raise unknown_run(run_id)
        return run

    def _require_free(self, owner: str) -> None:
        running = [run.owner for run in list(self._runs.values()) if run.state is EvaluationState.RUNNING]
        if owner in running:
            raise ConflictError("An evaluation is already running. Wait until it has ended, or cancel it.")
        if len(running) >= AT_A_TIME:
            raise ConflictError("Evaluations of other users are running, as many as this server runs. Try again later.")

    def _work(self, run: _Run) -> None:
        def goes_on() -> bool:
            run.done += 1
            return not run.is_cancelled.is_set()

        with _outcome_recorded(run):
            run.report = self._evaluator.measure(run.prepared, goes_on=goes_on)


@contextmanager
def _outcome_recorded(run: _Run) -> Iterator[None]:
    """Records how the run ended. Sets the state last, so that a finished run has its results."""
    state, error = EvaluationState.FAILED, "Internal error. The server's log has the details."
    try:
        yield
        is_whole = run.done == run.prepared.search_count
        state, error = (EvaluationState.DONE if is_whole else EvaluationState.CANCELLED), ""
    except GircseError as known:
        error = known.lasting_text
        log.warning("An evaluation failed: %s", known)
    finally:
        run.ended = monotonic()
        run.error = error or None
        run.state = state
