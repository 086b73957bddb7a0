"""How long a thread keeps Python's interpreter from the others."""

from __future__ import annotations

import sys

_TURN_S = 50e-6  # an operation of a model on a CPU takes some hundred microseconds


def take_short_turns() -> None:
    """For a process that computes beside other work: a model asks for the interpreter after each of its operations, and
    would wait 5 ms each time that a thread reads a document."""
    sys.setswitchinterval(_TURN_S)
