"""/healthz: the process answers. /readyz: every part it needs was asked and works.

Both are answered on the event loop: the threads of requests may all be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.schemas import HealthAnswer
from app.runtime.readiness import Readiness

Exclude = Annotated[list[str], Query(max_length=20, description="Checks that do not count.")]


def health_routes(
    checks: Mapping[str, Callable[[], bool]], damage: Callable[[], Mapping[str, str]] = dict
) -> APIRouter:
    routes = APIRouter(tags=["health"])
    readiness = Readiness(checks)

    @routes.get("/healthz", response_model=HealthAnswer)
    async def healthz() -> HealthAnswer:
        """The process answers."""
        return HealthAnswer(status="ok")

    @routes.get("/readyz", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}})
    async def readyz(response: Response, exclude: Exclude = []) -> HealthAnswer:  # noqa: B006
        """Every part that is needed was asked, and works. A part that does not answer within 1.5 s counts as away.

        `integrity` is true once the indexes were looked at, and nothing is damaged. What is excluded is shown, and
        makes nothing unready: with `?exclude=integrity` a probe keeps a service in which other collections go on.
        """
        answers = await readiness.ask()
        ready = all(is_well for name, is_well in answers.items() if name not in exclude)
        response.status_code = 200 if ready else 503
        return HealthAnswer(status="ready" if ready else "not ready", checks=answers, damaged=dict(damage()))

    return routes
