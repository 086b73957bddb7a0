"""The HTTP interface over an application of real parts: shapes, problem details, hostile input."""

from __future__ import annotations

import dataclasses
import json
import uuid
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient

SURROGATE = b'{"query": "a\\ud800b", "text": "a\\ud800b"}'


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    return client_of(toy_services)


@pytest.fixture(scope="module")
def lasting_client(lasting_services: Any) -> TestClient:
    """For what changes nothing."""
    return client_of(lasting_services)


def client_of(application: Any) -> TestClient:
    application.add("The cat sleeps on the sofa. It dreams of mice.", metadata={"kind": "animal"})
    return TestClient(api_of(application.services, max_body_bytes=20_000), raise_server_exceptions=False)


def assert_problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["detail"]
    return body


def test_search_answers_what_the_command_line_prints(client: TestClient, toy_services: Any) -> None:
    body = client.post("/api/v1/search", json={"query": "cat", "collection": "library", "limit": 1}).json()
    assert list(body) == [
        "query",
        "instruction",
        "steps",
        "collection",
        "hits",
        "refinement",
        "timings_ms",
        "mode",
        "values",
        "notes",
        "match",
        "exclusions",
        "searched",
        "read_text",
    ]
    hit = body["hits"][0]
    assert hit["chunk"]["text"][hit["why"]["start"] : hit["why"]["end"]] == "The cat sleeps on the sofa."
    assert hit["document"]["metadata"] == {"kind": "animal"}


def test_search_by_words_and_by_both_answers_its_legs(lasting_client: TestClient) -> None:
    def search(**question: Any) -> Any:
        return lasting_client.post("/api/v1/search", json={"query": "cat", "collection": "library", **question})

    by_words, by_both = search(mode="sparse").json(), search(mode="hybrid").json()
    assert (by_words["mode"], by_both["mode"]) == ("sparse", "hybrid")
    assert ["cat" in hit["chunk"]["text"] for hit in by_words["hits"]] == [True]
    first = by_both["hits"][0]
    assert [(leg["leg"], leg["rank"]) for leg in first["legs"]] == [("dense", 1), ("sparse", 1)]
    assert first["legs"][1]["score"] == by_words["hits"][0]["score"]
    assert search(mode="dense", like=[first["chunk"]["id"]]).json()["hits"][0]["score"] > first["legs"][0]["score"]
    assert_problem(search(mode="sparse", like=[first["chunk"]["id"]]), 422)
    assert_problem(search(unlike=["x"] * 17), 422)
    assert_problem(search(mode="lexical"), 422)
    assert_problem(search(like=[str(uuid.UUID(int=3))]), 422)


def test_refine_answers_vector_and_tokens(client: TestClient, toy_services: Any) -> None:
    body = client.post("/api/v1/refine", json={"text": "cat", "steps": 3, "token_bias": {"dog": 2}}).json()
    expected = toy_services.services.search.refine("cat", steps=3, token_bias={"dog": 2})
    assert (body["instruction"], body["steps"], body["vector"]) == ("", 3, expected.vector.tolist())
    assert body["read_text"] == ""
    assert body["refinement"] == json.loads(json.dumps([dataclasses.asdict(step) for step in expected.steps]))


@pytest.mark.parametrize(
    ("question", "status", "told"),
    [
        ({"query": "  ", "collection": "library"}, 422, "empty"),
        ({"query": "x", "collection": "other"}, 404, "gircse ingest"),
        ({"query": "x", "collection": "library", "limit": 101}, 422, "limit"),
        ({"query": "x", "collection": "library", "steps": 99}, 422, "1 to 20"),
        ({"query": "x", "collection": "library", "token_bias": {"a": 11}}, 422, "token_bias.a"),
        ({"query": "x", "collection": "library", "token_bias": {"a": "NaN"}}, 422, "token_bias.a"),
        ({"query": "x", "collection": "library", "filtres": {}}, 422, "filtres"),
        ({"query": "a\x00b", "collection": "library"}, 422, "NUL"),
        ({"query": 7, "collection": "library"}, 422, "query"),
        ({}, 422, "query"),
    ],
)
def test_unusable_searches_are_problems(
    lasting_client: TestClient, question: dict[str, Any], status: int, told: str
) -> None:
    assert told in assert_problem(lasting_client.post("/api/v1/search", json=question), status)["detail"]


@pytest.mark.parametrize("path", ["/api/v1/search", "/api/v1/refine", "/api/v1/documents", "/api/v1/collections"])
@pytest.mark.parametrize("body", [SURROGATE, b'{"\\udfff": 1}', b"\xff\xfe", b"{", b"", b"[]", b'{"query": Infinity}'])
def test_broken_bodies_are_problems(lasting_client: TestClient, path: str, body: bytes) -> None:
    assert_problem(lasting_client.post(path, content=body, headers={"content-type": "application/json"}), 422)


def test_other_model_is_a_conflict(client: TestClient, toy_services: Any) -> None:
    toy_services.embedder.fingerprint = "toy-2"
    problem = assert_problem(client.post("/api/v1/search", json={"query": "cat"}), 409)
    assert problem["title"] == "FingerprintMismatchError"


def test_text_is_taken_in_and_found(client: TestClient, toy_services: Any) -> None:
    posted = client.post("/api/v1/documents", json={"text": "Penguins swim.", "metadata": {"kind": "bird"}})
    assert posted.status_code == 202
    assert posted.json()["job"]["state"] == "queued"
    assert posted.json()["document"]["title"] == "Penguins swim."
    toy_services.work_off()
    job = client.get(f"/api/v1/jobs/{posted.json()['job']['id']}").json()
    assert (job["state"], job["progress"]) == ("done", 1)
    question = {"query": "penguins", "filters": {"kind": "bird"}}
    hits = client.post("/api/v1/search", json=question).json()["hits"]
    assert [hit["chunk"]["text"] for hit in hits] == ["Penguins swim."]


def test_a_collection_may_embed_passages_with_where_they_stand_or_without(
    client: TestClient, toy_services: Any
) -> None:
    for name, made in (("told", {}), ("untold", {"chunk_context": False})):
        answer = client.post("/api/v1/collections", json={"name": name, **made})
        assert answer.json()["chunk_context"] is (name == "told")
        new = {"collection": name, "text": "Arid to semiarid.", "title": "Algeria"}
        assert client.post("/api/v1/documents", json=new).status_code == 202
    toy_services.work_off()
    assert toy_services.embedder.embedded_texts[-2:] == ["Algeria\nArid to semiarid.", "Arid to semiarid."]
    for name, context in (("told", "Algeria"), ("untold", "")):
        asked = {"query": "arid", "collection": name}
        (hit,) = client.post("/api/v1/search", json=asked).json()["hits"]
        assert (hit["chunk"]["text"], hit["chunk"]["context"]) == ("Arid to semiarid.", context)


def test_few_passages_of_a_document_are_asked_for(client: TestClient, toy_services: Any) -> None:
    client.post("/api/v1/collections", json={"name": "short", "chunk_tokens": 16, "chunk_overlap": 0})
    for text in ("\n\n".join(f"The cat of farm {number} sleeps." for number in range(9)), "A cat is awake."):
        client.post("/api/v1/documents", json={"collection": "short", "text": text})
    toy_services.work_off()
    asked = {"query": "the cat sleeps", "collection": "short", "limit": 3}

    def documents(**more: int) -> list[str]:
        hits = client.post("/api/v1/search", json={**asked, **more}).json()["hits"]
        return [hit["document"]["id"] for hit in hits]

    assert (len(documents()), len(set(documents()))) == (3, 1)
    assert (len(documents(per_document=1)), len(set(documents(per_document=1)))) == (2, 2)
    assert client.post("/api/v1/search", json={**asked, "per_document": 0}).status_code == 422
    for diversity in (-0.1, 1.1, "NaN"):
        assert client.post("/api/v1/search", json={**asked, "diversity": diversity}).status_code == 422


def test_same_text_again_needs_no_job(client: TestClient, toy_services: Any) -> None:
    first = client.post("/api/v1/documents", json={"text": "Penguins swim."}).json()
    toy_services.work_off()
    second = client.post("/api/v1/documents", json={"text": "Penguins swim."}).json()
    assert second["job"] is None
    assert second["document"]["id"] == first["document"]["id"]


def test_file_is_uploaded_with_metadata(client: TestClient, toy_services: Any) -> None:
    answer = client.post(
        "/api/v1/documents",
        files={"file": ("../../birds.md", b"# Birds\n\nPenguins swim.", "application/octet-stream")},
        data={"collection": "library", "metadata": '{"year": 1999}'},
    )
    toy_services.work_off()
    document = client.get(f"/api/v1/documents/{answer.json()['document']['id']}").json()
    assert (document["state"], document["media_type"]) == ("ready", "text/markdown")
    assert document["uri"] == "upload://birds.md"
    assert document["metadata"]["year"] == 1999


@pytest.mark.parametrize("metadata", ["[1]", "{", '{"a": {"b": 1}}', '{"a": NaN}', '{"title": "taken"}', "\x00"])
def test_upload_with_unusable_metadata_is_a_problem(lasting_client: TestClient, metadata: str) -> None:
    answer = lasting_client.post("/api/v1/documents", files={"file": ("a.txt", b"text")}, data={"metadata": metadata})
    assert_problem(answer, 422)


def test_form_without_a_file_is_a_problem(lasting_client: TestClient) -> None:
    assert_problem(lasting_client.post("/api/v1/documents", files={"other": ("a.txt", b"text")}), 422)


def test_other_kinds_of_body_are_refused(lasting_client: TestClient) -> None:
    answer = lasting_client.post("/api/v1/documents", content=b"x", headers={"content-type": "text/plain"})
    assert_problem(answer, 415)


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "streamed"])
def test_oversized_upload_is_refused(client: TestClient, toy_services: Any, declared: bool) -> None:
    body = json.dumps({"text": "x" * 30_000}).encode()
    content = body if declared else iter([body[:10_000], body[10_000:]])
    answer = client.post("/api/v1/documents", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert len(toy_services.services.catalog.documents()) == 1


def test_unreadable_document_is_told_on_its_row(client: TestClient, toy_services: Any) -> None:
    answer = client.post("/api/v1/documents", files={"file": ("a.pdf", b"%PDF-1.7 broken")})
    toy_services.work_off()
    document = client.get(f"/api/v1/documents/{answer.json()['document']['id']}").json()
    assert document["state"] == "failed"
    assert document["error"]
    failed = client.get("/api/v1/documents", params={"state": "failed"}).json()
    assert [each["id"] for each in failed] == [document["id"]]


def test_deleted_document_is_gone(client: TestClient, toy_services: Any) -> None:
    document_id = client.get("/api/v1/documents").json()[0]["id"]
    assert client.delete(f"/api/v1/documents/{document_id}").status_code == 202
    toy_services.work_off()
    assert_problem(client.get(f"/api/v1/documents/{document_id}"), 404)
    assert toy_services.index.count("library--1") == 0


def test_queued_job_is_cancelled_and_retried(client: TestClient) -> None:
    job_id = client.post("/api/v1/documents", json={"text": "Penguins swim."}).json()["job"]["id"]
    assert client.post(f"/api/v1/jobs/{job_id}/cancel").json()["state"] == "cancelled"
    assert [job["id"] for job in client.get("/api/v1/jobs", params={"state": "cancelled"}).json()] == [job_id]
    assert client.post(f"/api/v1/jobs/{job_id}/retry").json()["state"] == "queued"


def test_collection_is_made_listed_and_deleted(client: TestClient, toy_services: Any) -> None:
    made = client.post("/api/v1/collections", json={"name": "letters", "chunk_tokens": 100})
    assert made.status_code == 201
    assert made.json()["chunk_tokens"] == 100
    assert_problem(client.post("/api/v1/collections", json={"name": "letters"}), 409)
    assert {each["name"] for each in client.get("/api/v1/collections").json()} == {"library", "letters"}
    assert client.delete("/api/v1/collections/letters").status_code == 204
    assert not toy_services.index.exists("letters--1")
    assert_problem(client.delete("/api/v1/collections/letters"), 404)


@pytest.mark.parametrize("name", ["", "A", "a--1", "../x", "a b", "x" * 64, "-a", "ä"])
def test_unusable_collection_names_are_problems(lasting_client: TestClient, name: str) -> None:
    assert_problem(lasting_client.post("/api/v1/collections", json={"name": name}), 422)


def test_paused_collection_keeps_its_jobs_waiting_until_it_is_resumed(client: TestClient, toy_services: Any) -> None:
    job = client.post("/api/v1/documents", json={"text": "Penguins swim."}).json()["job"]
    assert job["priority"] == "interactive"
    assert client.post("/api/v1/jobs/pause", params={"collection": "library"}).json() == {"collections": ["library"]}
    assert [each["is_paused"] for each in client.get("/api/v1/collections").json()] == [True]
    toy_services.work_off()
    assert client.get(f"/api/v1/jobs/{job['id']}").json()["state"] == "queued"
    assert_problem(client.post("/api/v1/jobs/pause", params={"collection": "nope"}), 404)
    assert client.post("/api/v1/jobs/resume").json() == {"collections": ["library"]}
    toy_services.work_off()
    assert client.get(f"/api/v1/jobs/{job['id']}").json()["state"] == "done"


@pytest.mark.parametrize("path", ["/api/v1/documents/nope", "/api/v1/jobs/nope", "/api/v1/nope", "/nope"])
def test_what_is_not_there_is_a_problem(lasting_client: TestClient, path: str) -> None:
    assert_problem(lasting_client.get(path), 404)


def test_requests_of_other_web_sites_are_refused(lasting_client: TestClient) -> None:
    body = {"query": "cat"}
    assert_problem(lasting_client.post("/api/v1/search", json=body, headers={"sec-fetch-site": "cross-site"}), 403)
    assert (
        lasting_client.post("/api/v1/search", json=body, headers={"sec-fetch-site": "same-origin"}).status_code == 200
    )


def test_ready_when_every_part_answers(lasting_client: TestClient) -> None:
    assert lasting_client.get("/healthz").json()["status"] == "ok"
    answer = lasting_client.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]) == (200, {"catalog": True, "index": True})


def broken_check() -> bool:
    raise RuntimeError("out of memory")


@pytest.mark.parametrize("check", [lambda: False, broken_check], ids=["says no", "raises"])
def test_not_ready_when_a_part_is_away(toy_services: Any, check: Any) -> None:
    services = dataclasses.replace(toy_services.services, checks={"catalog": lambda: True, "embedder": check})
    answer = TestClient(api_of(services)).get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"catalog": True, "embedder": False}


def test_unexpected_error_is_logged_under_the_id_that_is_shown(
    client: TestClient, toy_services: Any, caplog: pytest.LogCaptureFixture
) -> None:
    toy_services.embedder.dimension = 0  # an error that nothing foresees: division by zero inside the embedder
    problem = assert_problem(client.post("/api/v1/search", json={"query": "cat"}), 500)
    assert problem["error_id"] in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert "ZeroDivisionError" not in problem["detail"]


def test_openapi_names_every_route_with_its_errors(lasting_client: TestClient) -> None:
    openapi = lasting_client.get("/openapi.json").json()
    assert {
        "/api/v1/search",
        "/api/v1/answer",
        "/api/v1/collections/{name}/sources",
        "/api/v1/documents/{document_id}/pages/{page}",
        "/api/v1/documents/{document_id}/pages/{page}/image",
        "/api/v1/saved-searches/{search_id}/news",
        "/api/v1/saved-searches/{search_id}/news/seen",
        "/api/v1/saved-searches/{search_id}/watch",
        "/api/v1/saved-searches/{search_id}/watch/feed",
        "/api/v1/source-credentials",
        "/api/v1/sources/{source_id}",
        "/api/v1/sources/{source_id}/run",
        "/api/v1/standing-searches",
        "/api/v1/refine",
        "/api/v1/refine/words",
        "/api/v1/saved-searches",
        "/api/v1/saved-searches/{search_id}",
        "/api/v1/history",
        "/api/v1/history/{search_id}",
        "/api/v1/model",
        "/api/v1/documents",
        "/api/v1/documents/counts",
        "/api/v1/documents/delete",
        "/api/v1/documents/move",
        "/api/v1/documents/restore",
        "/api/v1/documents/{document_id}/job",
        "/api/v1/documents/{document_id}/chunks",
        "/api/v1/documents/{document_id}",
        "/api/v1/documents/{document_id}/text",
        "/api/v1/documents/{document_id}/content",
        "/api/v1/facets",
        "/api/v1/jobs",
        "/api/v1/jobs/counts",
        "/api/v1/jobs/retry",
        "/api/v1/jobs/{job_id}/events",
        "/api/v1/jobs/pause",
        "/api/v1/jobs/resume",
        "/api/v1/jobs/{job_id}",
        "/api/v1/jobs/{job_id}/retry",
        "/api/v1/jobs/{job_id}/cancel",
        "/api/v1/collections",
        "/api/v1/collections/{name}/weights",
        "/api/v1/collections/{name}",
        "/api/v1/collections/{name}/index",
        "/api/v1/collections/{name}/lens-indexes",
        "/api/v1/collections/{name}/lens-indexes/table",
        "/api/v1/collections/{name}/optimize",
        "/api/v1/collections/{name}/reindex",
        "/api/v1/collections/{name}/rollback",
        "/api/v1/collections/{name}/fetches",
        "/api/v1/collections/{name}/fetches/retry",
        "/api/v1/lenses",
        "/api/v1/lenses/proposals",
        "/api/v1/lenses/{name}",
        "/v1/rerank",
        "/api/v1/judgements",
        "/api/v1/judgements/import",
        "/api/v1/judgements/sources",
        "/api/v1/evaluations/{run_id}/scores.csv",
        "/api/v1/evaluations",
        "/api/v1/evaluations/{run_id}",
        "/api/v1/evaluations/{run_id}/differences",
        "/api/v1/evaluations/{run_id}/queries.csv",
        "/api/v1/me",
        "/api/v1/me/password",
        "/api/v1/me/usage",
        "/api/v1/sessions",
        "/api/v1/sessions/{session_id}",
        "/api/v1/users/{name}/usage",
        "/api/v1/users/{name}/identities",
        "/api/v1/users",
        "/api/v1/users/{name}",
        "/api/v1/keys",
        "/api/v1/keys/{key_id}",
        "/api/v1/audit",
        "/healthz",
        "/metrics",
        "/readyz",
        "/rerank",
        "/v2/rerank",
    } == set(openapi["paths"])
    assert openapi["components"]["schemas"]["SearchQuestion"]["properties"]["query"]["examples"]
    assert "multipart/form-data" in openapi["paths"]["/api/v1/documents"]["post"]["requestBody"]["content"]
