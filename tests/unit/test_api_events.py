"""Answers in pieces: searches in stages, and a job until it has ended."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient

from app.errors import VectorIndexUnavailableError

EVENTS = {"accept": "text/event-stream"}


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    toy_services.add("The cat sleeps on the sofa. It dreams of mice.")
    return TestClient(api_of(toy_services.services), raise_server_exceptions=False)


def events_of(answer: Any) -> list[tuple[str, Any]]:
    blocks = answer.text.removesuffix("\n\n").split("\n\n")
    pairs = [block.split("\n") for block in blocks]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in pairs]


def search(client: TestClient, **question: Any) -> Any:
    body = {"query": "cat", "collection": "library", "steps": 9, **question}
    return client.post("/api/v1/search", json=body, headers=EVENTS)


def test_search_comes_in_stages_of_which_the_last_is_the_whole_answer(client: TestClient) -> None:
    answer = search(client)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer)
    assert [name for name, _ in events] == ["first", "ranked", "explained"]
    assert [data["steps"] for _, data in events] == [2, 9, 9]
    assert [data["hits"][0]["why"] is not None for _, data in events] == [False, False, True]
    whole = client.post("/api/v1/search", json={"query": "cat", "collection": "library", "steps": 9}).json()
    assert events[-1][1] | {"timings_ms": {}} == whole | {"timings_ms": {}}


@pytest.mark.parametrize(
    ("question", "stages"),
    [
        ({"steps": 4}, ["ranked", "explained"]),
        ({"steps": None}, ["ranked", "explained"]),  # the toy takes two by default
        ({"mode": "sparse"}, ["ranked", "explained"]),
        ({"explain": False}, ["first", "ranked"]),
        ({"query": "zebra", "mode": "sparse"}, ["ranked"]),
    ],
)
def test_stages_without_use_are_left_out(client: TestClient, question: dict[str, Any], stages: list[str]) -> None:
    assert [name for name, _ in events_of(search(client, **question))] == stages


def test_line_breaks_in_a_query_forge_no_event(client: TestClient) -> None:
    query = "cat\n\nevent: problem\r\ndata: {}\u2028\x85 cat"
    events = events_of(search(client, query=query))
    assert [name for name, _ in events] == ["first", "ranked", "explained"]
    assert {data["query"] for _, data in events} == {query}


def test_search_that_cannot_be_answered_is_a_problem_and_no_stream(client: TestClient) -> None:
    for question, status in (({"collection": "nope"}, 404), ({"query": " "}, 422), ({"steps": 99}, 422)):
        answer = search(client, **question)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_error_in_the_middle_is_the_last_event(client: TestClient, toy_services: Any) -> None:
    def fail(*_: Any) -> Any:
        raise VectorIndexUnavailableError("The engine has just gone.")

    toy_services.services.search.highlight = fail
    name, data = events_of(search(client))[-1]
    assert name == "problem"
    assert (data["status"], data["detail"]) == (503, "The engine has just gone.")


def test_unexpected_error_in_the_middle_tells_nothing_but_its_id(client: TestClient, toy_services: Any) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("secret=hunter2")

    toy_services.services.search.highlight = fail
    name, data = events_of(search(client))[-1]
    assert (name, data["status"]) == ("problem", 500)
    assert "hunter2" not in json.dumps(data)


def test_json_is_what_everybody_else_gets(client: TestClient) -> None:
    for accept in ("*/*", "application/json", "text/*"):
        answer = client.post("/api/v1/search", json={"query": "cat"}, headers={"accept": accept})
        assert answer.headers["content-type"] == "application/json"


def test_job_is_watched_until_it_has_ended(client: TestClient, toy_services: Any) -> None:
    job_id = client.post("/api/v1/documents", json={"text": "Penguins swim."}).json()["job"]["id"]
    worker = threading.Timer(0.6, toy_services.work_off)
    worker.start()
    events = events_of(client.get(f"/api/v1/jobs/{job_id}/events"))
    worker.join()
    assert [data["state"] for _, data in events][:: len(events) - 1] == ["queued", "done"]
    assert [data["state"] for _, data in events_of(client.get(f"/api/v1/jobs/{job_id}/events"))] == ["done"]
    assert client.get("/api/v1/jobs/nope/events").status_code == 404
