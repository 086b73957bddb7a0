"""/metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response

from app.runtime.metrics import CONTENT_TYPE, ApplicationCollector
from app.runtime.worker_lock import is_worker_running
from app.services import Services


def metrics_routes(services: Services, *, may_ask: Callable[[], object]) -> APIRouter:
    """`may_ask` raises for whoever may not know how much there is of everything."""
    routes = APIRouter(tags=["health"])
    application = ApplicationCollector(
        catalog=services.catalog,
        index=services.index,
        is_worker_running=lambda: is_worker_running(services.settings.home),
    )

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> Response:
        """Requests, stages, queue, jobs, sizes and caches, in the text format of Prometheus."""
        may_ask()
        return Response(services.metrics.render(application), media_type=CONTENT_TYPE)

    return routes
