"""What the operator sees of the service: request ids, a log that cannot be forged, metrics without secrets."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_application import api_of
from fastapi import HTTPException
from fastapi.testclient import TestClient
from patience import PATIENCE_S
from prometheus_client.parser import text_string_to_metric_families

from app.errors import CatalogUnavailableError
from app.runtime import metrics_server
from app.runtime.logs import JsonFormatter, LineFormatter, begin_request, fields, set_up_logging
from app.runtime.metrics import ProcessMetrics
from app.runtime.metrics_server import serving_metrics
from app.runtime.worker_lock import WorkerLock, is_worker_running
from app.settings import load_log_settings
from app.testing import text_source

SECRET = "the-colour-of-the-vault"
HARMLESS = "req-0.9_A"


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    return client_of(toy_services)


@pytest.fixture(scope="module")
def lasting_client(lasting_services: Any) -> TestClient:
    """For whom nothing is counted."""
    return client_of(lasting_services)


def client_of(application: Any) -> TestClient:
    application.add("The cat sleeps on the sofa.")
    api = api_of(application.services)

    @api.get("/broken/{name}")
    def broken(name: str) -> None:
        raise RuntimeError(f"no {name}\n2026-01-01 CRITICAL forged: line")

    return TestClient(api, raise_server_exceptions=False)


@pytest.fixture
def log() -> Iterator[Callable[..., str]]:
    """What the log holds by now, in the format that was last asked for."""
    kept = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()

    def begin_or_read(log_format: Any = None) -> str:
        if log_format:
            logging.getLogger().handlers.clear()
            set_up_logging(log_format, "INFO", stream=stream)
        return stream.getvalue()

    yield begin_or_read
    logging.basicConfig(handlers=kept[0], level=kept[1], force=True)
    for name in ("app", "embedder", "ingest", "ui"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, tuple(sorted(labels.items()))]


class TestRequestIds:
    @pytest.mark.parametrize("path", ["/healthz", "/nowhere", "/api/v1/documents/none", "/broken/part"])
    def test_every_answer_has_the_one_it_came_with(self, lasting_client: TestClient, path: str) -> None:
        answer = lasting_client.get(path, headers={"x-request-id": HARMLESS})
        assert answer.headers["x-request-id"] == HARMLESS
        if answer.status_code != 200:
            assert answer.json()["request_id"] == HARMLESS

    @pytest.mark.parametrize("given", ["", "a b", "a\tb", "<script>", "x" * 65, "é".encode("latin-1"), '"', "a;b"])
    def test_a_harmful_one_is_replaced(self, lasting_client: TestClient, given: Any) -> None:
        first, second = (
            lasting_client.get("/healthz", headers={"x-request-id": given}).headers["x-request-id"] for _ in "12"
        )
        assert re.fullmatch("[0-9a-f]{32}", first)
        assert first != second

    def test_the_log_names_it_wherever_the_request_is_answered(
        self, lasting_client: TestClient, log: Callable[..., str]
    ) -> None:
        log("json")
        lasting_client.get("/broken/part", headers={"x-request-id": HARMLESS})
        entries = [json.loads(line) for line in log().splitlines()]
        assert [entry["request_id"] for entry in entries] == [HARMLESS] * len(entries)
        assert {entry["logger"] for entry in entries} == {"app.api.telemetry", "app.api.problems"}


class TestLog:
    def test_a_request_is_told_by_its_route_and_nothing_that_it_carried(
        self, lasting_client: TestClient, log: Callable[..., str]
    ) -> None:
        log("json")
        lasting_client.get(
            f"/api/v1/documents/{SECRET}?q={SECRET}",
            headers={"authorization": f"Bearer {SECRET}", "cookie": f"session={SECRET}"},
        )
        lasting_client.post("/api/v1/search", json={"query": SECRET, "collection": "library"})
        lasting_client.get(f"/{SECRET}?q={SECRET}")
        first, second, third = (json.loads(line) for line in log().splitlines())
        assert (first["method"], first["route"], first["status"]) == ("GET", "/api/v1/documents/{document_id}", 404)
        assert (second["method"], second["route"], second["status"]) == ("POST", "/api/v1/search", 200)
        assert (third["route"], third["status"]) == ("(none)", 404)
        assert second["ms"] > 0
        assert SECRET not in log()

    @pytest.mark.parametrize("control", ["\n", "\r", "\r\n", "\x1b[2J", "\u2028", "\x85", "\0"])
    def test_no_message_makes_a_line_of_its_own(self, control: str) -> None:
        record = logging.makeLogRecord(
            {"name": "app.x", "levelname": "INFO", "msg": "said %s", "args": (f"a{control}2026 CRITICAL b",)}
        )
        for formatter in (LineFormatter(), JsonFormatter()):
            line = formatter.format(record)
            assert len(line.splitlines()) == 1
            assert control not in line

    def test_a_traceback_is_indented_or_a_member(self, lasting_client: TestClient, log: Callable[..., str]) -> None:
        log("text")
        lasting_client.get("/broken/part")
        lines = log().splitlines()
        assert any(line.startswith("    2026-01-01 CRITICAL forged") for line in lines)
        assert not any(line.startswith("2026-01-01") for line in lines)
        log("json")
        lasting_client.get("/broken/part")
        entries = [json.loads(line) for line in log().splitlines() if line.startswith("{")]
        assert any("RuntimeError" in entry.get("traceback", "") for entry in entries)

    def test_a_line_ends_with_its_fields(self) -> None:
        begin_request(HARMLESS)
        record = logging.makeLogRecord({"name": "app.x", "levelname": "INFO", "msg": "done", **fields(count=3)})
        assert LineFormatter().format(record).endswith(f" INFO app.x [{HARMLESS}]: done count=3")

    def test_libraries_are_not_heard_below_warnings(self, log: Callable[..., str]) -> None:
        log("text")
        logging.getLogger("httpx").info("GET http://127.0.0.1/?query=secret")
        logging.getLogger("app.any").info("of ours")
        assert "secret" not in log()
        assert "of ours" in log()

    def test_settings_of_the_log_are_read_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GIRCSE_LOG_FORMAT", "json")
        monkeypatch.setenv("GIRCSE_PORT", "not a port")  # another command's matter
        assert load_log_settings().log_format == "json"


class TestMetrics:
    def test_requests_are_counted_by_route_and_status(self, client: TestClient) -> None:
        for name in ("one", "two"):
            client.get(f"/api/v1/documents/{name}")
        client.get("/nowhere-1")
        client.get("/nowhere-2")
        client.get("/broken/part")
        client.request("BREW", "/healthz")
        text = client.get("/metrics").text
        count = "gircse_request_seconds_count"
        assert value(text, count, method="GET", route="/api/v1/documents/{document_id}", status="404") == 2
        assert value(text, count, method="GET", route="(none)", status="404") == 2
        assert value(text, count, method="GET", route="/broken/{name}", status="500") == 1
        assert {dict(labels).get("method") for _, labels in samples(text)} <= {None, "GET", "OTHER"}

    def test_searches_are_measured_by_stage_and_remembered_queries_counted(self, client: TestClient) -> None:
        for _ in range(2):
            client.post("/api/v1/search", json={"query": SECRET, "collection": "library", "explain": False})
        text = client.get("/metrics").text
        for stage in ("search.total", "search.embed", "search.index"):
            assert value(text, "gircse_stage_seconds_count", stage=stage) == 2
        assert value(text, "gircse_cache_lookups_total", cache="queries", result="miss") == 1
        assert value(text, "gircse_cache_lookups_total", cache="queries", result="hit") == 1
        assert SECRET not in text

    def test_a_stage_that_fails_is_told(self) -> None:
        metrics = ProcessMetrics()
        with pytest.raises(HTTPException), metrics.stage("search.embed"):
            raise HTTPException(503)
        assert value(metrics.render().decode(), "gircse_stage_faults_total", stage="search.embed") == 1

    def test_queue_jobs_and_sizes_are_those_of_the_moment(self, client: TestClient, toy_services: Any) -> None:
        text = client.get("/metrics").text
        assert value(text, "gircse_jobs", state="done") == 1
        assert value(text, "gircse_queue_depth") == 0
        assert value(text, "gircse_queue_age_seconds") == 0
        points = toy_services.index.condition(toy_services.index.indexes()[0]).points
        assert value(text, "gircse_index_points") == points > 0
        assert value(text, "gircse_documents") == 1
        toy_services.services.library.add_document("library", text_source("text://waits", b"Waits."))
        text = client.get("/metrics").text
        assert value(text, "gircse_queue_depth") == 1
        assert value(text, "gircse_queue_age_seconds") > 0

    def test_queue_age_leaves_out_what_waits_by_intent(self, toy_services: Any) -> None:
        toy_services.add("Done.")
        toy_services.services.library.add_document("library", text_source("text://waits", b"Waits."))
        catalog = toy_services.services.catalog
        assert catalog.queue_age() > timedelta(0)
        catalog.pause("library")
        assert catalog.queue_age() == timedelta(0)

    def test_collections_make_no_series_of_their_own(self, client: TestClient, toy_services: Any) -> None:
        before = set(samples(client.get("/metrics").text))
        for number in range(5):
            toy_services.add("Text.", collection=f"collection-{number}")
            client.get(f"/api/v1/collections/collection-{number}")
        client.get("/api/v1/collections/none")
        new = set(samples(client.get("/metrics").text)) - before
        assert {dict(labels)["route"] for _, labels in new} <= {"/metrics", "/api/v1/collections/{name}"}

    def test_a_part_that_is_away_is_told_and_the_rest_is_there(self, toy_services: Any) -> None:
        class AwayCatalog:
            def __getattr__(self, name: str) -> Any:
                return getattr(toy_services.services.catalog, name)

            def job_counts(self, collection: str | None = None) -> None:
                raise CatalogUnavailableError("away")

        services = replace(toy_services.services, catalog=AwayCatalog())
        text = TestClient(api_of(services)).get("/metrics").text
        assert value(text, "gircse_part_up", part="catalog") == 0
        assert value(text, "gircse_part_up", part="index") == 1
        assert "gircse_queue_depth" not in text

    def test_two_applications_share_nothing(self, toy_services_factory: Callable[..., Any]) -> None:
        first, second = (TestClient(api_of(toy_services_factory(name).services)) for name in ("first", "second"))
        first.get("/healthz")
        assert 'route="/healthz"' in first.get("/metrics").text
        assert 'route="/healthz"' not in second.get("/metrics").text

    def test_a_worker_is_seen(self, tmp_path: Path) -> None:
        assert not is_worker_running(tmp_path)
        worker = WorkerLock(tmp_path)
        assert worker.try_take()
        assert is_worker_running(tmp_path)
        worker.release()
        assert not is_worker_running(tmp_path)


def test_worker_shows_metrics_and_whether_it_works() -> None:
    metrics, well = ProcessMetrics(), [True]
    with metrics.stage("ingest.job"), serving_metrics(0, metrics, is_well=lambda: well[0]) as port:
        pass
    with (
        serving_metrics(0, metrics, is_well=lambda: well[0]) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        assert client.get("/healthz").status_code == 200
        assert value(client.get("/metrics").text, "gircse_stage_seconds_count", stage="ingest.job") == 1
        assert client.get("/other").status_code == 404
        well[0] = False
        assert client.get("/healthz").status_code == 503


def test_the_metrics_of_a_worker_are_not_held_by_a_client_that_dawdles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "_TIMEOUT_S", 0.5)
    with (
        metrics_server.serving_metrics(0, ProcessMetrics(), is_well=lambda: True) as port,
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection,
        pytest.raises(ConnectionError),
    ):
        dawdle(connection)


def dawdle(connection: socket.socket) -> None:
    for byte in b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 200:
        connection.sendall(bytes([byte]))
        time.sleep(0.1)
