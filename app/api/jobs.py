"""Jobs over HTTP: what ingestion is doing, try again, cancel."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.api.schemas import JobAnswer
from app.ports import Catalog
from app.types import Job, JobState


def job_routes(catalog: Catalog) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])

    @routes.get("", response_model=list[JobAnswer])
    def list_jobs(
        state: JobState | None = None,
        collection: str | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> list[Job]:
        return catalog.jobs(state=state, collection=collection, limit=limit)

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
