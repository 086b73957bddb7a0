"""The actor that runs on a cluster: indexes documents as a worker does. The driver holds the leases of their jobs.

This module does not import Ray.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection as Container
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

from app.errors import GircseError, LeaseLostError, NotFoundError, ServerLimitError, UnavailableError
from app.search.fingerprints import require_same_model
from app.types.documents import Collection, Document
from ingest.incidents import log_incident
from ingest.indexer import Indexed
from ingest.ray_engine.parts import NodeParts
from ingest.ray_engine.results import FailedDocument, IndexedChunks, IndexedDocument, Result, Work
from ingest.worker_slots import WorkerSlots

log = logging.getLogger(__name__)

_CHUNKS_AT_A_TIME = 4_000
_LOOK_S = 0.2
_PATIENCE_S = 60.0  # how long a part may be unavailable: a broken run costs more
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
# Unexpected errors of one document, which must not fail the others.
UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Node:
    """Holds one model and indexes up to `slots` blocks of documents at once.

    While one block is parsed, the next starts after `patience_s`. `threads`: CPU threads of the model; None with a GPU.
    """

    def __init__(self, parts: NodeParts, *, slots: int, patience_s: float = 0.0, threads: int | None = None) -> None:
        if threads is not None:
            parts.prepare_cpu(threads)
        self._parts = parts
        self._slots = WorkerSlots(slots, patience_s=patience_s)
        self._indexer = parts.indexer(is_leaving=self._slots.is_leaving, before_embedding=self._slots.note_read)
        self._leases = _Leases()

    def load(self) -> str:
        """Loads the model and returns its name. Not done in `__init__`, where Ray would turn an error into mere
        text."""
        return self._parts.embedder().info.name

    def renew(self, run: str, lost: Container[str], seconds: float) -> Mapping[str, float]:
        """As `Run.renew`. A run ends when another run is renewed, or none in time."""
        return self._leases.renew(run, lost, seconds)

    def index(self, run: str, collection: Collection, works: Sequence[Work]) -> Iterator[list[Result]]:
        """Yields the results of a block in parts. Raises FingerprintMismatchError, and UnavailableError when a part is
        unavailable for a minute."""
        require_same_model(collection, self._parts.embedder())
        leases = _BlockLeases(self._leases, run, {work.document.id: work.job_id for work in works})
        with self._slot(leases) as is_given:
            if is_given:
                try:
                    yield from self._index(collection, works, leases)
                finally:
                    leases.forget_progress()

    @contextmanager
    def _slot(self, leases: _BlockLeases) -> Iterator[bool]:
        """Waits for a slot; yields False if the leases were lost first."""
        while not self._slots.take(timeout_s=_LOOK_S):
            if leases.are_lost():
                yield False
                return
        try:
            with self._slots.holding(leases.are_lost):
                yield True
        finally:
            self._slots.give_back()

    def _index(self, collection: Collection, works: Sequence[Work], leases: _BlockLeases) -> Iterator[list[Result]]:
        with ExitStack() as opened:
            try:
                indexed = self._patiently_indexed(collection, works, leases, opened)
            except UnavailableError:
                if not leases.are_lost():  # else a wait was interrupted because the leases were lost
                    raise
                return
            except (GircseError, FileNotFoundError, *UNFORESEEN) as error:
                if len(works) == 1:
                    yield [_failed(works[0], error)]
                    return
            else:
                yield from _results(works, indexed)
                return
        for work in works:  # one document caused the error: index the others
            yield from self._index(collection, [work], leases)

    def _patiently_indexed(
        self, collection: Collection, works: Sequence[Work], leases: _BlockLeases, opened: ExitStack
    ) -> Indexed:
        """Indexes the documents; retries for up to a minute while a required part is unavailable."""
        deadline = time.monotonic() + _PATIENCE_S
        pause_s = _FIRST_PAUSE_S
        documents = [work.document for work in works]
        while True:
            try:
                return opened.enter_context(
                    self._indexer.index_documents(documents, collection, heartbeat=leases.confirm)
                )
            except UnavailableError:
                if leases.are_lost() or time.monotonic() + pause_s > deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class _Leases:
    """The leases of one run as of the driver's last call. Times are of this process's clock alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run = ""
        self._until = 0.0
        self._lost: set[str] = set()
        self.progress: dict[str, float] = {}

    def renew(self, run: str, lost: Container[str], seconds: float) -> Mapping[str, float]:
        with self._lock:
            if run != self._run:
                self._run, self._lost = run, set()
            self._until = time.monotonic() + seconds
            self._lost |= set(lost)
            return dict(self.progress)

    def holds(self, run: str, job_id: str) -> bool:
        with self._lock:
            return run == self._run and time.monotonic() < self._until and job_id not in self._lost


class _BlockLeases:
    """The leases of documents that are indexed together, by document id."""

    def __init__(self, leases: _Leases, run: str, job_ids: Mapping[str, str]) -> None:
        self._leases = leases
        self._run = run
        self._job_ids = job_ids

    def forget_progress(self) -> None:
        for job_id in self._job_ids.values():
            self._leases.progress.pop(job_id, None)

    def confirm(self, document: Document, progress: float) -> None:
        """Records progress, 0 to 1. Raises LeaseLostError."""
        job_id = self._job_ids[document.id]
        if not self._leases.holds(self._run, job_id):
            raise LeaseLostError(f"Job {job_id} was lost, or the driver no longer renews its lease.")
        self._leases.progress[job_id] = progress

    def are_lost(self) -> bool:
        return not any(self._leases.holds(self._run, job_id) for job_id in self._job_ids.values())


def _results(works: Sequence[Work], indexed: Indexed) -> Iterator[list[Result]]:
    """Yields lists of at most 4,000 chunks. Documents whose jobs were lost are left out."""
    results: list[Result] = []
    count = 0
    for work in works:
        if error := indexed.left.get(work.document.id):
            if not isinstance(error, LeaseLostError):
                results.append(_failed(work, error))
        elif document := indexed.documents.get(work.document.id):
            chunks = iter(document.chunks)
            while part := list(islice(chunks, _CHUNKS_AT_A_TIME - count)):
                results.append(IndexedChunks(work.job_id, part))
                count += len(part)
                if count == _CHUNKS_AT_A_TIME:
                    yield results
                    results, count = [], 0
            results.append(IndexedDocument(work.job_id, document.title, document.metadata))
    yield results


def _failed(work: Work, error: Exception) -> FailedDocument:
    if isinstance(error, NotFoundError | FileNotFoundError):
        return FailedDocument(work.job_id, str(error), is_its_own=True, is_missing=True)
    if isinstance(error, GircseError):  # the message is for the user, and a retry would not help
        may_succeed = isinstance(error, ServerLimitError)
        return FailedDocument(work.job_id, str(error), is_its_own=True, may_succeed=may_succeed)
    return FailedDocument(work.job_id, log_incident(log, work.job_id, error), is_its_own=False)
