"""Ingestion jobs over HTTP: list, count, retry, cancel, pause, and stream the progress of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from app.api.events import MEDIA_TYPE, described_events, event
from app.api.paging import PAGE_HEADERS, Limit, Offset, note_page
from app.api.schemas import JobAnswer, JobCountsAnswer, PausesAnswer, RetriesAnswer
from app.errors import GircseError
from app.ports.catalog import Catalog
from app.types.documents import Job, JobState

POLL_S = 0.5
POLLS = 1200  # ten minutes; then the client has to reconnect
ENDED = frozenset({JobState.DONE, JobState.DEAD, JobState.CANCELLED})
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            MEDIA_TYPE: {
                "schema": described_events("A JobAnswer, sent at each change.", "job"),
                "example": 'event: job\ndata: {"state": "running", "progress": 0.4}\n\n',
            }
        },
        "description": "The job, and again after each change.",
    }
}


@dataclass(frozen=True, slots=True)
class Pauses:
    """Names of the collections that were paused or resumed."""

    collections: list[str]


def job_routes(catalog: Catalog) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])
    _add_lists(routes, catalog)

    @routes.post("/pause", response_model=PausesAnswer)
    def pause_jobs(collection: str | None = None) -> Pauses:
        """Pauses the jobs of one collection, or of all present collections. Running jobs return to the queue."""
        return Pauses(catalog.pause(collection))

    @routes.post("/resume", response_model=PausesAnswer)
    def resume_jobs(collection: str | None = None) -> Pauses:
        """Resumes the jobs of one collection or of all."""
        return Pauses(catalog.resume(collection))

    @routes.post("/retry", response_model=RetriesAnswer)
    def retry_dead_jobs(collection: str | None = None) -> RetriesAnswer:
        """Retries all jobs in state `dead`, of one collection or of all."""
        return RetriesAnswer(retried=catalog.retry_dead(collection))

    @routes.get("/{job_id}", response_model=JobAnswer)
    def show_job(job_id: str) -> Job:
        """A job with its state and progress."""
        return catalog.job(job_id)

    @routes.get("/{job_id}/events", response_class=StreamingResponse, responses=EVENTS)
    def watch_job(job_id: str) -> StreamingResponse:
        """Streams the job as server-sent events: now and after each change, until it ends or for ten minutes."""
        return StreamingResponse(
            _changes(catalog, catalog.job(job_id)), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"}
        )

    @routes.post("/{job_id}/retry", response_model=JobAnswer)
    def retry_job(job_id: str) -> Job:
        """Retries a job in state `dead` or `cancelled`."""
        return catalog.retry(job_id)

    @routes.post("/{job_id}/cancel", response_model=JobAnswer)
    def cancel_job(job_id: str) -> Job:
        """Cancels a waiting or running job."""
        return catalog.cancel(job_id)

    return routes


def _add_lists(routes: APIRouter, catalog: Catalog) -> None:
    @routes.get("", response_model=list[JobAnswer], responses=PAGE_HEADERS)
    def list_jobs(
        request: Request,
        response: Response,
        state: JobState | None = None,
        collection: str | None = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> list[Job]:
        """Lists jobs, newest first."""
        found = catalog.jobs(state=state, collection=collection, limit=limit, offset=offset)
        counts = catalog.job_counts(collection)
        total = sum(counts.values()) if state is None else counts[state]
        note_page(request, response, total=total, offset=offset, count=len(found))
        return found

    @routes.get("/counts", response_model=JobCountsAnswer)
    def count_jobs(collection: str | None = None) -> JobCountsAnswer:
        """The number of jobs by state."""
        counts = catalog.job_counts(collection)
        return JobCountsAnswer(total=sum(counts.values()), states=counts)


async def _changes(catalog: Catalog, job: Job) -> AsyncIterator[bytes]:
    """Yield the job as events. Ends silently if the job was deleted or the catalog is unavailable; clients retry."""
    shown = None
    for _ in range(POLLS):
        answer = JobAnswer.model_validate(job)
        if answer != shown:
            yield event("job", answer)
            shown = answer
        if job.state in ENDED:
            return
        await asyncio.sleep(POLL_S)
        try:
            job = await run_in_threadpool(catalog.job, job.id)
        except GircseError:
            return
