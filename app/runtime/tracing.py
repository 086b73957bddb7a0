"""Spans of a trace, as a port, and its silent form; app/wiring/tracing.py has the one of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Span(Protocol):
    def note(self, name: str, value: str | int) -> None: ...


class Spans(Protocol):
    def span(self, name: str, *, headers: Mapping[str, str] | None = None) -> AbstractContextManager[Span]:
        """`headers` of a request may name the trace that it belongs to."""
        ...

    def close(self) -> None:
        """Sends what is left to send."""
        ...


class SilentSpan:
    def note(self, name: str, value: str | int) -> None:
        pass


class SilentSpans:
    def span(self, name: str, *, headers: Mapping[str, str] | None = None) -> AbstractContextManager[Span]:
        return nullcontext(_SILENT)

    def close(self) -> None:
        pass


_SILENT = SilentSpan()
NO_SPANS = SilentSpans()
