"""Gives every request an id, a log line, metrics and, with tracing, a span.

None of them contains the requested URL: a path may name a document, and a query string contains the query.
"""

from __future__ import annotations

import logging
import time
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.runtime.logs import begin_request, fields
from app.runtime.metrics import ProcessMetrics

REQUEST_ID_HEADER = "x-request-id"
UNMATCHED = "(none)"  # requests without a matching route share one series
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_log = logging.getLogger(__name__)


class RequestTelemetry:
    """Middleware. The request id is not reset at the end: each request has its own context, and the handler of an
    unexpected error, which runs after this middleware, still needs it."""

    def __init__(self, app: ASGIApp, *, metrics: ProcessMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = begin_request(headers.get(REQUEST_ID_HEADER))
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        started, status = time.perf_counter(), int(HTTPStatus.INTERNAL_SERVER_ERROR)

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            await send(message)

        with self._metrics.spans.span(f"{method} request", headers=headers) as span, self._metrics.request_in_flight():
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                seconds, route = time.perf_counter() - started, route_of(scope)
                span.note("http.route", route)
                span.note("http.response.status_code", status)
                self._metrics.answered(method=method, route=route, status=status, seconds=seconds)
                extra = fields(method=method, route=route, status=status, ms=round(seconds * 1000, 1))
                _log.info("request", extra=extra)


def route_of(scope: Scope) -> str:
    """The path template of the matched route, such as /api/v1/documents/{document_id}."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) and path else UNMATCHED
