"""Port: instrumentation of stage times and cache hits, with a silent implementation, so that the core does not
depend on Prometheus or OpenTelemetry.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Observer(Protocol):
    """Receives measurements: times of stages, and cache hits. `stage` and `name` are fixed names in the code, never
    user input: each value creates a metric series."""

    def stage(self, stage: str) -> AbstractContextManager[None]: ...
    def looked_up(self, name: str, *, is_hit: bool) -> None:
        """Counts a cache lookup."""
        ...


class SilentObserver:
    def stage(self, stage: str) -> AbstractContextManager[None]:
        return nullcontext()

    def looked_up(self, name: str, *, is_hit: bool) -> None:
        pass


SILENT = SilentObserver()
