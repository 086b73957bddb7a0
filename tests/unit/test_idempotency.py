"""Idempotency-Key at the HTTP interface: done once, answered twice, whatever process answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from locked_catalog import locked
from patience import PATIENCE_S

from app.api.idempotency import answer_once
from app.catalog import SqlCatalog, lock_waits
from app.errors import CatalogUnavailableError, ConflictError, InputError
from app.types.access import Principal, Role, acting_as
from app.types.patience import answering

KEY = {"Idempotency-Key": "0f8fad5b-d9cb-469f-a165-70867728950e"}


def client_of(application: Any) -> TestClient:
    return TestClient(api_of(application.services), raise_server_exceptions=False)


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    toy_services.services.library.ensure_collection("library")
    return client_of(toy_services)


def test_text_sent_twice_gets_one_job_and_one_answer(client: TestClient, toy_services: Any) -> None:
    body = {"text": "Penguins swim."}
    first = client.post("/api/v1/documents", json=body, headers=KEY)
    toy_services.work_off()
    again = client_of(toy_services).post("/api/v1/documents", json=body, headers=KEY)  # as by another process, later
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert again.json()["job"]["state"] == "queued"  # as it was then
    assert again.headers["content-type"] == "application/json"
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    assert len(toy_services.services.catalog.jobs()) == 1


def test_answer_with_a_key_is_the_answer_without_one(client: TestClient) -> None:
    plain = client.post("/api/v1/collections", json={"name": "plain"}).json()
    keyed = client.post("/api/v1/collections", json={"name": "keyed"}, headers=KEY).json()
    assert list(keyed) == list(plain)
    assert keyed == plain | {"name": "keyed"}


def test_upload_is_the_same_whatever_its_form_looks_like(client: TestClient, toy_services: Any) -> None:
    def upload(content: bytes, **fields: str) -> Any:
        return client.post("/api/v1/documents", files={"file": ("a.md", content)}, data=fields, headers=KEY)

    first, again = upload(b"# A"), upload(b"# A")  # each with a boundary of its own
    assert first.request.headers["content-type"] != again.request.headers["content-type"]
    assert again.json() == first.json()
    for other in (upload(b"# B"), upload(b"# A", title="Another")):
        assert other.status_code == 422
        assert "another request" in other.json()["detail"]
    assert len(toy_services.services.catalog.documents()) == 1


def test_key_belongs_to_one_kind_of_request(client: TestClient) -> None:
    assert client.post("/api/v1/documents", json={"text": "x"}, headers=KEY).status_code == 202
    assert client.post("/api/v1/collections", json={"name": "letters"}, headers=KEY).status_code == 422


def test_collection_is_made_once(client: TestClient) -> None:
    made = [client.post("/api/v1/collections", json={"name": "letters"}, headers=KEY) for _ in range(2)]
    assert [each.status_code for each in made] == [201, 201]
    assert client.post("/api/v1/collections", json={"name": "letters"}).status_code == 409


def test_failure_is_not_kept(client: TestClient) -> None:
    body = {"text": "Penguins swim.", "collection": "birds"}
    assert client.post("/api/v1/documents", json=body, headers=KEY).status_code == 404
    client.post("/api/v1/collections", json={"name": "birds"})
    assert client.post("/api/v1/documents", json=body, headers=KEY).status_code == 202


class Operation:
    """An operation with an Idempotency-Key, during which another process locks the catalog."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog
        self.runs = 0
        self._is_free = threading.Event()

    def ask(self, *, error: Exception | None = None, free_in_s: float = PATIENCE_S) -> Any:
        def do() -> str:
            self.runs += 1
            if self.runs == 1:
                self._begin_lock(threads)
                timer.start()
                if error:
                    raise error
            return "done"

        timer = threading.Timer(free_in_s, self._is_free.set)
        try:
            with ThreadPoolExecutor(1) as threads, self._freed_at_end(), answering():
                return answer_once(
                    self._catalog.idempotency, "a key", request_text=lambda: "text", do=do, shape=str, status=200
                )
        finally:
            timer.cancel()

    @contextmanager
    def _freed_at_end(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._is_free.set()

    def _begin_lock(self, threads: ThreadPoolExecutor) -> None:
        is_locked = threading.Event()

        def hold() -> None:
            with locked(self._catalog.database.engine):
                is_locked.set()
                assert self._is_free.wait(PATIENCE_S)

        threads.submit(hold)
        assert is_locked.wait(PATIENCE_S)


@pytest.fixture
def operation(toy_services: Any) -> Operation:
    return Operation(toy_services.services.catalog)


def test_recording_outlasts_a_lock_that_fails_requests(operation: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_waits, "LOCK_S", 0.05)
    for _ in range(2):
        assert operation.ask(free_in_s=1).body == b'"done"'
    assert operation.runs == 1


def test_a_failure_during_a_lock_keeps_no_key(operation: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_waits, "LOCK_S", 0.05)
    with pytest.raises(CatalogUnavailableError, match="is away"):
        operation.ask(error=CatalogUnavailableError("The catalog is away."), free_in_s=1)
    assert operation.ask().body == b'"done"'


def test_a_lock_that_lasts_changes_no_answer(operation: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_waits, "BACKGROUND_S", 0.1)
    assert operation.ask().body == b'"done"'
    with pytest.raises(ConflictError, match="still running"):
        operation.ask()
    assert operation.runs == 1


def test_a_lock_that_lasts_hides_no_error(operation: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_waits, "BACKGROUND_S", 0.1)
    with pytest.raises(InputError, match="too long"):
        operation.ask(error=InputError("The name is too long."))


def test_request_that_is_being_done_is_a_conflict(client: TestClient, toy_services: Any) -> None:
    other = client_of(toy_services)
    statuses = []
    create = toy_services.services.library.create_collection

    def create_slowly(*args: Any, **settings: Any) -> Any:
        statuses.append(other.post("/api/v1/collections", json={"name": "letters"}, headers=KEY).status_code)
        return create(*args, **settings)

    toy_services.services.library.create_collection = create_slowly
    assert client.post("/api/v1/collections", json={"name": "letters"}, headers=KEY).status_code == 201
    assert statuses == [409]


@contextmanager
def seen_by(principal: Principal, application: Any) -> Iterator[TestClient]:
    app = api_of(application.services)

    async def as_principal(scope: Any, receive: Any, send: Any) -> None:
        with acting_as(principal):
            await app(scope, receive, send)

    yield TestClient(as_principal)


def test_people_do_not_share_keys(toy_services: Any) -> None:
    toy_services.services.library.ensure_collection("library")
    answers = []
    for name in ("anna", "ben"):
        with seen_by(Principal(name, Role.EDITOR), toy_services) as client:
            answers.append(client.post("/api/v1/documents", json={"text": f"By {name}."}, headers=KEY))
    assert [each.status_code for each in answers] == [202, 202]
    assert [each.json()["document"]["title"] for each in answers] == ["By anna.", "By ben."]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "a\tb"])
def test_unusable_keys_are_problems(client: TestClient, key: str) -> None:
    answer = client.post("/api/v1/documents", json={"text": "x"}, headers={"Idempotency-Key": key})
    assert answer.status_code == 422
    assert "Idempotency-Key" in answer.json()["detail"]
