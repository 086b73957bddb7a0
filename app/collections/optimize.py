"""Has the engine put a stored index in order, and waits until that is done. Searches and writes go on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.errors import VectorIndexUnavailableError
from app.ports.parts import VectorIndex
from app.types.documents import IndexStatus

_ATTEMPTS = 3
_PATIENCE_S = 3.0  # with an engine that has been asked and does not begin


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    before: IndexStatus
    after: IndexStatus
    seconds: float


def optimize_index(
    index: VectorIndex,
    name: str,
    *,
    tell: Callable[[IndexStatus], None] = lambda condition: None,
    poll_interval_s: float = 0.5,
) -> OptimizeReport:
    """`tell` hears at every look how far it is. An engine that ended meanwhile, and came back, is asked again."""
    before, started = index.condition(name), time.monotonic()
    for _ in range(_ATTEMPTS):
        index.optimize(name)
        after = _wait(index, name, tell, poll_interval_s)
        if after.fault is not None:
            raise VectorIndexUnavailableError(
                f"The vector index could not optimise {name!r}: {after.fault}. The collection is as it was."
            )
        if not after.awaits_optimizing:
            return OptimizeReport(before, after, time.monotonic() - started)
    raise VectorIndexUnavailableError(
        f"The vector index was asked {_ATTEMPTS} times to optimise {name!r} and ended before it was done. The "
        "collection is as it was; look into the engine's log, then run this again."
    )


def _wait(index: VectorIndex, name: str, tell: Callable[[IndexStatus], None], poll_interval_s: float) -> IndexStatus:
    """Until it is done, has failed, or does not begin."""
    at_work = time.monotonic()
    while True:
        condition = index.condition(name)
        tell(condition)
        if condition.activity is not None:
            at_work = time.monotonic()
        elif not condition.awaits_optimizing or time.monotonic() - at_work > _PATIENCE_S:
            return condition
        time.sleep(poll_interval_s)
