"""Everything that the pages show in lists, over HTTP: pages with totals, counts, what belongs to a document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from patience import wait_until

from app.documents.fetching import BackgroundFetching
from app.errors import DocumentError
from app.types.documents import Source

PAGE, ABSENT = "https://example.org/page", "https://example.org/absent"


def read_url(url: str) -> Source:
    if url == ABSENT:
        raise DocumentError("The server answers 404 Not Found.")
    return Source(name=url, uri=url, media_type="text/plain", data=b"A page of the web.")


@pytest.fixture
def client(toy_services: Any) -> Iterator[TestClient]:
    services = toy_services.services
    services.library.ensure_collection("library")
    with closing(BackgroundFetching(services.catalog, services.library, read_url=read_url)) as fetching:
        yield TestClient(api_of(services, read_url=read_url, fetching=fetching), raise_server_exceptions=False)


def walk(client: TestClient, path: str) -> tuple[list[Any], list[str]]:
    """What the pages hold from `path` on, following the links; the totals that they told."""
    found, totals, after = [], [], path
    while after:
        answer = client.get(after)
        found += answer.json()
        totals.append(answer.headers["x-total-count"])
        after = answer.links.get("next", {}).get("url", "")
    return found, totals


def test_documents_are_paged_by_links(client: TestClient, toy_services: Any) -> None:
    ids = [toy_services.add(f"Text {number}.").id for number in range(5)]
    found, totals = walk(client, "/api/v1/documents?limit=2&collection=library")
    assert [each["id"] for each in found] == ids
    assert totals == ["5", "5", "5"]
    assert walk(client, "/api/v1/documents?limit=2&state=failed") == ([], ["0"])
    assert "link" not in client.get("/api/v1/documents?offset=9").headers


def test_documents_of_all_collections_are_counted(client: TestClient, toy_services: Any) -> None:
    toy_services.add("One.")
    toy_services.add("Two.", collection="letters")
    assert client.get("/api/v1/documents?limit=1").headers["x-total-count"] == "2"
    assert client.get("/api/v1/documents?state=ready").headers["x-total-count"] == "2"
    assert client.get("/api/v1/documents?collection=letters").headers["x-total-count"] == "1"


def test_documents_are_found_by_a_part_of_their_name(client: TestClient, toy_services: Any) -> None:
    for title in ("Ferries", "The ferry & me", "Trains"):
        body = {"text": title, "title": title, "collection": "library"}
        assert client.post("/api/v1/documents", json=body).status_code == 202
    toy_services.work_off()
    found, totals = walk(client, "/api/v1/documents?collection=library&text=FERR&limit=1")
    assert [each["title"] for each in found] == ["The ferry & me", "Ferries"]
    assert totals == ["2", "2"]
    counts = client.get("/api/v1/documents/counts?collection=library&text=y%20%26").json()
    assert counts == {"total": 1, "states": {"queued": 0, "ready": 1, "failed": 0, "deleting": 0}}
    assert client.get("/api/v1/documents?text=ferr").status_code == 422
    assert client.get("/api/v1/documents?text=ferr&collection=nope").status_code == 404
    assert client.get("/api/v1/documents/counts?collection=nope").status_code == 404


def test_jobs_are_paged_and_counted(client: TestClient, toy_services: Any) -> None:
    for number in range(3):
        toy_services.add(f"Text {number}.")
    client.post("/api/v1/documents", json={"text": "It waits."})
    found, totals = walk(client, "/api/v1/jobs?limit=3")
    assert len({each["id"] for each in found}) == 4
    assert totals == ["4", "4"]
    assert client.get("/api/v1/jobs?state=done&limit=1").headers["x-total-count"] == "3"
    counts = client.get("/api/v1/jobs/counts?collection=library").json()
    assert (counts["total"], counts["states"]["done"], counts["states"]["queued"]) == (4, 3, 1)


def test_dead_jobs_are_all_queued_again(client: TestClient, toy_services: Any) -> None:
    for name in ("a", "b"):
        client.post("/api/v1/documents", files={"file": (f"{name}.pdf", b"%PDF-1.7 broken" + name.encode())})
    toy_services.work_off()
    assert client.get("/api/v1/jobs/counts").json()["states"]["dead"] == 2
    assert client.post("/api/v1/jobs/retry?collection=library").json() == {"retried": 2}
    assert client.get("/api/v1/jobs/counts").json()["states"]["queued"] == 2
    assert client.post("/api/v1/jobs/retry?collection=nope").status_code == 404


def test_judgements_are_paged(client: TestClient, toy_services: Any) -> None:
    document = toy_services.add("Penguins swim.")
    for number in range(3):
        body = {"document_id": document.id, "query": f"query {number}", "grade": 1}
        assert client.post("/api/v1/judgements", json=body).status_code == 200
    found, totals = walk(client, "/api/v1/judgements?collection=library&limit=2")
    assert {each["query"] for each in found} == {"query 0", "query 1", "query 2"}
    assert totals == ["3", "3"]


def test_document_tells_its_latest_job_and_its_chunks(client: TestClient, toy_services: Any) -> None:
    document = toy_services.add("Penguins swim. " * 200)
    job = client.get(f"/api/v1/documents/{document.id}/job").json()
    assert (job["document_id"], job["state"]) == (document.id, "done")
    chunks, totals = walk(client, f"/api/v1/documents/{document.id}/chunks?limit=2")
    assert len(chunks) == document.chunk_count > 2
    assert set(totals) == {str(document.chunk_count)}
    hit = client.post("/api/v1/search", json={"query": "penguins", "limit": 1}).json()["hits"][0]
    assert hit["chunk"]["id"] in {each["id"] for each in chunks}
    assert "text" not in chunks[0]
    for path in ("job", "chunks"):
        assert client.get(f"/api/v1/documents/nope/{path}").status_code == 404


def test_collection_is_shown_with_its_index(client: TestClient, toy_services: Any) -> None:
    toy_services.add("Penguins swim.")
    shown = client.get("/api/v1/collections/library").json()
    assert shown == client.get("/api/v1/collections").json()[0]
    assert (shown["document_count"], shown["chunk_tokens"]) == (1, 200)
    assert client.get("/api/v1/collections/library/index").json()["points"] == 1
    assert client.post("/api/v1/collections/library/optimize").status_code == 202
    for path in ("", "/index"):
        assert client.get(f"/api/v1/collections/nope{path}").status_code == 404
    assert client.post("/api/v1/collections/nope/optimize").status_code == 404


def test_pages_are_fetched_retried_and_forgotten(client: TestClient, toy_services: Any) -> None:
    path = "/api/v1/collections/library/fetches"
    assert client.post(path, json={"urls": [PAGE, ABSENT]}).status_code == 202
    wait_until(lambda: [each["state"] for each in client.get(path).json()] == ["failed"])
    assert client.get(path).json() == [{"url": ABSENT, "state": "failed", "error": "The server answers 404 Not Found."}]
    assert [each["uri"] for each in client.get("/api/v1/documents").json()] == [PAGE]
    assert client.post(f"{path}/retry", json={"url": ABSENT}).status_code == 202
    wait_until(lambda: [each["state"] for each in client.get(path).json()] == ["failed"])
    assert client.delete(path, params={"url": ABSENT}).status_code == 204
    assert client.get(path).json() == []
    for answer in (
        client.delete(path, params={"url": ABSENT}),
        client.post(f"{path}/retry", json={"url": PAGE}),
        client.get("/api/v1/collections/nope/fetches"),
        client.post("/api/v1/collections/nope/fetches", json={"urls": [PAGE]}),
    ):
        assert answer.status_code == 404
    for urls in ([], ["file:///etc/passwd"], ["https://" + "x" * 3000]):
        assert client.post(path, json={"urls": urls}).status_code == 422


def test_model_tells_its_defaults(client: TestClient, toy_services: Any) -> None:
    model = client.get("/api/v1/model").json()
    assert (model["model_name"], model["query_steps"], model["max_steps"]) == ("toy", 2, 20)
    assert model["fingerprint"] == toy_services.embedder.fingerprint


def test_refinement_is_read_in_groups_of_steps(client: TestClient) -> None:
    reading = client.post("/api/v1/refine/words", json={"text": "the cat", "steps": 7}).json()
    assert [(each["first_step"], each["last_step"]) for each in reading["groups"]] == [(1, 5), (6, 7)]
    words = {each["token"]: each for each in reading["groups"][0]["tokens"]}
    assert (words["the"]["is_stop_word"], words["cat"]["is_stop_word"]) == (True, False)
    assert not any(each["is_new"] for each in reading["groups"][1]["tokens"])
    assert reading["settled_step"] == 1


def test_collections_and_lenses_are_paged(client: TestClient, toy_services: Any) -> None:
    for name in ("letters", "notes"):
        toy_services.services.library.create_collection(name)
    for path, count in (("/api/v1/collections", 3), ("/api/v1/lenses", len(client.get("/api/v1/lenses").json()))):
        found, totals = walk(client, f"{path}?limit=1")
        assert found == client.get(path).json()
        assert totals == [str(count)] * count
        assert client.get(f"{path}?offset={count}").json() == []


# Of what is at hand for a while only, or belongs to one thing.
WHOLE = frozenset(
    {
        "list_evaluations",
        "list_sources",
        "list_fetches",
        "compare_variants",
        "list_lens_indexes",
        "show_own_usage",
        "show_usage",
    }
)


def test_every_list_has_pages(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    lists = {
        each["get"]["operationId"]: {parameter["name"] for parameter in each["get"].get("parameters", [])}
        for each in schema["paths"].values()
        if "get" in each
        and each["get"]["responses"]["200"].get("content", {}).get("application/json", {}).get("schema", {}).get("type")
        == "array"
    }
    assert lists.keys() > WHOLE
    assert [
        name for name, parameters in lists.items() if name not in WHOLE and not parameters >= {"limit", "offset"}
    ] == []


def test_documents_are_deleted_restored_and_moved_together(client: TestClient, toy_services: Any) -> None:
    ids = [toy_services.add(f"Text {number}.").id for number in range(3)]
    toy_services.services.library.ensure_collection("letters")
    deleted = client.post("/api/v1/documents/delete", json={"document_ids": ids[:2], "delay_s": 60})
    assert deleted.status_code == 202
    assert [(job["kind"], job["document_id"]) for job in deleted.json()] == [("delete", each) for each in ids[:2]]
    toy_services.work_off()
    assert client.get("/api/v1/documents/counts?collection=library").json()["states"]["deleting"] == 2
    restored = client.post("/api/v1/documents/restore", json={"document_ids": ids[:2]})
    assert [job["kind"] for job in restored.json()] == ["ingest", "ingest"]
    assert client.post("/api/v1/documents/restore", json={"document_ids": ids[:2]}).status_code == 409
    moved = client.post("/api/v1/documents/move", json={"document_ids": ids, "collection": "letters"})
    assert moved.status_code == 202
    assert [(each["document"]["collection"], each["document"]["revision"]) for each in moved.json()] == [
        ("letters", 1)
    ] * 3
    toy_services.work_off()
    assert client.get("/api/v1/documents?collection=library").json() == []
    assert client.get("/api/v1/documents/counts?collection=letters").json()["states"]["ready"] == 3


def test_batches_are_bounded_and_all_or_nothing(client: TestClient, toy_services: Any) -> None:
    document = toy_services.add("Text.")
    for body in ({"document_ids": []}, {"document_ids": ["a"] * 1001}, {"document_ids": ["a"], "delay_s": -1}):
        assert client.post("/api/v1/documents/delete", json=body).status_code == 422
    unknown = {"document_ids": [document.id, "no-such-id"]}
    assert client.post("/api/v1/documents/delete", json=unknown).status_code == 404
    assert client.get(f"/api/v1/documents/{document.id}").json()["state"] == "ready"
