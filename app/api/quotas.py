"""Rejects requests beyond a user's quotas: too many requests per minute, and uploads before their body is read."""

from __future__ import annotations

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.quotas import UserQuotas
from app.api.problems import answer_error, set_retry_after
from app.errors import GircseError, QuotaExceededError, RequestQuotaError
from app.types.access import Principal, current_principal, message_for_caller

COUNTED = ("/api/", "/v1/", "/v2/", "/rerank", "/mcp", "/gradio_api/queue/join")
UPLOADS = "/api/v1/documents"


class QuotaGuard:
    """Middleware. Mount it inside authentication and outside everything that reads bodies."""

    def __init__(self, app: ASGIApp, *, quotas: UserQuotas) -> None:
        self._app = app
        self._quotas = quotas

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = current_principal()
        if scope["type"] != "http" or principal is None or not scope["path"].startswith(COUNTED):
            await self._app(scope, receive, send)
            return
        try:
            await run_in_threadpool(self._check(scope, principal))
        except GircseError as error:
            is_quota = isinstance(error, QuotaExceededError | RequestQuotaError)  # else the catalog does not respond
            code = "quota" if is_quota else None
            detail = message_for_caller(error)
            answer = answer_error(scope["path"], error.status, detail, title=type(error).__name__, code=code)
            set_retry_after(answer, error)
            if isinstance(error, QuotaExceededError):
                answer.headers["Connection"] = "close"  # the body is not read
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, principal: Principal) -> Callable[[], None]:
        declared = Headers(scope=scope).get("content-length", "")
        is_upload = scope["method"] == "POST" and scope["path"] == UPLOADS

        def check() -> None:
            self._quotas.count_request(principal)
            if is_upload and declared.isascii() and declared.isdecimal():
                self._quotas.require_room_for_body(principal, int(declared[:20]))

        return check
