"""Jobs over HTTP: what ingestion is doing, try again, cancel, pause, and watch one until it has ended."""

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

LOOK_S = 0.5
LOOKS = 1200  # ten minutes; then the client asks again
ENDED = frozenset({JobState.DONE, JobState.DEAD, JobState.CANCELLED})
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            MEDIA_TYPE: {
                "schema": described_events("A JobAnswer, whenever it has changed.", "job"),
                "example": 'event: job\ndata: {"state": "running", "progress": 0.4}\n\n',
            }
        },
        "description": "The job as it goes on.",
    }
}


@dataclass(frozen=True, slots=True)
class Pauses:
    """The collections that were paused, or resumed."""

    collections: list[str]


def job_routes(catalog: Catalog) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])
    _add_lists(routes, catalog)

    @routes.post("/pause", response_model=PausesAnswer)
    def pause_jobs(collection: str | None = None) -> Pauses:
        """Lets the jobs of a collection wait, or of every collection there is now; running ones are given back."""
        return Pauses(catalog.pause(collection))

    @routes.post("/resume", response_model=PausesAnswer)
    def resume_jobs(collection: str | None = None) -> Pauses:
        """Lets the jobs of a collection, or of every collection, go on."""
        return Pauses(catalog.resume(collection))

    @routes.post("/retry", response_model=RetriesAnswer)
    def retry_dead_jobs(collection: str | None = None) -> RetriesAnswer:
        """Queues all jobs again that were given up, of a collection or of every one."""
        return RetriesAnswer(retried=catalog.retry_dead(collection))

    @routes.get("/{job_id}", response_model=JobAnswer)
    def show_job(job_id: str) -> Job:
        """A job, and how far it is."""
        return catalog.job(job_id)

    @routes.get("/{job_id}/events", response_class=StreamingResponse, responses=EVENTS)
    def watch_job(job_id: str) -> StreamingResponse:
        """The job whenever it has changed, as server-sent events, until it has ended, for ten minutes at most."""
        return StreamingResponse(
            _changes(catalog, catalog.job(job_id)), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"}
        )

    @routes.post("/{job_id}/retry", response_model=JobAnswer)
    def retry_job(job_id: str) -> Job:
        """Queues a job again that was given up or cancelled."""
        return catalog.retry(job_id)

    @routes.post("/{job_id}/cancel", response_model=JobAnswer)
    def cancel_job(job_id: str) -> Job:
        """Cancels a job that waits or runs."""
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
        """Jobs, the newest first."""
        found = catalog.jobs(state=state, collection=collection, limit=limit, offset=offset)
        counts = catalog.job_counts(collection)
        total = sum(counts.values()) if state is None else counts[state]
        note_page(request, response, total=total, offset=offset, count=len(found))
        return found

    @routes.get("/counts", response_model=JobCountsAnswer)
    def count_jobs(collection: str | None = None) -> JobCountsAnswer:
        """How many jobs are in which state."""
        counts = catalog.job_counts(collection)
        return JobCountsAnswer(total=sum(counts.values()), states=counts)


async def _changes(catalog: Catalog, job: Job) -> AsyncIterator[bytes]:
    """Ends without a word when the job goes with its collection, or the catalog is away: the client asks again."""
    shown = None
    for _ in range(LOOKS):
        answer = JobAnswer.model_validate(job)
        if answer != shown:
            yield event("job", answer)
            shown = answer
        if job.state in ENDED:
            return
        await asyncio.sleep(LOOK_S)
        try:
            job = await run_in_threadpool(catalog.job, job.id)
        except GircseError:
            return
