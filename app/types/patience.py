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
    token = _current.set(Request())
    try:
        yield
    finally:
        _current.reset(token)
