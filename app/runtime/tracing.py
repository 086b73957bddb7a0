"""The port for trace spans, and an implementation that does nothing; app/wiring/tracing.py has OpenTelemetry's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class TraceSpan(Protocol):
    def note(self, name: str, value: str | int) -> None: ...


class Spans(Protocol):
    def span(self, name: str, *, headers: Mapping[str, str] | None = None) -> AbstractContextManager[TraceSpan]:
        """Starts a span. headers: of a request; they may name the trace that the span belongs to."""
        ...

    def close(self) -> None:
        """Sends all unsent spans."""
        ...


class SilentSpan:
    def note(self, name: str, value: str | int) -> None:
        pass


class SilentSpans:
    def span(self, name: str, *, headers: Mapping[str, str] | None = None) -> AbstractContextManager[TraceSpan]:
        return nullcontext(_SILENT)

    def close(self) -> None:
        pass


_SILENT = SilentSpan()
NO_SPANS = SilentSpans()
