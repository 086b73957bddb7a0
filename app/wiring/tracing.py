"""OpenTelemetry spans, exported to OTEL_EXPORTER_OTLP_ENDPOINT. Without that variable there are no spans."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from app.errors import ConflictError
from app.runtime.tracing import NO_SPANS, Spans, TraceSpan
from app.settings import is_tracing_wanted

_SEND = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


def open_spans(service: str) -> Spans:
    """The spans; `NO_SPANS` if tracing is off. Raises ConflictError if it is on and the extra `otel` is missing."""
    if not is_tracing_wanted():
        return NO_SPANS
    try:
        return _OpenTelemetrySpans(service)
    except ModuleNotFoundError as error:
        raise ConflictError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but {error.name} is not installed: "
            "pip install 'gircse-search[otel]', or unset it."
        ) from None


class _OpenTelemetrySpans:
    """Uses its own tracer provider, so that it does not affect the global one of the process."""

    def __init__(self, service: str) -> None:
        self._api = importlib.import_module("opentelemetry.trace")
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        context = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
        self._context = context.TraceContextTextMapPropagator()
        attributes = {"service.name": service, "service.version": version("gircse-search")}
        # OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME override these.
        resource = resources.Resource(attributes).merge(resources.OTELResourceDetector().detect())
        self._provider: Any = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = importlib.import_module(_SEND).OTLPSpanExporter()
        self._provider.add_span_processor(export.BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("gircse")

    def close(self) -> None:
        self._provider.shutdown()

    @contextmanager
    def span(self, name: str, *, headers: Mapping[str, str] | None = None) -> Iterator[TraceSpan]:
        parent = self._context.extract(dict(headers)) if headers is not None else None
        kind = self._api.SpanKind.INTERNAL if headers is None else self._api.SpanKind.SERVER
        # Error messages may quote documents or queries, so they must not go into traces.
        with self._tracer.start_as_current_span(
            name, context=parent, kind=kind, record_exception=False, set_status_on_exception=False
        ) as started:
            try:
                yield _OpenTelemetrySpan(started)
            except BaseException as error:
                started.set_status(self._api.StatusCode.ERROR, type(error).__name__)
                raise


class _OpenTelemetrySpan:
    def __init__(self, span: Any) -> None:
        self._span = span

    def note(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)
