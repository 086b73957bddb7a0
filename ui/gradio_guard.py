"""Restricts Gradio's routes to the pages, their files and their queue; all others answer 404. Removes its CORS headers,
and headers by which a client would choose the addresses in a page. Delivers queue results only to the session that
requested them."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import HTMLResponse, JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.types.access import Principal
from app.types.shared_files import SHARED_FILES
from ui.fair_queue import MAX_OF_USER, FairQueue
from ui.language import _
from ui.missing_page import render_missing_page

KEPT_SESSIONS = 10_000
MAX_SESSION_CHARACTERS = 100  # ids of pages have 11
_ROUTES = frozenset({"/config", "/theme.css", "/favicon.ico"})
_QUEUE = "/gradio_api/queue/data"
_CANCEL = "/gradio_api/cancel"  # the session is in the body; `reset` no longer does anything
_JOIN = "/gradio_api/queue/join"
_IS_BACK = "/gradio_api/app_id"  # polled by a page that lost the connection to its server
_QUEUE_ROUTES = frozenset({_QUEUE, _CANCEL, _JOIN, "/gradio_api/reset", "/gradio_api/startup-events"})
# Gradio keeps bodies and their values. The longest of a page is a list of addresses.
_MAX_BODY_BYTES = {_CANCEL: 64 * 1024, _JOIN: 4 * 1024 * 1024}
_HEARTBEAT = "/gradio_api/heartbeat/"
_CORS = "access-control-"
# Gradio builds the addresses of a page from these, although the client chooses them: no proxy is named in them.
_NAMED_SERVERS = frozenset({b"x-forwarded-host", b"x-gradio-server"})
# The form of a refusal follows Accept; its language follows the cookie of the language switch and Accept-Language.
_NOT_CACHED = {"Cache-Control": "no-store", "Vary": "Accept, Accept-Language, Cookie"}


class QueueSessions:
    """Maps sessions to principals. Pages choose their session ids, which can be guessed: the first user owns one."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}  # oldest first
        self._lock = threading.Lock()

    def belongs_to(self, session: str, principal: Principal | None) -> bool:
        """Claims an unowned session. Without access control, all users are the same principal."""
        if len(session) > MAX_SESSION_CHARACTERS:
            return False
        asking = "" if principal is None else f"{principal.name}/{principal.key_id or ''}"
        with self._lock:
            owner = self._owners.pop(session, asking)
            self._owners[session] = owner
            if len(self._owners) > KEPT_SESSIONS:
                del self._owners[next(iter(self._owners))]
        return owner == asking

    def owner_of(self, session: str) -> str:
        """The name of the user whose session this is; "" if it is unknown."""
        with self._lock:
            return self._owners.get(session, "").partition("/")[0]


class GradioGuard:
    """Middleware of Gradio's application only; routes of the API do not pass it."""

    def __init__(self, app: ASGIApp, *, pages: Collection[str], sessions: QueueSessions, queue: FairQueue) -> None:
        self._app = app
        self._queue = queue
        self._pages = frozenset({"/", *(f"/{page.strip('/')}" for page in pages)})
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "headers": [each for each in scope["headers"] if each[0] not in _NAMED_SERVERS]}
        if not self._is_served(scope["path"]) or not self._is_own_queue(scope):
            await _refuse(scope, receive, send)
        elif scope["path"] in _MAX_BODY_BYTES:
            body = await _whole_body(receive, at_most=_MAX_BODY_BYTES[scope["path"]])
            if body is None:
                await _too_long()(scope, receive, send)
                return
            if not self._is_own_body(body, scope):
                await _refuse(scope, receive, send)
                return
            if scope["path"] == _JOIN:
                await self._join(body, scope, receive, send)
            else:
                await self._app(scope, _again(body, receive), _without_cors(send))
        else:
            await self._app(scope, receive, _without_cors(send))

    async def _join(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Without access control everybody is the operator, who is not limited."""
        principal = _principal_of(scope)
        name = "" if principal is None else principal.name
        if principal is not None and not principal.is_operator and not self._queue.has_room(name):
            await _too_many()(scope, receive, send)
            return
        with self._queue.joining(name):
            await self._app(scope, _again(body, receive), _without_cors(send))

    def _is_served(self, path: str) -> bool:
        is_page = (path.rstrip("/") or "/") in self._pages
        return is_page or path in _ROUTES | _QUEUE_ROUTES | {_IS_BACK} or path.startswith((*SHARED_FILES, _HEARTBEAT))

    def _is_own_queue(self, scope: Scope) -> bool:
        """Gradio takes the last of several sessions, so a request may name only one."""
        path, principal = scope["path"], _principal_of(scope)
        if path == _QUEUE:
            sessions = QueryParams(scope["query_string"]).getlist("session_hash")
            return len(sessions) <= 1 and all(self._sessions.belongs_to(each, principal) for each in sessions)
        if path.startswith(_HEARTBEAT):
            return self._sessions.belongs_to(path.removeprefix(_HEARTBEAT), principal)
        return True

    def _is_own_body(self, body: bytes, scope: Scope) -> bool:
        """Whether the body names a session of this principal. A body without a session is refused."""
        try:
            session = json.loads(body)["session_hash"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return False
        return isinstance(session, str) and self._sessions.belongs_to(session, _principal_of(scope))


def _principal_of(scope: Scope) -> Principal | None:
    principal: Principal | None = scope.get("state", {}).get("principal")
    return principal


async def _whole_body(receive: Receive, *, at_most: int) -> bytes | None:
    """Reads the body; None if it has more than `at_most` bytes."""
    body = bytearray()
    while len(body) <= at_most:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body) if len(body) <= at_most else None
    return None


def _again(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def receive_again() -> Message:
        return {"type": "http.request", "body": waiting.pop()} if waiting else await receive()

    return receive_again


def _without_cors(send: Send) -> Send:
    """Removes CORS headers: Gradio allows every origin unless the host is a loopback address."""

    async def send_without(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name in [each for each in headers if each.startswith(_CORS)]:
                del headers[name]
        await send(message)

    return send_without


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers 404: a page for a person whose browser opens an address, a problem for everything else."""
    is_person = scope["method"] in ("GET", "HEAD") and "text/html" in Headers(scope=scope).get("accept", "").lower()
    answer = HTMLResponse(render_missing_page(), 404, _NOT_CACHED) if is_person else _refusal()
    await answer(scope, receive, send)


def _refusal() -> JSONResponse:
    """In the language of the request."""
    detail = _("There is no page, file or action at this path. The pages start at /; /docs describes the API.")
    return _problem(404, "Not Found", detail)


def _too_long() -> JSONResponse:
    return _problem(413, "Content Too Large", _("The fields of this page hold more than 4 MB. Shorten them."))


def _too_many() -> JSONResponse:
    answer = _problem(429, "Too Many Requests", f"At most {MAX_OF_USER} actions of one user run or wait at a time.")
    answer.headers["Retry-After"] = "1"
    return answer


def _problem(status: int, title: str, detail: str) -> JSONResponse:
    problem = {"title": title, "status": status, "detail": detail}
    return JSONResponse(problem, status, _NOT_CACHED, media_type="application/problem+json")
