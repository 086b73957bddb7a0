"""docker-compose.yml does what it says: its services, started in any order, take a document in and find it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from compose_application import ComposeApplication, compose_application

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("compose")]

TEXT = "The lighthouse of Cordouan has shown ships the way into the Gironde since 1611."


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeApplication]:
    """Web and worker started before the database is there, then all the rest."""
    with compose_application(tmp_path_factory.mktemp("compose")) as application:
        for service in ("web", "worker"):
            application.start(service)
        for service in ("web", "worker"):
            application.wait_for_log(service, "Waiting: The catalog")
        application.start_postgres()
        application.start("embedder")
        application.wait_for_log("web", "Ready: ")
        application.wait_for_log("worker", "Working.")
        yield application


def test_a_document_is_taken_in_and_found(application: ComposeApplication) -> None:
    with application.client() as client:
        assert client.post("/api/v1/collections", json={"name": "library"}).is_success
        posted = client.post("/api/v1/documents", json={"text": TEXT, "title": "Cordouan", "collection": "library"})
        assert posted.status_code == 202, posted.text
        job = posted.json()["job"]["id"]
        application.wait(lambda: client.get(f"/api/v1/jobs/{job}").json()["state"] == "done", what="the job")
        found = client.post(
            "/api/v1/search", json={"query": "old beacon at a river mouth", "collection": "library", "explain": False}
        )
        assert found.status_code == 200, found.text
        assert [hit["document"]["title"] for hit in found.json()["hits"]] == ["Cordouan"]


def test_every_part_says_that_it_is_well(application: ComposeApplication) -> None:
    with application.client(headers={}) as client:
        ready = client.get("/readyz")
        assert ready.status_code == 200, ready.text
        assert set(ready.json()["checks"]) >= {"catalog", "index", "embedder"}
    worker = httpx.get(f"http://127.0.0.1:{application.metrics_port}/healthz", trust_env=False)
    assert worker.status_code == 200


def test_files_lie_in_the_shared_home_and_state_in_postgresql(application: ComposeApplication) -> None:
    home = application.folder / "home"
    kept = [path for path in (home / "files").rglob("*") if path.is_file()]
    assert any(path.read_bytes() == TEXT.encode() for path in kept)
    assert not list(home.glob("catalog.db*"))
    assert not (home / "edge").exists()


def test_no_secret_is_in_a_log(application: ComposeApplication) -> None:
    secrets = [path.read_text("ascii") for path in (application.folder / "secrets").iterdir()]
    logs = "".join(application.log(service) for service in application.processes)
    assert not [secret for secret in secrets if secret in logs]


def test_worker_is_back_after_a_kill(application: ComposeApplication, tmp_path: Path) -> None:
    worker = application.processes.pop("worker")
    worker.kill()
    worker.wait()
    with application.client() as client:
        posted = client.post(
            "/api/v1/documents", json={"text": "Eddystone stands off Plymouth.", "collection": "library"}
        )
        application.start("worker")
        job = posted.json()["job"]["id"]
        application.wait(lambda: client.get(f"/api/v1/jobs/{job}").json()["state"] == "done", what="the job")
