"""Imports and evaluations over HTTP, and their tables."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from patience import wait_until

QUERIES = '{"_id": "1", "text": "=apple"}\n{"_id": "2", "text": "plum", "instruction": "Same topic."}\n'
QRELS = "query-id\tcorpus-id\tscore\n1\t0\t2\n2\t1\t1\n2\t9\t1\n3\t1\t1\n"


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    return client_of(toy_services)


@pytest.fixture(scope="module")
def lasting_client(lasting_services: Any) -> TestClient:
    """For what is refused."""
    return client_of(lasting_services)


def client_of(application: Any) -> TestClient:
    for text in ("apple tart", "plum jam"):
        application.add(text)
    return TestClient(api_of(application.services), raise_server_exceptions=False)


def bring_in(client: TestClient, **form: str) -> Any:
    files = [("files", ("queries.jsonl", QUERIES)), ("files", ("test.tsv", QRELS))]
    return client.post("/api/v1/judgements/import", files=files, data={"name": "fruit", **form})


def finished(client: TestClient, run_id: str) -> dict[str, Any]:
    def run() -> dict[str, Any]:
        return client.get(f"/api/v1/evaluations/{run_id}").json()  # type: ignore[no-any-return]

    wait_until(lambda: run()["state"] != "running", told=run)
    return run()


def test_an_import_tells_what_it_took_and_what_it_could_not(client: TestClient) -> None:
    report = bring_in(client).json()
    assert report["judged_by"] == "import:fruit"
    assert (report["query_count"], report["judgement_count"]) == (2, 2)
    assert (report["unmatched"], report["unknown_queries"]) == (["9"], ["3"])
    where = {"collection": "library"}
    assert client.get("/api/v1/judgements/sources", params=where).json() == [
        {"judged_by": "import:fruit", "query_count": 2, "judgement_count": 2}
    ]
    assert bring_in(client, instruction="Same fruit.").status_code == 200
    judgements = client.get("/api/v1/judgements", params=where).json()
    assert {each["instruction"] for each in judgements} == {"Same fruit."}
    gone = {**where, "judged_by": "import:fruit"}
    assert client.delete("/api/v1/judgements/import", params=gone).status_code == 204
    assert client.delete("/api/v1/judgements/import", params=gone).status_code == 404
    assert client.delete("/api/v1/judgements/import", params={**where, "judged_by": "local"}).status_code == 409


def test_unusable_imports_are_refused(client: TestClient) -> None:
    assert bring_in(client, collection="nowhere").status_code == 404
    assert bring_in(client, name=" ").status_code == 422
    letter = {"files": ("letter.txt", "Dear reader, this is a letter.")}
    answer = client.post("/api/v1/judgements/import", files=letter, data={"name": "x"})
    assert answer.status_code == 422
    assert "letter.txt, line 1" in answer.json()["detail"]
    many = [("files", (f"{number}.tsv", QRELS)) for number in range(11)]
    assert client.post("/api/v1/judgements/import", files=many, data={"name": "x"}).status_code == 422


def test_an_evaluation_runs_and_its_tables_are_downloaded(client: TestClient) -> None:
    bring_in(client)
    started = client.post("/api/v1/evaluations", json={"steps": [1, 2], "instructions": ["judged", "none"]})
    assert started.status_code == 202
    run = finished(client, started.json()["id"])
    assert (run["state"], run["done"], run["total"]) == ("done", 8, 8)
    labels = [each["label"] for each in run["report"]["scores"]]
    assert len(labels) == 4
    assert run["report"]["scores"][0]["estimates"]["ndcg_10"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    (listed,) = client.get("/api/v1/evaluations").json()
    assert listed["id"] == run["id"]
    assert "report" not in listed

    address = f"/api/v1/evaluations/{run['id']}"
    differences = client.get(f"{address}/differences", params={"baseline": 1}).json()
    assert {each["label"] for each in differences} == {label for label in labels if label != labels[1]}
    assert client.get(f"{address}/differences", params={"baseline": 9}).status_code == 422

    answer = client.get(f"{address}/scores.csv")
    assert answer.headers["content-disposition"].startswith('attachment; filename="scores-')
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert [row["queries_judged_through"] for row in rows] == ["all"] * 4 + ["no instruction"] * 4 + ["Same topic."] * 4
    assert (rows[0]["steps"], rows[0]["instruction"], rows[0]["ndcg_10_low"]) == ("1", "judged", "1.000000")
    answers = client.get(f"{address}/queries.csv").content.decode("utf-8-sig")
    queries = list(csv.DictReader(io.StringIO(answers)))
    assert len(queries) == 2 * 4
    assert {row["query"] for row in queries} == {"'=apple", "plum"}  # a formula would run in a spreadsheet


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 404),  # nothing is judged yet
        ({"collection": "nowhere"}, 404),
        ({"steps": [0]}, 422),
        ({"instructions": ["mood"]}, 422),
        ({"instructions": ["lens:mood"]}, 404),
        ({"instructions": ["lens:"]}, 422),
        ({"instructions": ["none:x"]}, 422),
        ({"modes": ["psychic"]}, 422),
        ({"max_queries": 0}, 422),
        ({"who": "me"}, 422),
    ],
)
def test_unusable_evaluations_are_refused(lasting_client: TestClient, body: dict[str, Any], status: int) -> None:
    assert lasting_client.post("/api/v1/evaluations", json=body).status_code == status


def test_an_evaluation_that_is_not_there(lasting_client: TestClient) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/differences"), ("GET", "/scores.csv")):
        assert lasting_client.request(method, f"/api/v1/evaluations/nothing{path}").status_code == 404


def test_an_evaluation_is_cancelled(client: TestClient) -> None:
    bring_in(client)
    run_id = client.post("/api/v1/evaluations", json={}).json()["id"]
    assert client.delete(f"/api/v1/evaluations/{run_id}").status_code == 200
    assert finished(client, run_id)["state"] in ("cancelled", "done")
