"""Limits the requests in flight per request class. A few more wait briefly; the rest get status 429.

In an unbounded queue waiting times would grow until clients give up.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.hashing import digest
from app.api.access import client_address, credential_of
from app.api.bodies import GRACE_S
from app.api.fair_slots import KNOWN_CLIENTS, FairSlots, SlotLimits
from app.api.problems import answer_error
from app.runtime.metrics import ProcessMetrics
from app.settings import Settings
from embedder.lru import LRUCache
from embedder.server.networks import network_of

SEARCHES, TEXTS, ANSWERS, OTHERS, STREAMS = "searches", "texts", "answers", "others", "streams"
# Requests that use the model or the index.
SEARCH_PATHS = frozenset(
    {
        "/api/v1/search",
        "/api/v1/refine",
        "/api/v1/refine/words",
        "/api/v1/lenses/proposals",
        "/mcp",
    }
)
# Requests that use the model for many texts of their own, up to minutes. In the class of searches, one of them would
# have all searches refused meanwhile; in its own, the model interrupts it for a search.
TEXT_PATHS = frozenset({"/v1/embeddings", "/v1/rerank", "/v2/rerank", "/rerank"})
_TUNING = re.compile("/api/v1/collections/[^/]*/weights")  # a search for each of 200 judged queries
ANSWER_PATHS = frozenset({"/api/v1/answer"})  # they take as long as a language model writes
# Pages have a queue of their own; monitoring and logins are never refused.
API_FOLDERS = ("/api/", "/v1/", "/v2/", "/rerank")
_BURST_FACTOR = 3
_OTHERS_WAITING_FACTOR, _OTHERS_WAIT_S = 4, 5.0
# Event streams last for minutes. They hold no thread, but each looks at its job and its rights every second.
_STREAMS, _STREAMS_OF_CLIENT, _STREAMS_RETRY_S = 256, 32, 5.0
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})  # no such route reads a body
_SHORT_BYTES = 64 * 1024
_SPARE_THREADS = 24  # for authentication, health and pages


class Admission:
    """Middleware that gives each request a slot of its class once its body has arrived: slow clients hold no slot.

    Mount it before authentication, which costs more than a refusal. So a client is the user whose key or session was
    right before, and otherwise the network of the address.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings, metrics: ProcessMetrics) -> None:
        self._app = app
        limits = limits_of(settings)
        self._classes = {name: _slots_of(name, limit, metrics) for name, limit in limits.items()}
        self._users: LRUCache[str, str] = LRUCache(KNOWN_CLIENTS)  # by digest of a key or session that was right
        self._threads = sum(limit.at_once for name, limit in limits.items() if name != STREAMS) + _SPARE_THREADS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            limiter = anyio.to_thread.current_default_thread_limiter()
            limiter.total_tokens = max(limiter.total_tokens, self._threads)
        name = request_class_of(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if name is None:
            await self._app(scope, receive, send)
            return
        slots, headers = self._classes[name], Headers(scope=scope)
        credential = digest(credential_of(headers) or "")
        address = client_address(scope)
        client = self._users.get(credential) or network_of(address) or address
        if slots.refuses(client):
            await refusal(scope["path"], name, slots.limits)(scope, receive, send)
            return
        slot = _Slot(slots, client, receive, send)
        async with slot.ending():
            is_whole = scope["method"] in _WITHOUT_BODY or not has_body(headers)
            if not is_whole and is_short(headers):
                is_whole = await slot.read_ahead()
            if not is_whole or await slot.enter():
                await self._app(scope, slot.receive, slot.send)
        if slot.is_refused:
            await refusal(scope["path"], name, slots.limits)(scope, receive, send)
        principal = scope.get("state", {}).get("principal")
        if principal is not None and not principal.is_operator:
            self._users.keep({credential: f"user {principal.name}"})


class _RefusedError(Exception):
    """Raised from `receive` to abort the application while it reads the body of a refused request."""


class _Slot:
    """The slot of one request. `receive` takes it with the last piece of the body. Some routes do not read the body, so
    a short one is read before them.
    """

    def __init__(self, slots: FairSlots, client: str, receive: Receive, send: Send) -> None:
        self._slots = slots
        self._client = client
        self._receive = receive
        self._send = send
        self._is_in = False
        self._ahead: deque[Message] = deque()
        self.is_refused = False

    @asynccontextmanager
    async def ending(self) -> AsyncIterator[None]:
        try:
            yield
        except _RefusedError:
            pass
        finally:
            if self._is_in:
                self._slots.release(self._client)

    async def enter(self) -> bool:
        self._is_in = await self._slots.acquire(self._client)
        self.is_refused = not self._is_in
        return self._is_in

    async def read_ahead(self) -> bool:
        """Read the body, at most _SHORT_BYTES of it. Returns whether it is complete; otherwise `BodyGuard`, which the
        application has, waits for the rest.
        """
        count = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while count <= _SHORT_BYTES:
                    message = await self._receive()
                    self._ahead.append(message)
                    count += len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return True
        return False

    async def receive(self) -> Message:
        message = self._ahead.popleft() if self._ahead else await self._receive()
        is_whole = message["type"] == "http.request" and not message.get("more_body", False)
        if is_whole and not self._is_in and not await self.enter():
            raise _RefusedError
        return message

    async def send(self, message: Message) -> None:
        if not self.is_refused:  # otherwise the route already built an error response; drop it
            await self._send(message)


def _slots_of(name: str, limits: SlotLimits, metrics: ProcessMetrics) -> FairSlots:
    slots = FairSlots(limits, on_refused=partial(metrics.refused, name))
    metrics.request_class(name, waiting=lambda: slots.waiting, in_flight=lambda: slots.in_flight)
    return slots


def limits_of(settings: Settings) -> dict[str, SlotLimits]:
    """The limits of each request class.

    By default one search at a time with a model in this process, one per two cores with an embedding server: a search
    uses that server and this process in turn, and on few cores more concurrency adds latency, not throughput.
    """
    cores = core_count()
    searches = settings.searches_at_once or (1 if settings.embedder_url is None else max(1, cores // 2))
    answers = searches + settings.answers_at_once
    others = settings.requests_at_once or max(16, 2 * cores)
    wait_s, waiting, burst = settings.search_wait_s, max(1, searches // 2), _BURST_FACTOR * searches
    others_waiting = _OTHERS_WAITING_FACTOR * others
    # Texts, answers and pages to fetch may take minutes, so one client leaves slots of them for others.
    return {
        SEARCHES: SlotLimits(searches, waiting, burst, wait_s),
        TEXTS: SlotLimits(searches + 1, waiting, burst, wait_s, of_client=searches),
        ANSWERS: SlotLimits(answers + 1, answers, _BURST_FACTOR * answers, wait_s, of_client=answers),
        OTHERS: SlotLimits(others, others_waiting, others_waiting, _OTHERS_WAIT_S, of_client=max(1, others * 3 // 4)),
        STREAMS: SlotLimits(_STREAMS, 0, 0, _STREAMS_RETRY_S, of_client=_STREAMS_OF_CLIENT),
    }


def request_class_of(method: str, path: str) -> str | None:
    if path in SEARCH_PATHS and method == "POST":
        return SEARCHES
    if method == "POST" and (path in TEXT_PATHS or _TUNING.fullmatch(path)):
        return TEXTS
    if path in ANSWER_PATHS and method == "POST":
        return ANSWERS
    if path == "/mcp":
        return STREAMS if method == "GET" else None
    if not path.startswith(API_FOLDERS):
        return None
    return STREAMS if path.endswith("/events") else OTHERS


def has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def is_short(headers: Headers) -> bool:
    """Whether the body may be short: its length is unknown or small."""
    declared = headers.get("content-length", "0")
    return not declared.isdecimal() or int(declared[:20]) <= _SHORT_BYTES


def refusal(path: str, request_class: str, limits: SlotLimits) -> Response:
    after_s = max(1, math.ceil(limits.wait_s or 0))
    detail = f"Too many concurrent requests ({request_class}). Retry in {after_s} s."
    response = answer_error(path, 429, detail, code="overloaded")
    response.headers["Retry-After"] = str(after_s)
    return response


def core_count(quota_file: Path = _CPU_QUOTA) -> int:
    """The number of cores that this process may use, at least 1.

    Respects CPU affinity and, in a container, the cgroup's CPU quota (rounded up).
    """
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        quota, period = quota_file.read_text("ascii").split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no Linux, or "max"
        return cores
