"""Python's switch interval: how long a thread may hold the GIL while another one waits for it."""

from __future__ import annotations

import sys

_INTERVAL_S = 50e-6  # an operation of a model on a CPU takes some hundred microseconds


def set_switch_interval() -> None:
    """Shortens the switch interval, for a process that runs a model beside other threads.

    The model needs the GIL after each of its operations. With Python's default it would wait 5 ms each time that
    another thread, which parses a document for instance, holds it.
    """
    sys.setswitchinterval(_INTERVAL_S)
