"""Runs the jobs of one collection in shards: claims many jobs, has cluster nodes do them, records each.

The catalog stays the one source of truth. A shard can be killed at any point and is simply claimed again; points in
the index are not embedded twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from collections.abc import Collection as Container
from datetime import timedelta
from functools import partial

from app.documents.garbage import remove_unneeded
from app.errors import (
    CollectionPausedError,
    ConflictError,
    GircseError,
    LeaseLostError,
    NotFoundError,
    UnavailableError,
)
from app.ports.ledger import Completion, Ledger
from app.ports.parts import BlobStore, VectorIndex
from app.types.documents import Collection, Document, Job, JobKind
from ingest.leases import LeaseKeeper, StopRequestedError
from ingest.ray_engine.gathering import GatheredDocument
from ingest.ray_engine.parts import BrokenRunError, Cluster, ClusterRun
from ingest.ray_engine.results import FailedDocument, Result, Work
from ingest.worker import DEFAULT_LEASE, retry_in

log = logging.getLogger(__name__)

DEFAULT_SHARD_DOCUMENTS = 10_000
_MOST_BREAKS = 5  # broken runs of one shard in a row without a document done in between

Delete = Callable[[Job], None]


class ShardEngine:
    """Runs shards of jobs on a cluster. `delete` runs a deletion job and records it in the catalog. Without `complete`,
    saved searches are not notified of new documents."""

    def __init__(
        self,
        *,
        catalog: Ledger,
        index: VectorIndex,
        blobs: BlobStore,
        cluster: Cluster,
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
        self._cluster = cluster
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
        """Runs the jobs that are due, up to one shard. False when none is due.

        Raises GircseError when this cluster can ingest no document of the collection.
        """
        jobs = self._catalog.shards.claim(
            self._owner, collection=collection, limit=self._shard_documents, lease=self._lease
        )
        if not jobs:
            return False
        shard = _Shard(jobs)
        try:
            with LeaseKeeper(self._catalog.shards, jobs, lease=self._lease) as leases:
                self._work_off(shard, leases, stop or threading.Event())
        except StopRequestedError:
            self._give_back(shard)
        except UnavailableError as error:
            log.warning("%d jobs are postponed: %s", len(shard.open), error)
            self._give_back(shard, reason=error.lasting_text)
        except GircseError:
            self._give_back(shard)
            raise
        else:
            self._give_back(shard)  # jobs that were cancelled, paused or taken over
        finally:
            shard.close()
        self._catalog.lens_indexes.queue_all(collection)  # nodes do not build lens indexes
        if shard.has_replaced:  # files of earlier versions
            remove_unneeded(garbage=self._catalog.garbage, index=self._index, blobs=self._blobs)
        return True

    def _work_off(self, shard: _Shard, leases: LeaseKeeper, stop: threading.Event) -> None:
        for job in [job for job in shard.open.values() if job.kind is JobKind.DELETE]:
            _raise_if(stop)
            self._finish(shard, leases, job, partial(self._delete, job))
        jobs = [job for job in shard.open.values() if job.kind is not JobKind.DELETE]  # lost deletions are still open
        documents = self._catalog.shards.documents_of(jobs)  # without documents deleted since; their jobs are cancelled
        works = [Work(job.id, documents[job.document_id]) for job in jobs if job.document_id in documents]
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
                log.warning("A run broke; %d documents are run again: %s", len(left), error)
                stop.wait(self._poll_s)
            else:
                return

    def _run_once(
        self, shard: _Shard, leases: LeaseKeeper, collection: Collection, works: list[Work], stop: threading.Event
    ) -> None:
        with self._cluster.open_run(collection, works) as run:
            leases.listen(partial(_renew, run, shard, leases))
            try:
                for results in run.results():
                    _raise_if(stop)
                    self._take(shard, leases, collection, results)
            finally:
                leases.listen(None)
        if any(shard.is_waiting_for(work.job_id, leases) for work in works):
            raise BrokenRunError("The run ended before it returned all documents.")

    def _take(self, shard: _Shard, leases: LeaseKeeper, collection: Collection, results: Sequence[Result]) -> None:
        whole: list[GatheredDocument] = []
        for result in results:
            job = shard.open.get(result.job_id)
            if job is None or leases.is_lost(job):
                continue
            if isinstance(result, FailedDocument):
                self._fail(shard, leases, job, result)
                continue
            gathered = shard.gathered(job)
            gathered.add(result)
            if gathered.is_whole:
                whole.append(gathered)
        if whole:
            self._complete(shard, leases, collection, whole)

    def _fail(self, shard: _Shard, leases: LeaseKeeper, job: Job, failed: FailedDocument) -> None:
        if failed.is_missing:
            self._require_missing_here(shard.documents[job.id], failed.reason)
        pause = None if failed.is_its_own else retry_in(job.attempts)
        fail = partial(self._catalog.fail, job, failed.reason, retry_in=pause, may_succeed=failed.may_succeed)
        self._finish(shard, leases, job, fail)

    def _require_missing_here(self, document: Document, reason: str) -> None:
        try:
            path = self._blobs.locate(document.content_hash)
        except NotFoundError:
            return
        raise ConflictError(
            f"A node of the cluster cannot find {path}, which exists on this machine ({reason}). Put GIRCSE_HOME "
            "into a folder that all nodes share, under the same path."
        )

    def _complete(
        self, shard: _Shard, leases: LeaseKeeper, collection: Collection, whole: Sequence[GatheredDocument]
    ) -> None:
        done = {document.job: document.document for document in whole}
        completed = self._complete_many(collection, done)
        for job in done:
            if job.id not in completed:
                log.info("Job %s was skipped: it was cancelled or taken over.", job.id)
                continue
            shard.has_replaced = shard.has_replaced or shard.documents[job.id].revision > 1
            leases.drop(job)
            shard.forget(job)

    def _finish(self, shard: _Shard, leases: LeaseKeeper, job: Job, action: Callable[[], None]) -> None:
        """Runs the action that ends a job. A job whose lease was lost is released with the shard."""
        try:
            action()
        except (LeaseLostError, CollectionPausedError) as error:
            log.info("Job %s was skipped: %s", job.id, error)
            return
        except UnavailableError:
            raise
        except GircseError as error:
            log.warning("Job %s failed: %s", job.id, error)
            self._catalog.fail(job, error.lasting_text, retry_in=None)
        leases.drop(job)
        shard.forget(job)

    def _give_back(self, shard: _Shard, *, reason: str | None = None) -> None:
        for job in shard.open.values():
            self._catalog.release(job, reason=reason)


class _Shard:
    """Claimed jobs, and the results received so far for the open ones."""

    def __init__(self, jobs: list[Job]) -> None:
        self.open = {job.id: job for job in jobs}
        self.documents: dict[str, Document] = {}
        self.has_replaced = False
        self._gathered: dict[str, GatheredDocument] = {}

    def is_waiting_for(self, job_id: str, leases: LeaseKeeper) -> bool:
        return job_id in self.open and not leases.is_lost(self.open[job_id])

    def gathered(self, job: Job) -> GatheredDocument:
        if job.id not in self._gathered:
            self._gathered[job.id] = GatheredDocument(job)
        return self._gathered[job.id]

    def forget(self, job: Job) -> None:
        del self.open[job.id]
        if job.id in self._gathered:
            self._gathered.pop(job.id).close()

    def close(self) -> None:
        for gathered in self._gathered.values():
            gathered.close()


def _renew(run: ClusterRun, shard: _Shard, leases: LeaseKeeper, lost: Container[str], seconds: float) -> None:
    for job_id, progress in run.renew(lost, seconds=seconds).items():
        if job := shard.open.get(job_id):
            leases.advance(job, progress)


def _raise_if(stop: threading.Event) -> None:
    if stop.is_set():
        raise StopRequestedError
