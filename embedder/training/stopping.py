"""Handles Ctrl-C and SIGTERM during training: finishes the current step and keeps the result."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NOTICE = b"\nStopping after the step under way; once more stops at once, and the last checkpoint stays.\n"


class StopRequest:
    """Records a stop signal. signal: the received one, or None."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def check(self) -> None:
        """Ends the run like Ctrl-C, if a signal has come."""
        if self.signal == signal.SIGTERM:
            sys.exit(128 + signal.SIGTERM)
        if self.signal is not None:
            raise KeyboardInterrupt

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            self.signal = number
            self.check()
        self.signal = number
        os.write(2, _NOTICE)  # sys.stderr may be in the middle of a write


@contextmanager
def stop_requests(*, is_alone: bool) -> Iterator[StopRequest]:
    """Catches signals. is_alone: one process trains.

    With several processes, none could save while others wait for it, so signals keep their usual effect; likewise
    outside the main thread.
    """
    request = StopRequest()
    if not is_alone or threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {each: signal.signal(each, request._note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
