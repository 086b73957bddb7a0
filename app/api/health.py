"""/healthz: the process answers. /readyz: every part it needs was asked and works."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from fastapi import APIRouter, Response

from app.api.schemas import HealthAnswer
from app.errors import GircseError

_log = logging.getLogger(__name__)


def health_routes(checks: Mapping[str, Callable[[], bool]]) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", response_model=HealthAnswer)
    def healthz() -> HealthAnswer:
        """The process answers."""
        return HealthAnswer(status="ok")

    @routes.get("/readyz", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}})
    def readyz(response: Response) -> HealthAnswer:
        """Every part that is needed was asked, and works."""
        answers = {name: _is_well(name, check) for name, check in checks.items()}
        ready = all(answers.values())
        response.status_code = 200 if ready else 503
        return HealthAnswer(status="ready" if ready else "not ready", checks=answers)

    return routes


def _is_well(name: str, check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (GircseError, RuntimeError, OSError):  # RuntimeError: what torch raises, out of memory included
        _log.exception("The check of %s failed", name)
        return False
