"""/metrics, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response

from app.access.authorized_services import ApplicationMetrics
from app.runtime.metrics import CONTENT_TYPE


def metrics_routes(application: ApplicationMetrics) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    def metrics() -> Response:
        """Metrics of requests, search stages, queues, jobs, storage and caches in Prometheus text format."""
        return Response(application.render(), media_type=CONTENT_TYPE)

    return routes
