"""Finds out who is asking, before any route or page is reached: by a key in a header, or by a session's cookie."""

from __future__ import annotations

import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, unquote_plus

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.logins import Logins
from app.api.problems import openai_problem, problem, tell_when_to_ask_again
from app.api.watched_streams import WatchedStream
from app.errors import GircseError, LoginRequiredError, ThrottledError, UnavailableError
from app.oidc_settings import CALLBACK
from app.types.access import OPERATOR, Principal, acting_as, current_principal

COOKIE = "gircse_session"
LOGIN = "/login"
OPENID = f"{LOGIN}/openid"
# Open to monitoring and to clients that are not logged in. Gradio's own files are the same everywhere.
PUBLIC_PATHS = frozenset({LOGIN, OPENID, CALLBACK, "/healthz", "/readyz", "/favicon.ico", "/robots.txt"})
PUBLIC_FOLDERS = ("/assets/", "/static/", "/feeds/")  # a feed is opened by its secret address
HEARTBEAT = "/gradio_api/heartbeat/"
PROGRAMS = ("/api/", "/v1/", "/mcp", "/metrics", "/openapi.json", "/gradio_api/")
_SECRET = re.compile(r"\bg[ks]_[A-Za-z0-9_-]{30,}")


class AccessControl:
    """Without `logins` access control is off, and every client is the operator."""

    def __init__(self, app: ASGIApp, *, logins: Logins | None) -> None:
        self._app = app
        self._logins = logins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # nothing here speaks it
        elif scope["path"] != CALLBACK and _SECRET.search(unquote_plus(scope["query_string"].decode("latin-1"))):
            await _refuse_secret_in_address()(scope, receive, send)
        elif self._logins is None or current_principal() is not None:
            # `AsOperator`, or an outer application that mounts this one, has authenticated the request.
            await self._pass(current_principal() or OPERATOR, scope, receive, send)
        elif is_public(scope["path"]):
            await self._app(scope, receive, send)
        else:
            try:
                principal = await run_in_threadpool(self._identify, self._logins, scope)
            except GircseError as error:
                await _refusal(error, scope)(scope, receive, send)
                return
            await self._pass(principal, scope, receive, send, logins=self._logins)

    async def _pass(
        self, principal: Principal, scope: Scope, receive: Receive, send: Send, *, logins: Logins | None = None
    ) -> None:
        scope.setdefault("state", {})["principal"] = principal
        with acting_as(principal):
            if logins is None:
                await self._app(scope, receive, send)
                return

            async def is_still_allowed() -> bool:
                """As the same principal, too: who may do less now asks anew. A catalog that is away decides nothing."""
                try:
                    return await run_in_threadpool(self._identify, logins, scope, is_use=False) == principal
                except LoginRequiredError:
                    return False
                except GircseError:
                    return True

            await WatchedStream(self._app, is_still_allowed).answer(scope, receive, send)

    @staticmethod
    def _identify(logins: Logins, scope: Scope, *, is_use: bool = True) -> Principal:
        headers = Headers(scope=scope)
        shown = _shown_key(headers)
        if shown is not None:
            return logins.principal_of_key(shown, address=client_address(scope))
        token = session_token(headers)
        if token is None:
            raise LoginRequiredError(
                "Log in, or show an API key as `Authorization: Bearer KEY`; `gircse keys add` makes one."
            )
        # A page that is open beats its heart by itself.
        return logins.principal_of_session(token, is_use=is_use and not scope["path"].startswith(HEARTBEAT))


class AsOperator:
    """Before what listens on the socket in the home, which its owner alone can open: commands need no key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with acting_as(OPERATOR):
            await self._app(scope, receive, send)


def is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or (path.startswith(PUBLIC_FOLDERS) and ".." not in path)


def client_address(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""


def session_token(headers: Headers) -> str | None:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return None
    return cookies[COOKIE].value if COOKIE in cookies else None


def _shown_key(headers: Headers) -> str | None:
    """An empty or strange Authorization counts as a key, and is refused: it must not fall back to a cookie."""
    given = headers.get("authorization")
    if given is not None:
        scheme, _, key = given.partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""
    return headers.get("x-api-key")


def _refusal(error: GircseError, scope: Scope) -> Response:
    path = str(scope["path"])
    if isinstance(error, LoginRequiredError) and scope["method"] == "GET" and not path.startswith(PROGRAMS):
        query = scope["query_string"].decode("latin-1")
        wanted = quote(f"{path}?{query}" if query else path, safe="")
        return RedirectResponse(f"{LOGIN}?next={wanted}", 303, headers={"Cache-Control": "no-store"})
    response = _openai_error(error) if path.startswith("/v1/") else problem(error.status, str(error))
    if isinstance(error, LoginRequiredError):
        response.headers["WWW-Authenticate"] = "Bearer"
    tell_when_to_ask_again(response, error)
    return response


def _openai_error(error: GircseError) -> Response:
    """As clients of OpenAI expect it. Who is asking cannot be found out while the catalog is away."""
    kind, code = ("invalid_request_error", "invalid_api_key")
    if isinstance(error, ThrottledError):
        kind, code = ("rate_limit_error", "too_many_attempts")
    if isinstance(error, UnavailableError):
        kind, code = ("server_error", "unavailable")
    return openai_problem(error.status, str(error), kind=kind, code=code)


def _refuse_secret_in_address() -> Response:
    return problem(
        400,
        "There is a key in this address, where logs and histories keep it. Revoke it, and show keys in a header, as "
        "`Authorization: Bearer KEY`.",
    )
