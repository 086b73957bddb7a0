"""Turns of the threads that write to SQLite."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from patience import PATIENCE_S, wait_until

from app.catalog import lock_waits
from app.catalog.lock_waits import Turns


class InterruptedWaitError(BaseException):
    """What Ctrl-C raises in a thread that waits."""


@contextmanager
def interrupted_by(number: signal.Signals) -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise InterruptedWaitError

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("fair_s", [0.0, PATIENCE_S], ids=["given to the first", "taken by anyone"])
def test_an_interrupted_thread_keeps_no_turn_from_those_behind_it(
    fair_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_waits, "_FAIR_S", fair_s)
    turns, main = Turns(), threading.main_thread().ident
    assert main is not None
    is_taken, has_ended = threading.Event(), threading.Event()

    def hold() -> None:
        with turns.turn():
            is_taken.set()
            assert has_ended.wait(PATIENCE_S)

    def follow() -> str:
        wait_until(lambda: len(turns._waiting) == 1)
        with turns.turn():
            return "had its turn"

    def interrupt() -> None:
        wait_until(lambda: len(turns._waiting) == 2)
        signal.pthread_kill(main, signal.SIGUSR1)

    with ThreadPoolExecutor(3) as threads, interrupted_by(signal.SIGUSR1):
        holder = threads.submit(hold)
        assert is_taken.wait(PATIENCE_S)
        following, interrupting = threads.submit(follow), threads.submit(interrupt)
        try:
            with pytest.raises(InterruptedWaitError), turns.turn():
                pytest.fail("The turn is taken.")
        finally:
            has_ended.set()
        interrupting.result()
        holder.result()
        assert following.result() == "had its turn"
    with turns.turn():
        assert not turns._waiting
