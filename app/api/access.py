"""Authenticates every request, by the API key in a header or the session cookie, before it reaches a route or page."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_plus

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.logins import Logins
from app.api.problems import answer_error, detail_for, set_retry_after
from app.api.watched_streams import WatchedRequest
from app.errors import ConflictError, GircseError, LoginRequiredError, ThrottledError
from app.oidc_settings import CALLBACK
from app.types.access import OPERATOR, Principal, acting_as, current_principal
from app.types.patience import answering

COOKIE = "gircse_session"
LOGIN = "/login"
OPENID = f"{LOGIN}/openid"
# Reachable without login. Gradio's own files are public anyway: every installation has the same ones.
PUBLIC_PATHS = frozenset({LOGIN, OPENID, CALLBACK, "/healthz", "/readyz", "/favicon.ico", "/robots.txt"})
PUBLIC_FOLDERS = ("/assets/", "/static/", "/feeds/")  # a feed's address contains its own secret
HEARTBEAT = "/gradio_api/heartbeat/"
PROGRAMS = ("/api/", "/v1", "/v2", "/rerank", "/mcp", "/metrics", "/openapi.json", "/gradio_api/")
_SECRET = re.compile(r"\bg[ks]_[A-Za-z0-9_-]{30,}")


class AccessControl:
    """Middleware that runs each request as its principal. Without `logins`, access control is off."""

    def __init__(self, app: ASGIApp, *, logins: Logins | None) -> None:
        self._app = app
        self._logins = logins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        with answering():
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # this server has no WebSocket routes
        elif scope["path"] != CALLBACK and _SECRET.search(unquote_plus(scope["query_string"].decode("latin-1"))):
            await _refuse_secret_in_address(scope["path"])(scope, receive, send)
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
                """Whether the request's key or session still gives the same principal.

                Any change of its rights counts, so that the client has to reconnect. While the catalog is unavailable
                the answer is True.
                """
                try:
                    return await run_in_threadpool(self._identify, logins, scope, is_use=False) == principal
                except LoginRequiredError:
                    return False
                except GircseError:
                    return True

            if not await WatchedRequest(self._app, is_still_allowed).answer(scope, receive, send):
                change = ConflictError("Your rights changed while this request arrived. Send it again.")
                await _refusal(change, scope)(scope, receive, send)

    @staticmethod
    def _identify(logins: Logins, scope: Scope, *, is_use: bool = True) -> Principal:
        headers = Headers(scope=scope)
        key = _sent_key(headers)
        if key is not None:
            return logins.principal_of_key(key, address=client_address(scope))
        token = session_token(headers)
        if token is None:
            raise LoginRequiredError(
                "Log in, or send an API key as `Authorization: Bearer KEY`; `gircse keys add` creates one."
            )
        # An open page sends heartbeats without its user; they do not prolong a session.
        return logins.principal_of_session(token, is_use=is_use and not scope["path"].startswith(HEARTBEAT))


class AsOperator:
    """Middleware for the Unix socket in the home folder: requests run as operator, without a key.

    Only the owner of the home can open that socket. The commands use it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with acting_as(OPERATOR):
            await self._app(scope, receive, send)


def is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or (path.startswith(PUBLIC_FOLDERS) and ".." not in path)


def client_address(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""


def credential_of(headers: Headers) -> str | None:
    """The API key or session token of the headers, unchecked."""
    key = _sent_key(headers)
    return session_token(headers) if key is None else key


def session_token(headers: Headers) -> str | None:
    return cookie_of(headers, COOKIE)


def cookie_of(headers: Headers, name: str) -> str | None:
    """The cookie of this name. Malformed cookies of other programs beside it, such as `x[]=1`, do not hide it, as they
    would from Python's own parser: browsers send the cookies of all ports of a host.
    """
    return cookie_parser(headers.get("cookie", "")).get(name)


def _sent_key(headers: Headers) -> str | None:
    """The API key of the headers; None if there is none, so that the session cookie counts.

    An Authorization header that is empty or of another scheme gives "", an invalid key: it must not fall back to the
    cookie.
    """
    authorization = headers.get("authorization")
    if authorization is not None:
        scheme, _, key = authorization.partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""
    return headers.get("x-api-key")


def _refusal(error: GircseError, scope: Scope) -> Response:
    """A redirect to the login page for people who open a page; for programs an error in their API's format."""
    path = str(scope["path"])
    if isinstance(error, LoginRequiredError) and scope["method"] == "GET" and not path.startswith(PROGRAMS):
        query = scope["query_string"].decode("latin-1")
        wanted = quote(f"{path}?{query}" if query else path, safe="")
        return RedirectResponse(f"{LOGIN}?next={wanted}", 303, headers={"Cache-Control": "no-store"})
    code = "too_many_attempts" if isinstance(error, ThrottledError) else None
    response = answer_error(path, error.status, detail_for(scope, error), code=code)
    if isinstance(error, LoginRequiredError):
        response.headers["WWW-Authenticate"] = "Bearer"
    set_retry_after(response, error)
    return response


def _refuse_secret_in_address(path: str) -> Response:
    return answer_error(
        path,
        400,
        "This address contains an API key, and logs and browser histories record addresses. Revoke that key, and send "
        "keys in a header: `Authorization: Bearer KEY`.",
    )
