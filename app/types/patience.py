"""Whether a user waits for the current call. If so, the call waits only a few seconds for locks, then fails."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_FAILED_S = 5.0


class Request:
    """A request of a user. Once a wait for a lock has timed out, its further waits time out at once for _FAILED_S."""

    def __init__(self) -> None:
        self._failed_at = -_FAILED_S

    def note_failure(self) -> None:
        self._failed_at = time.monotonic()

    @property
    def has_just_failed(self) -> bool:
        return time.monotonic() - self._failed_at < _FAILED_S


_current: ContextVar[Request | None] = ContextVar("gircse_request", default=None)


def current_request() -> Request | None:
    """The request that this code serves; None in background work and in commands."""
    return _current.get()


@contextmanager
def answering() -> Iterator[None]:
    """Marks the block as serving one request of a user. Tasks started inside inherit the mark; threads only if they run
    in a copy of the context."""
    with _current_is(Request()):
        yield


@contextmanager
def hardly_waiting() -> Iterator[None]:
    """For writes that the response does not need: they hardly wait for locks. Other waits of the request are
    unaffected."""
    hurried = Request()
    hurried.note_failure()
    with _current_is(hurried):
        yield


@contextmanager
def waiting_long() -> Iterator[None]:
    """For writes that must not fail: they wait for locks as long as background work, although a user waits."""
    with _current_is(None):
        yield


@contextmanager
def _current_is(request: Request | None) -> Iterator[None]:
    token = _current.set(request)
    try:
        yield
    finally:
        _current.reset(token)
