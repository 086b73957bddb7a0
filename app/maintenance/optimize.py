"""Makes the engine optimize an index and waits for the end. Searches and writes continue meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.errors import VectorIndexUnavailableError
from app.ports.parts import VectorIndex
from app.types.documents import IndexStatus

_ATTEMPTS = 3
_PATIENCE_S = 3.0  # how long to wait for the engine to begin


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    before: IndexStatus
    after: IndexStatus
    seconds: float


def optimize_index(
    index: VectorIndex,
    name: str,
    *,
    on_progress: Callable[[IndexStatus], None] = lambda condition: None,
    poll_interval_s: float = 0.5,
) -> OptimizeReport:
    """Optimize an index and wait. `on_progress` receives its state at every poll.

    If the engine restarts meanwhile, the request is repeated, up to `_ATTEMPTS` times. Raises
    VectorIndexUnavailableError.
    """
    before, started = index.condition(name), time.monotonic()
    for _ in range(_ATTEMPTS):
        index.optimize(name)
        after = _wait(index, name, on_progress, poll_interval_s)
        if after.fault is not None:
            raise VectorIndexUnavailableError(
                f"The vector index could not optimize {name!r}: {after.fault}. The collection is unchanged."
            )
        if not after.awaits_optimizing:
            return OptimizeReport(before, after, time.monotonic() - started)
    raise VectorIndexUnavailableError(
        f"The vector index ended {_ATTEMPTS} times while it optimized {name!r}. The collection is unchanged. Check the "
        "engine's log, then run this again."
    )


def _wait(
    index: VectorIndex, name: str, on_progress: Callable[[IndexStatus], None], poll_interval_s: float
) -> IndexStatus:
    """Poll until optimizing has ended or failed, or the engine has not begun within `_PATIENCE_S`."""
    at_work = time.monotonic()
    while True:
        condition = index.condition(name)
        on_progress(condition)
        if condition.activity is not None:
            at_work = time.monotonic()
        elif not condition.awaits_optimizing or time.monotonic() - at_work > _PATIENCE_S:
            return condition
        time.sleep(poll_interval_s)
