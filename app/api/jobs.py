"""Jobs over HTTP: what ingestion is doing, try again, cancel, pause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from app.api.schemas import JobAnswer, PausesAnswer
from app.ports import Catalog
from app.types import Job, JobState


@dataclass(frozen=True, slots=True)
class Pauses:
    """The collections that were paused, or resumed."""

    collections: list[str]


def job_routes(catalog: Catalog) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])

    @routes.get("", response_model=list[JobAnswer])
    def list_jobs(
        state: JobState | None = None,
        collection: str | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> list[Job]:
        return catalog.jobs(state=state, collection=collection, limit=limit)

    @routes.post("/pause", response_model=PausesAnswer)
    def pause_jobs(collection: str | None = None) -> Pauses:
        """Lets the jobs of a collection wait, or of every collection there is now; running ones are given back."""
        return Pauses(catalog.pause(collection))

    @routes.post("/resume", response_model=PausesAnswer)
    def resume_jobs(collection: str | None = None) -> Pauses:
        return Pauses(catalog.resume(collection))

    @routes.get("/{job_id}", response_model=JobAnswer)
    def show_job(job_id: str) -> Job:
        return catalog.job(job_id)

    @routes.post("/{job_id}/retry", response_model=JobAnswer)
    def retry_job(job_id: str) -> Job:
        return catalog.retry(job_id)

    @routes.post("/{job_id}/cancel", response_model=JobAnswer)
    def cancel_job(job_id: str) -> Job:
        return catalog.cancel(job_id)

    return routes
