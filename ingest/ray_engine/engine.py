"""Works off the ledger of one collection in shards: claims many jobs, runs them through a pipeline, records each.

The catalog stays the one source of truth. A shard can be killed anywhere and is simply claimed again: what the index
has is not embedded twice.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pyarrow as pa

from app.collections.garbage import remove_unneeded
from app.errors import (
    CollectionPausedError,
    ConflictError,
    GircseError,
    LeaseLostError,
    NotFoundError,
    UnavailableError,
)
from app.ports.ledger import Completion, IngestedDocument, Ledger
from app.ports.parts import BlobStore, VectorIndex
from app.types.documents import Collection, Document, Job, JobKind
from ingest.leases import LeaseKeeper
from ingest.ray_engine.gathering import GatheredDocument
from ingest.ray_engine.parts import BrokenRunError, Pipeline, Run
from ingest.ray_engine.rows import FailedRow, Row, Work, rows_of
from ingest.worker import DEFAULT_LEASE, retry_in

log = logging.getLogger(__name__)

DEFAULT_SHARD_DOCUMENTS = 10_000
_MOST_BREAKS = 5  # of one shard in a row, without a document done in between
_LOOK_S = 0.2
_TABLES_AHEAD = 4
_DELETE_BATCH_SIZE = 1_000

Delete = Callable[[Job], None]


class StopRequestedError(Exception):
    """The shard is to be given back; what was embedded so far is kept in the index."""


class ShardEngine:
    """`delete` does the job of a deletion, with its record in the catalog. Without `complete` nobody is told what is
    new."""

    def __init__(
        self,
        *,
        catalog: Ledger,
        index: VectorIndex,
        blobs: BlobStore,
        pipeline: Pipeline,
        delete: Delete,
        owner: str,
        lease: timedelta = DEFAULT_LEASE,
        shard_documents: int = DEFAULT_SHARD_DOCUMENTS,
        poll_s: float = 1.0,
        complete: Completion | None = None,
    ) -> None:
        self._catalog = catalog
        self._complete_many = complete or (lambda _, done: catalog.complete_many(done))
        self._index = index
        self._blobs = blobs
        self._pipeline = pipeline
        self._delete = delete
        self._owner = owner
        self._lease = lease
        self._shard_documents = shard_documents
        self._poll_s = poll_s

    def run(self, collection: str, stop: threading.Event) -> None:
        """Works until `stop` is set; jobs in flight are released."""
        while not stop.is_set():
            try:
                if not self.run_shard(collection, stop):
                    stop.wait(self._poll_s)
            except UnavailableError as error:
                log.warning("Bulk ingestion waits: %s", error)
                stop.wait(self._poll_s)

    def run_shard(self, collection: str, stop: threading.Event | None = None) -> bool:
        """Does the jobs that are due, up to a shard of them. False when there are none.

        Raises GircseError when no document of the collection can be taken in like this.
        """
        jobs = self._catalog.claim_shard(
            self._owner, collection=collection, limit=self._shard_documents, lease=self._lease
        )
        if not jobs:
            return False
        shard = _Shard(jobs)
        try:
            with LeaseKeeper(self._catalog, jobs, lease=self._lease) as leases:
                self._work_off(shard, leases, stop or threading.Event())
        except StopRequestedError:
            self._give_back(shard)
        except UnavailableError as error:
            log.warning("%d jobs are put off: %s", len(shard.open), error)
            self._give_back(shard, reason=str(error))
        except GircseError:
            self._give_back(shard)
            raise
        else:
            self._give_back(shard)  # those that were cancelled, paused or taken over
        finally:
            shard.close()
        self._catalog.queue_lens_indexes(collection)  # which nodes know nothing of
        if shard.has_replaced:  # the files of the versions before
            remove_unneeded(catalog=self._catalog, index=self._index, blobs=self._blobs)
        return True

    def _work_off(self, shard: _Shard, leases: LeaseKeeper, stop: threading.Event) -> None:
        for job in [job for job in shard.open.values() if job.kind is JobKind.DELETE]:
            _raise_if(stop)
            self._finish(shard, leases, job, partial(self._delete, job))
        jobs = [job for job in shard.open.values() if job.kind is not JobKind.DELETE]  # one may have been left above
        found = self._catalog.documents_of(jobs)  # what was deleted since is not in it, and its job is cancelled
        works = [Work(job.id, found[job.document_id]) for job in jobs if job.document_id in found]
        if works:
            collection = self._catalog.collection(next(iter(shard.open.values())).collection)
            self._take_in(shard, leases, collection, works, stop)

    def _take_in(
        self, shard: _Shard, leases: LeaseKeeper, collection: Collection, works: list[Work], stop: threading.Event
    ) -> None:
        shard.documents = {work.job_id: work.document for work in works}
        breaks = 0
        while left := [work for work in works if shard.is_waiting_for(work.job_id, leases)]:
            count = len(left)
            try:
                self._run_once(shard, leases, collection, left, stop)
            except BrokenRunError as error:
                left = [work for work in left if work.job_id in shard.open]
                breaks = 1 if len(left) < count else breaks + 1
                if breaks > _MOST_BREAKS:
                    raise
                log.warning("A run broke with %d documents to go, which are run again: %s", len(left), error)
                stop.wait(self._poll_s)
            else:
                return

    def _run_once(
        self, shard: _Shard, leases: LeaseKeeper, collection: Collection, works: list[Work], stop: threading.Event
    ) -> None:
        with self._pipeline.open_run(collection, works) as run:
            leases.listen(lambda lost, seconds: run.renew(lost, seconds=seconds))
            try:
                for table in _watched(run, stop):
                    for row in rows_of(table):
                        self._take(shard, leases, collection, row)
            finally:
                leases.listen(None)
        if any(shard.is_waiting_for(work.job_id, leases) for work in works):
            raise BrokenRunError("The run ended before all of its documents had come back.")

    def _take(self, shard: _Shard, leases: LeaseKeeper, collection: Collection, row: Row) -> None:
        job = shard.open.get(row.job_id)
        if job is None or leases.is_lost(job):
            return
        if isinstance(row, FailedRow):
            if row.is_missing:
                self._require_missing_here(shard.documents[job.id], row.reason)
            pause = None if row.is_its_own else retry_in(job.attempts)
            self._finish(shard, leases, job, lambda: self._catalog.fail(job, row.reason, retry_in=pause))
            return
        gathered = shard.gathered(job)
        gathered.add(row)
        if gathered.is_whole:
            self._finish(shard, leases, job, lambda: self._complete(gathered, collection))
            shard.has_replaced = shard.has_replaced or shard.documents[job.id].revision > 1
        else:
            leases.advance(job, gathered.progress)

    def _require_missing_here(self, document: Document, reason: str) -> None:
        try:
            path = self._blobs.locate(document.content_hash)
        except NotFoundError:
            return
        raise ConflictError(
            f"A node of the cluster does not see {path}, which is there on this machine ({reason}). Put GIRCSE_HOME "
            "into a folder that all nodes share, under the same path."
        )

    def _complete(self, gathered: GatheredDocument, collection: Collection) -> None:
        found = gathered.found
        assert found is not None  # it is whole
        for start in range(0, len(found.stale), _DELETE_BATCH_SIZE):
            self._catalog.check_lease(gathered.job)
            self._index.delete_points(collection.active_index, found.stale[start : start + _DELETE_BATCH_SIZE])
        done = {gathered.job: IngestedDocument(found.title, found.metadata, gathered.chunks)}
        if not self._complete_many(collection, done):
            raise LeaseLostError(f"Job {gathered.job.id} was cancelled or taken over.")

    def _finish(self, shard: _Shard, leases: LeaseKeeper, job: Job, action: Callable[[], None]) -> None:
        """Runs the action that ends a job. A job whose lease was lost is released with the shard."""
        try:
            action()
        except (LeaseLostError, CollectionPausedError) as error:
            log.info("Job %s was left: %s", job.id, error)
            return
        except UnavailableError:
            raise
        except GircseError as error:
            log.warning("Job %s failed: %s", job.id, error)
            self._catalog.fail(job, str(error), retry_in=None)
        leases.drop(job)
        shard.forget(job)

    def _give_back(self, shard: _Shard, *, reason: str | None = None) -> None:
        for job in shard.open.values():
            self._catalog.release(job, reason=reason)


class _Shard:
    """Jobs that were claimed, and what has come back for those that are still open."""

    def __init__(self, jobs: list[Job]) -> None:
        self.open = {job.id: job for job in jobs}
        self.documents: dict[str, Document] = {}
        self.has_replaced = False
        self._gathered: dict[str, GatheredDocument] = {}

    def is_waiting_for(self, job_id: str, leases: LeaseKeeper) -> bool:
        return job_id in self.open and not leases.is_lost(self.open[job_id])

    def gathered(self, job: Job) -> GatheredDocument:
        if job.id not in self._gathered:
            self._gathered[job.id] = GatheredDocument(job, self.documents[job.id].byte_count)
        return self._gathered[job.id]

    def forget(self, job: Job) -> None:
        del self.open[job.id]
        if job.id in self._gathered:
            self._gathered.pop(job.id).close()

    def close(self) -> None:
        for gathered in self._gathered.values():
            gathered.close()


def _watched(run: Run, stop: threading.Event) -> Iterator[pa.Table]:
    """The tables of a run. Raises StopRequestedError as soon as `stop` is set, however long the next one takes."""
    tables: queue.Queue[pa.Table | None] = queue.Queue(_TABLES_AHEAD)
    left = threading.Event()

    def put(table: pa.Table | None) -> None:
        while not left.is_set():
            try:
                tables.put(table, timeout=_LOOK_S)
            except queue.Full:
                continue
            return

    def pull() -> None:
        try:
            for table in run.tables():
                put(table)
                if left.is_set():
                    return
        finally:
            put(None)

    puller = ThreadPoolExecutor(1, thread_name_prefix="shard")
    pulled = puller.submit(pull)
    try:
        while True:
            _raise_if(stop)
            try:
                table = tables.get(timeout=_LOOK_S)
            except queue.Empty:
                run.require_whole()
                continue
            if table is None:
                return pulled.result()  # raises what the run raised
            yield table
    finally:
        left.set()
        puller.shutdown(wait=False)


def _raise_if(stop: threading.Event) -> None:
    if stop.is_set():
        raise StopRequestedError
