"""Ctrl-C and SIGTERM while a run trains: a step is not left half done, and what was trained is kept."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_TOLD = b"\nStopping after the step under way; once more stops at once, and the last checkpoint stays.\n"


class StopRequest:
    """signal: the one that came; None while none has."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def check(self) -> None:
        """Ends the run as Ctrl-C does, where a signal has come."""
        if self.signal == signal.SIGTERM:
            sys.exit(128 + signal.SIGTERM)
        if self.signal is not None:
            raise KeyboardInterrupt

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            self.signal = number
            self.check()
        self.signal = number
        os.write(2, _TOLD)  # sys.stderr may be in the midst of a write


@contextmanager
def stop_requests(*, is_alone: bool) -> Iterator[StopRequest]:
    """is_alone: one process trains. Of several, none could save while others wait for it: signals do what they always
    do, as outside the main thread."""
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
