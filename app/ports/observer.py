"""Instrumentation: how long stages take, and which cache lookups hit. A port and its
silent form, so that the core knows neither Prometheus nor OpenTelemetry.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Observer(Protocol):
    """`stage` and `name` are words of this program, never of its users: every one makes a series of its own."""

    def stage(self, stage: str) -> AbstractContextManager[None]: ...
    def looked_up(self, name: str, *, is_hit: bool) -> None:
        """In a cache."""
        ...


class SilentObserver:
    def stage(self, stage: str) -> AbstractContextManager[None]:
        return nullcontext()

    def looked_up(self, name: str, *, is_hit: bool) -> None:
        pass


SILENT = SilentObserver()
