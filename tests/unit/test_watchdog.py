"""What waits for a pipe is ended from outside, and says why."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import pytest
from patience import wait_until

from ingest.readers.watchdog import Watchdog

ASKED_BY: ContextVar[str] = ContextVar("asked_by", default="nobody")


class TooLateError(Exception):
    pass


@contextmanager
def piped() -> Iterator[tuple[Watchdog, int]]:
    """The watchdog closes the writing end, as the death of a child does, and the one who reads gets nothing."""
    reads, writes = os.pipe()
    watchdog = Watchdog(lambda: os.close(writes), name="watchdog of a test")
    try:
        yield watchdog, reads
    finally:
        watchdog.end()
        os.close(reads)
        with suppress(OSError):
            os.close(writes)


def read(descriptor: int) -> None:
    if not os.read(descriptor, 1):
        raise EOFError


def later(seconds: float) -> float:
    return time.monotonic() + seconds


def refuse_after(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TooLateError


def test_a_read_that_waits_too_long_ends_with_the_reason() -> None:
    with piped() as (watchdog, reads):
        deadline = later(0.2)
        with pytest.raises(TooLateError), watchdog.watching(lambda: refuse_after(deadline)):
            read(reads)


def test_one_that_got_its_answer_while_it_was_ended_hears_of_it() -> None:
    with piped() as (watchdog, _):
        deadline = later(0.1)
        with pytest.raises(TooLateError), watchdog.watching(lambda: refuse_after(deadline)):
            time.sleep(0.3)


def test_what_is_refused_at_once_is_not_begun() -> None:
    with piped() as (watchdog, _):
        begun = False
        with pytest.raises(TooLateError), watchdog.watching(lambda: refuse_after(0)):
            begun = True
        assert not begun


def test_waits_of_their_own_are_watched_one_after_the_other() -> None:
    with piped() as (watchdog, reads):
        for pause in (0.0, 0.0, 0.2, 0.0):  # after a longer one it sleeps
            with watchdog.watching(lambda: None):
                pass
            time.sleep(pause)
        looks = 0

        def look() -> None:
            nonlocal looks
            looks += 1

        with watchdog.watching(look):
            wait_until(lambda: looks > 2)
        seen = looks
        time.sleep(0.2)
        assert looks == seen  # nobody waits any more
        deadline = later(0.1)
        with pytest.raises(TooLateError), watchdog.watching(lambda: refuse_after(deadline)):
            read(reads)


def test_an_error_of_the_block_is_its_own() -> None:
    with piped() as (watchdog, _), pytest.raises(ZeroDivisionError), watchdog.watching(lambda: None):
        raise ZeroDivisionError


def test_looks_are_in_the_context_of_who_waits() -> None:
    seen: set[tuple[str, bool]] = set()
    caller = threading.get_ident()

    def look() -> None:
        seen.add((ASKED_BY.get(), threading.get_ident() == caller))

    ASKED_BY.set("a job")
    with piped() as (watchdog, _), watchdog.watching(look):
        wait_until(lambda: len(seen) == 2)
    assert seen == {("a job", True), ("a job", False)}
