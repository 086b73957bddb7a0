"""/healthz: the process responds. /readyz: every component that it needs works.

Both run on the event loop, because all threads for requests may be busy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.schemas import HealthAnswer
from app.runtime.readiness import Readiness

Exclude = Annotated[list[str], Query(max_length=20, description="Names of checks to ignore.")]


def health_routes(
    checks: Mapping[str, Callable[[], bool]], damage: Callable[[], Mapping[str, str]] = dict
) -> APIRouter:
    routes = APIRouter(tags=["health"])
    readiness = Readiness(checks)

    @routes.get("/healthz", response_model=HealthAnswer)
    async def healthz() -> HealthAnswer:
        """Status 200 while the process responds."""
        return HealthAnswer(status="ok")

    @routes.get("/readyz", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}})
    async def readyz(response: Response, exclude: Exclude = []) -> HealthAnswer:  # noqa: B006
        """Checks every required component; status 503 if one fails or does not respond within 1.5 s.

        `integrity` is true once all indexes were checked and none is damaged. Excluded checks are shown, but do not
        affect the status: a probe with `?exclude=integrity` keeps a service up while one collection is damaged.
        """
        answers = await readiness.ask()
        ready = all(is_well for name, is_well in answers.items() if name not in exclude)
        response.status_code = 200 if ready else 503
        return HealthAnswer(status="ready" if ready else "not ready", checks=answers, damaged=dict(damage()))

    return routes
