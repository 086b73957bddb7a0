"""Refuses what a user's quotas do not allow: requests beyond those of a minute, and uploads before they are read."""

from __future__ import annotations

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.quotas import UserQuotas
from app.api.problems import openai_problem, problem, tell_when_to_ask_again
from app.errors import GircseError, QuotaExceededError
from app.types.access import Principal, current_principal

COUNTED = ("/api/", "/v1/", "/mcp", "/gradio_api/queue/join")
UPLOADS = "/api/v1/documents"


class QuotaGuard:
    """To be mounted after authentication, and before what reads bodies."""

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
            if scope["path"].startswith("/v1/"):  # as clients of OpenAI expect it
                answer = openai_problem(error.status, str(error), kind="rate_limit_error", code="quota")
            else:
                answer = problem(error.status, str(error), title=type(error).__name__)
            tell_when_to_ask_again(answer, error)
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
