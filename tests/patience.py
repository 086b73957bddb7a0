"""How tests wait: for minutes, since a machine may be slow or busy, and for something that has a name.

No test measures seconds: what never happens fails by name here, and what never ends in pytest's own limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 240.0

T = TypeVar("T")


def wait_until(
    holds: Callable[[], T], *, told: Callable[[], object] = str, timeout_s: float = PATIENCE_S, every_s: float = 0.02
) -> T:
    """What `holds` returns once that is true. Raises AssertionError with what `told` returns."""
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"It did not happen within {timeout_s:g} s: {told()}"
        time.sleep(every_s)
    return found
