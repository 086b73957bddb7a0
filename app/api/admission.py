"""Bounds the requests in flight per request class; a few more wait for a moment, and the rest are answered 429.

In an unbounded queue waiting times would grow until clients have given up.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import openai_problem, problem
from app.runtime.metrics import Metrics
from app.settings import Settings

SEARCHES, ANSWERS, OTHERS = "searches", "answers", "others"
# What a model or an index has to work for.
SEARCH_PATHS = frozenset(
    {
        "/api/v1/search",
        "/api/v1/refine",
        "/api/v1/refine/words",
        "/api/v1/lenses/proposals",
        "/v1/embeddings",
        "/v1/rerank",
        "/mcp",
    }
)
ANSWER_PATHS = frozenset({"/api/v1/answer"})  # which last for as long as a language model writes
# Pages have a queue of their own; monitoring and logins are never refused.
API_FOLDERS = ("/api/", "/v1/")
_BURST_FACTOR = 3
_OTHERS_WAITING_FACTOR, _OTHERS_WAIT_S = 4, 5.0
# Of the last requests, about 1 / weight of them. At twice the load 0.6 are refused, at two thirds of it 0.05.
_REFUSED_WEIGHT, _REFUSED_MANY = 0.05, 0.3
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_SPARE_THREADS = 24  # for authentication, health and pages


@dataclass(frozen=True, slots=True)
class ClassLimits:
    at_once: int
    waiting: int
    burst: int  # so many may wait while only few have been refused lately
    wait_s: float


class BoundedSemaphore:
    """The slots of one request class, and a bounded first-in, first-out queue for them. Of one event loop."""

    def __init__(self, name: str, limits: ClassLimits, metrics: Metrics) -> None:
        self.name = name
        self.limits = limits
        self._metrics = metrics
        self._places = asyncio.Semaphore(limits.at_once)
        self._waiting = self._in_flight = 0
        self._refused_share = 0.0
        metrics.request_class(name, waiting=lambda: self._waiting, in_flight=lambda: self._in_flight)

    def refuses(self) -> bool:
        """Whether there is no room for one more, which then counts as refused.

        A burst may wait. Where many are refused all the same, a long queue is always full and only adds delay.
        """
        most = self.limits.waiting if self._refused_share > _REFUSED_MANY else self.limits.burst
        is_full = self._places.locked() and self._waiting >= most
        if is_full:
            self._note(is_refused=True)
        return is_full

    async def acquire(self) -> bool:
        """Whether the request may go on; then `release` must follow."""
        if self.refuses():
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(self.limits.wait_s):
                await self._places.acquire()
        except TimeoutError:
            self._note(is_refused=True)
            return False
        finally:
            self._waiting -= 1
        self._in_flight += 1
        self._note(is_refused=False)
        return True

    def release(self) -> None:
        self._in_flight -= 1
        self._places.release()

    def _note(self, *, is_refused: bool) -> None:
        self._refused_share += _REFUSED_WEIGHT * (is_refused - self._refused_share)
        if is_refused:
            self._metrics.refused(self.name)


class Admission:
    """A request takes a slot once its body is there, so that a slow client holds none.

    To be mounted before authentication, which costs more than a refusal.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        limits = limits_of(settings)
        self._classes = {name: BoundedSemaphore(name, each, metrics) for name, each in limits.items()}
        self._threads = sum(each.at_once for each in limits.values()) + _SPARE_THREADS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            limiter = anyio.to_thread.current_default_thread_limiter()
            limiter.total_tokens = max(limiter.total_tokens, self._threads)
        name = request_class_of(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if name is None:
            await self._app(scope, receive, send)
            return
        places = self._classes[name]
        if places.refuses():
            await refusal(scope["path"], places)(scope, receive, send)
            return
        slot = _Slot(places, receive, send)
        async with slot.ending():
            if has_body(Headers(scope=scope)) or await slot.enter():
                await self._app(scope, slot.receive, slot.send)
        if slot.is_refused:
            await refusal(scope["path"], places)(scope, receive, send)


class _RefusedError(Exception):
    """Ends whatever was reading the body."""


class _Slot:
    def __init__(self, places: BoundedSemaphore, receive: Receive, send: Send) -> None:
        self._places = places
        self._receive = receive
        self._send = send
        self._is_in = False
        self.is_refused = False

    @asynccontextmanager
    async def ending(self) -> AsyncIterator[None]:
        try:
            yield
        except _RefusedError:
            pass
        finally:
            if self._is_in:
                self._places.release()

    async def enter(self) -> bool:
        self._is_in = await self._places.acquire()
        self.is_refused = not self._is_in
        return self._is_in

    async def receive(self) -> Message:
        message = await self._receive()
        is_whole = message["type"] == "http.request" and not message.get("more_body", False)
        if is_whole and not self._is_in and not await self.enter():
            raise _RefusedError
        return message

    async def send(self, message: Message) -> None:
        if not self.is_refused:  # else a route has made an answer of its own of what it was told
            await self._send(message)


def limits_of(settings: Settings) -> dict[str, ClassLimits]:
    """A model in this process computes one search at a time; a server of its own, one for every two cores.

    A search works there and here in turn: more at once on few cores answer no more of them, only each later.
    """
    cores = core_count()
    searches = settings.searches_at_once or (1 if settings.embedder_url is None else max(1, cores // 2))
    answers = searches + settings.answers_at_once
    others = settings.requests_at_once or max(16, 2 * cores)
    return {
        SEARCHES: ClassLimits(searches, max(1, searches // 2), _BURST_FACTOR * searches, settings.search_wait_s),
        ANSWERS: ClassLimits(answers, answers, _BURST_FACTOR * answers, settings.search_wait_s),
        OTHERS: ClassLimits(others, _OTHERS_WAITING_FACTOR * others, _OTHERS_WAITING_FACTOR * others, _OTHERS_WAIT_S),
    }


def request_class_of(method: str, path: str) -> str | None:
    if path in SEARCH_PATHS and method == "POST":
        return SEARCHES
    if path in ANSWER_PATHS and method == "POST":
        return ANSWERS
    if not path.startswith(API_FOLDERS) or path.endswith("/events"):  # which last for as long as a job does
        return None
    return OTHERS


def has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def refusal(path: str, places: BoundedSemaphore) -> Response:
    after_s = max(1, math.ceil(places.limits.wait_s))
    detail = f"Too much is asked at once: all places for {places.name} are taken. Ask again after {after_s} s."
    if path.startswith("/v1/"):  # as clients of OpenAI expect it
        response = openai_problem(429, detail, kind="rate_limit_error", code="overloaded")
    else:
        response = problem(429, detail)
    response.headers["Retry-After"] = str(after_s)
    return response


def core_count(quota_file: Path = _CPU_QUOTA) -> int:
    """Those that this process may use, where the system tells; a container may use less than its machine has."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        quota, period = quota_file.read_text("ascii").split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no Linux, or "max"
        return cores
