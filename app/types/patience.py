"""Whether a person waits for the current call: it then fails early if something is locked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_FAILED_S = 5.0


class Request:
    """A request of a person. After one wait in vain, its further ones end at once for _FAILED_S."""

    def __init__(self) -> None:
        self._failed_at = -_FAILED_S

    def note_failure(self) -> None:
        self._failed_at = time.monotonic()

    @property
    def has_just_failed(self) -> bool:
        return time.monotonic() - self._failed_at < _FAILED_S


_current: ContextVar[Request | None] = ContextVar("gircse_request", default=None)


def current_request() -> Request | None:
    """None in background work and in commands."""
    return _current.get()


@contextmanager
def answering() -> Iterator[None]:
    """Everything within the block answers one request. Tasks started inside inherit that; threads only if they run in a
    copy of the context."""
    with _current_is(Request()):
        yield


@contextmanager
def hardly_waiting() -> Iterator[None]:
    """For a write that the answer does not need: its waits end almost at once, and those of the request stay."""
    hurried = Request()
    hurried.note_failure()
    with _current_is(hurried):
        yield


@contextmanager
def waiting_long() -> Iterator[None]:
    """For a write that must not fail though a person waits for it: it waits as long as background work."""
    with _current_is(None):
        yield


@contextmanager
def _current_is(request: Request | None) -> Iterator[None]:
    token = _current.set(request)
    try:
        yield
    finally:
        _current.reset(token)
