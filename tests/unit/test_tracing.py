"""Spans reach a collector over HTTP as OpenTelemetry's protobuf, and nothing is sent where none is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from served import in_thread

from app.runtime.metrics import ProcessMetrics
from app.runtime.tracing import NO_SPANS
from app.search.service import SearchService
from app.wiring.tracing import open_spans

trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
QUERY = "the-colour-of-the-vault"


class Collector:
    """What a collector at `url` has received."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.requests: list[Any] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.paths.append(self.path)
                collector.requests.append(trace_service.ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> dict[str, Any]:
        return {
            span.name: span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    @property
    def services(self) -> set[str]:
        return {
            attribute.value.string_value
            for request in self.requests
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("NO_PROXY", "*")
    with in_thread(collector.server):
        yield collector


def test_a_search_is_one_trace_of_request_embedding_and_index(collector: Collector, toy_services: Any) -> None:
    toy_services.add("The cat sleeps on the sofa.")
    spans = open_spans("gircse")
    metrics, parts = ProcessMetrics(spans=spans), toy_services.services
    search = SearchService(parts.catalog, parts.index, parts.embedder, observer=metrics)
    client = TestClient(api_of(replace(parts, metrics=metrics, search=search)))
    question = {"query": QUERY, "collection": "library", "explain": False}
    client.post("/api/v1/search", json=question, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    with pytest.raises(ZeroDivisionError), metrics.stage("ingest.job"):
        1 / 0  # noqa: B018
    spans.close()

    assert collector.paths == ["/v1/traces"]
    assert collector.services == {"gircse"}
    found = collector.spans
    assert set(found) == {"POST request", "search.total", "search.embed", "search.index", "ingest.job"}
    request, total = found["POST request"], found["search.total"]
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert total.parent_span_id == request.span_id
    assert found["search.embed"].parent_span_id == found["search.index"].parent_span_id == total.span_id
    told = {each.key: each.value.string_value or each.value.int_value for each in request.attributes}
    assert told == {"http.route": "/api/v1/search", "http.response.status_code": 200}
    assert found["ingest.job"].status.message == "ZeroDivisionError"
    assert not any(QUERY in str(sent) for sent in collector.requests)


def test_a_header_that_names_no_trace_begins_one(collector: Collector) -> None:
    spans = open_spans("gircse")
    with spans.span("GET request", headers={"traceparent": "00-nonsense\r\n-01"}):
        pass
    spans.close()
    assert collector.spans["GET request"].parent_span_id == b""


def test_nothing_is_traced_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert open_spans("gircse") is NO_SPANS
