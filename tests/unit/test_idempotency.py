"""Idempotency-Key at the HTTP interface: done once, answered twice, whatever process answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient

from app.types.access import Principal, Role, acting_as

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
