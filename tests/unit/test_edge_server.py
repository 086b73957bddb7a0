"""The Edge server as its clients see it: who is let in, what is refused and how, and answers in Qdrant's shapes."""

from __future__ import annotations

import json
import math
import shutil
import time
import uuid
from array import array
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.edge import shards as shards_module
from app.edge.connection import EdgeConnection
from app.edge.server import create_app
from app.edge.shards import Shards

TOKEN = "let-me-in"
POINT = {"id": 1, "vector": [1.0, 0.0], "payload": {}}
VECTORS = st.tuples(st.integers(-2, 2), st.integers(1, 3))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def server(data_dir: Path) -> Iterator[TestClient]:
    """The application itself in this process: no socket, a real shard on disk."""
    app = create_app(Shards(data_dir), EdgeConnection(port=0, token=TOKEN, pid=0), data_dir)
    with TestClient(app, headers={"api-key": TOKEN}, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def collection(server: TestClient) -> Callable[..., str]:
    def create(name: str = "docs", *, size: int = 2) -> str:
        answer = server.put(f"/collections/{name}", json={"vectors": {"size": size, "distance": "Cosine"}})
        assert answer.json()["result"] is True
        return f"/collections/{name}"

    return create


@pytest.mark.parametrize(
    "headers",
    [{}, {"api-key": ""}, {"api-key": "let-me-i"}, {"api-key": "let-me-in "[:-1] + "n"}, {"Authorization": "Bearer x"}],
)
@pytest.mark.parametrize("path", ["/", "/collections", "/no/such/route"])
def test_without_the_token_nothing_is_answered(server: TestClient, path: str, headers: dict[str, str]) -> None:
    answer = server.get(path, headers={"api-key": "", **headers})
    assert answer.status_code == 401
    assert "API key" in answer.json()["status"]["error"]
    assert answer.json()["result"] is None


def test_only_some_collections_are_open_at_once(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds threads. What was written to a closed one is there when it is opened again."""
    monkeypatch.setattr(shards_module, "MOST_OPEN", 3)
    shards = Shards(data_dir)
    app = create_app(shards, EdgeConnection(port=0, token=TOKEN, pid=0), data_dir)
    with TestClient(app, headers={"api-key": TOKEN}) as client:
        names = [f"docs-{number}" for number in range(6)]
        for name in names:
            client.put(f"/collections/{name}", json={"vectors": {"size": 2, "distance": "Cosine"}})
        shards.start_noting("docs-0")  # as while it is being optimized
        for _ in range(2):
            for name in names:
                assert client.put(f"/collections/{name}/points", json={"points": [POINT]}).status_code == 200
                assert len(shards._open) <= 3
        assert "docs-0" in shards._open
        shards.flush()
        for name in names:
            assert client.post(f"/collections/{name}/points/count", json={}).json()["result"] == {"count": 1}


def test_the_token_is_also_taken_as_a_bearer(data_dir: Path) -> None:
    app = create_app(Shards(data_dir), EdgeConnection(port=0, token=TOKEN, pid=0), data_dir)
    with TestClient(app) as client:
        assert client.get("/collections", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/collections/docs/snapshots"),
        ("POST", "/collections/docs/points/recommend"),
        ("PUT", "/collections/docs/shards"),
        ("PUT", "/collections/docs/points/vectors"),
    ],
)
def test_an_unserved_route_says_what_to_use_instead(
    server: TestClient, collection: Callable[..., str], method: str, path: str
) -> None:
    collection()
    answer = server.request(method, path, json={})
    assert answer.status_code == 501
    assert set(answer.json()) == {"status", "time", "result"}
    assert path in answer.json()["status"]["error"]
    assert "GIRCSE_QDRANT_URL" in answer.json()["status"]["error"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/points/query", {"query": [1, 0], "lookup_from": {"collection": "x"}}, "lookup_from"),
        ("/points/query", {"query": {"recommend": {"positive": [1]}}}, "recommend"),
        ("/points/scroll", {"order_by": "a"}, "order_by"),
        ("/points/count", {"filter": {"must": [{"key": "a", "match": {"text": "b"}}]}}, "text"),
        ("/points/count", {"filter": {"min_should": {"conditions": [], "min_count": 1}}}, "min_should"),
    ],
)
def test_an_unserved_field_is_refused_not_ignored(
    server: TestClient, collection: Callable[..., str], path: str, body: dict[str, object], field: str
) -> None:
    answer = server.post(collection() + path, json=body)
    assert answer.status_code == 501
    assert field in answer.json()["status"]["error"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"optimizers_config": {"max_segment_size": 5}}, "max_segment_size"),
        ({"quantization_config": {"product": {"compression": "x4"}}}, "product"),
        ({"vectors": {"": {"hnsw_config": {"m": 4}}}}, "hnsw_config"),
    ],
)
def test_settings_that_are_not_served_are_refused_not_ignored(
    server: TestClient, collection: Callable[..., str], change: dict[str, object], field: str
) -> None:
    answer = server.patch(collection(), json=change)
    assert answer.status_code == 501
    assert field in answer.json()["status"]["error"]


def test_a_change_of_a_vector_that_is_not_there_is_refused(server: TestClient, collection: Callable[..., str]) -> None:
    answer = server.patch(collection(), json={"vectors": {"other": {"on_disk": True}}})
    assert (answer.status_code, "other" in answer.json()["status"]["error"]) == (400, True)


def test_an_index_that_nobody_waits_for_is_made_when_the_collection_is_optimised(
    server: TestClient, collection: Callable[..., str]
) -> None:
    name = collection()
    server.put(f"{name}/points", json={"points": [{"id": 1, "vector": [1, 0], "payload": {"year": "x", "place": "y"}}]})
    for field, wait in (("year", "false"), ("place", "true")):
        index = {"field_name": field, "field_schema": "keyword"}
        assert server.put(f"{name}/index", params={"wait": wait}, json=index).status_code == 200
    assert server.get(name).json()["result"]["payload_schema"].keys() == {"place"}
    server.patch(name, json={"optimizers_config": {}})
    while (described := server.get(name).json()["result"])["status"] == "yellow":
        time.sleep(0.05)
    assert (described["status"], described["payload_schema"].keys()) == ("green", {"place", "year"})


def test_a_collection_is_made_with_the_settings_that_it_is_given(server: TestClient) -> None:
    asked = {
        "vectors": {"size": 2, "distance": "Cosine", "on_disk": True},
        "quantization_config": {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}},
        "optimizers_config": {"indexing_threshold": 5},
    }
    assert server.put("/collections/docs", json=asked).json()["result"] is True
    config = server.get("/collections/docs").json()["result"]["config"]
    assert config["params"]["vectors"] == asked["vectors"]
    assert config["quantization_config"] == asked["quantization_config"]
    assert config["optimizer_config"]["indexing_threshold"] == 5


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/points/query", "no json", "Invalid JSON"),
        ("/points/query", {"query": [1, 0, 0]}, "expected dim: 2, got 3"),
        ("/points/query", {"query": [0, 0]}, "zero vector"),
        ("/points/query", {"query": {"nearest": [0, 0]}}, "zero vector"),
        ("/points/query", {"query": [1, 0], "using": "other"}, "no dense vector is named 'other'"),
        ("/points/query", {"query": [1, 0], "limit": 0}, "limit"),
        ("/points/query", {"query": {"fusion": "rrf"}}, "prefetches"),
        ("/points/count", {"filter": {"must": [{"key": "a["}]}}, "invalid JSON path"),
        ("/points/count", {"filter": {"must": [{"key": "a"}]}}, "exactly one"),
        ("/points/count", {"filter": ["a"]}, "filter"),
        ("/points/delete", {}, "exactly one"),
        ("/points", {"ids": ["not-a-uuid"]}, "ids"),
        ("/facet", {"key": "year"}, "no payload index on `year`"),
    ],
)
def test_a_malformed_request_names_its_error(
    server: TestClient, collection: Callable[..., str], path: str, body: object, reason: str
) -> None:
    content = body if isinstance(body, str) else json.dumps(body)
    answer = server.post(collection() + path, content=content)
    assert answer.status_code == 400, answer.text
    assert reason in answer.json()["status"]["error"]


@pytest.mark.parametrize(
    "vector", ["[NaN, 1]", "[Infinity, 0]", "[0, 0]", "[1e-30, 0]", "[1e300, 0]", "[true, 1]", "[]"]
)
def test_a_vector_that_has_no_direction_is_refused(
    server: TestClient, collection: Callable[..., str], vector: str
) -> None:
    docs = collection()
    body = f'{{"points": [{{"id": 1, "vector": [1, 0]}}, {{"id": 2, "vector": {vector}}}]}}'
    assert server.put(docs + "/points", content=body).status_code == 400
    assert server.post(docs + "/points/count", json={}).json()["result"]["count"] == 0


@pytest.mark.parametrize("name", ["a:b", "%2E%2E", "a%2Fb", "x" * 256, "tab%00"])
def test_a_bad_collection_name_makes_no_folder(server: TestClient, data_dir: Path, name: str) -> None:
    answer = server.put(f"/collections/{name}", json={"vectors": {"size": 2, "distance": "Cosine"}})
    assert answer.status_code in (400, 501)
    assert list((data_dir / "shards").iterdir()) == []


def test_a_name_is_taken_once(server: TestClient, collection: Callable[..., str]) -> None:
    collection()
    again = server.put("/collections/docs", json={"vectors": {"size": 2, "distance": "Cosine"}})
    assert (again.status_code, again.json()["status"]["error"]) == (
        409,
        "Wrong input: Collection `docs` already exists!",
    )
    alias = {"create_alias": {"alias_name": "docs", "collection_name": "docs"}}
    assert server.post("/collections/aliases", json={"actions": [alias]}).status_code == 409


def test_deleting_a_collection_removes_its_folder_and_aliases(
    server: TestClient, collection: Callable[..., str], data_dir: Path
) -> None:
    docs = collection()
    alias = {"create_alias": {"alias_name": "library", "collection_name": "docs"}}
    server.post("/collections/aliases", json={"actions": [alias]})
    assert len(list((data_dir / "shards").iterdir())) == 1
    assert server.delete(docs).json()["result"] is True
    assert list((data_dir / "shards").iterdir()) == []
    assert server.get("/aliases").json()["result"] == {"aliases": []}
    assert server.delete(docs).json()["result"] is False


def test_alias_actions_apply_together_or_not_at_all(server: TestClient, collection: Callable[..., str]) -> None:
    collection("docs--1")
    actions = [
        {"create_alias": {"alias_name": "docs", "collection_name": "docs--1"}},
        {"create_alias": {"alias_name": "more", "collection_name": "absent"}},
    ]
    assert server.post("/collections/aliases", json={"actions": actions}).status_code == 404
    assert server.get("/aliases").json()["result"]["aliases"] == []
    rename = {"rename_alias": {"old_alias_name": "docs", "new_alias_name": "papers"}}
    assert server.post("/collections/aliases", json={"actions": [actions[0], rename]}).status_code == 200
    assert server.get("/collections/docs--1/aliases").json()["result"]["aliases"] == [
        {"alias_name": "papers", "collection_name": "docs--1"}
    ]


def test_collections_and_aliases_survive_a_restart(data_dir: Path) -> None:
    for attempt in range(2):
        app = create_app(Shards(data_dir), EdgeConnection(port=0, token=TOKEN, pid=0), data_dir)
        with TestClient(app, headers={"api-key": TOKEN}) as client:
            if attempt == 0:
                client.put("/collections/docs--1", json={"vectors": {"size": 2, "distance": "Cosine"}})
                client.put("/collections/docs--1/points", json={"points": [{"id": 7, "vector": [1, 0]}]})
                alias = {"create_alias": {"alias_name": "docs", "collection_name": "docs--1"}}
                client.post("/collections/aliases", json={"actions": [alias]})
            found = client.post("/collections/docs/points/query", json={"query": [1, 0]}).json()["result"]
            assert found == {"points": [{"id": 7, "payload": None, "version": 0, "score": 1.0}]}


def test_the_remains_of_a_crash_are_swept_away(data_dir: Path) -> None:
    remains = data_dir / "shards" / uuid.uuid4().hex
    remains.mkdir(parents=True)
    (remains / "segment.json").write_text("half a file")
    Shards(data_dir)
    assert not remains.exists()


def test_a_damaged_collection_does_not_keep_the_others_away(data_dir: Path) -> None:
    shards = Shards(data_dir)
    app = create_app(shards, EdgeConnection(port=0, token=TOKEN, pid=0), data_dir)
    with TestClient(app, headers={"api-key": TOKEN}) as client:
        for name in ("broken", "whole"):
            client.put(f"/collections/{name}", json={"vectors": {"size": 2, "distance": "Cosine"}})
    folder = json.loads((data_dir / "collections.json").read_text())["collections"]["broken"]["folder"]
    (data_dir / "shards" / folder / "edge_config.json").write_text("{")
    app = create_app(Shards(data_dir), EdgeConnection(port=0, token=TOKEN, pid=0), data_dir)
    with TestClient(app, headers={"api-key": TOKEN}, raise_server_exceptions=False) as client:
        assert client.post("/collections/whole/points/count", json={}).json()["result"]["count"] == 0
        answer = client.post("/collections/broken/points/count", json={})
        assert answer.status_code == 500
        assert answer.json()["status"]["error"].startswith("Service internal error")


def test_a_collection_whose_files_are_removed_while_it_is_open_is_not_answered_from_memory(
    server: TestClient, collection: Callable[..., str], data_dir: Path
) -> None:
    lost, kept = collection("lost"), collection("kept")
    folder = json.loads((data_dir / "collections.json").read_text())["collections"]["lost"]["folder"]
    shutil.rmtree(data_dir / "shards" / folder)
    for call in (server.post(f"{lost}/points/count", json={}), server.put(f"{lost}/points", json={"points": [POINT]})):
        assert call.status_code == 500
        assert "were removed" in call.json()["status"]["error"]
    assert server.put(f"{kept}/points", json={"points": [POINT]}).status_code == 200
    assert server.delete(lost).json()["result"] is True


def test_pages_of_a_query_neither_overlap_nor_leave_gaps(server: TestClient, collection: Callable[..., str]) -> None:
    docs = collection()
    points = [{"id": number, "vector": [1, 0] if number <= 40 else [1, 1]} for number in range(50, 0, -1)]
    server.put(docs + "/points", json={"points": points})
    pages = [{"query": [1, 0], "limit": 7, "offset": offset} for offset in range(0, 56, 7)]
    answers = server.post(docs + "/points/query/batch", json={"searches": pages}).json()["result"]
    assert [point["id"] for answer in answers for point in answer["points"]] == list(range(1, 51))


def test_named_and_sparse_vectors_are_searched_by_their_name(server: TestClient) -> None:
    config = {
        "vectors": {"": {"size": 2, "distance": "Cosine"}, "lens": {"size": 3, "distance": "Cosine"}},
        "sparse_vectors": {"bm25": {"modifier": "idf"}},
    }
    server.put("/collections/docs", json=config)
    words = {"indices": [3, 9], "values": [1.0, 2.0]}
    points = [
        {"id": 1, "vector": {"": [1, 0], "lens": [0, 0, 1]}},
        {"id": 2, "vector": {"": [0, 1], "lens": [1, 0, 0], "bm25": words}},
    ]
    assert server.put("/collections/docs/points", json={"points": points}).status_code == 200

    def best(query: object, using: str) -> int:
        body = {"query": {"nearest": query}, "using": using}
        return server.post("/collections/docs/points/query", json=body).json()["result"]["points"][0]["id"]

    assert best([1, 0], "") == 1
    assert best([1, 0, 0], "lens") == 2
    assert best({"indices": [9], "values": [1.0]}, "bm25") == 2
    record = server.post("/collections/docs/points", json={"ids": [2], "with_vector": True}).json()["result"][0]
    assert record["vector"] == {"": [0, 1], "lens": [1, 0, 0], "bm25": words}


def test_a_query_over_a_prefetch_ranks_only_what_it_found(server: TestClient, collection: Callable[..., str]) -> None:
    docs = collection()
    server.put(docs + "/points", json={"points": [{"id": 1, "vector": [1, 0]}, {"id": 2, "vector": [0, 1]}]})
    body = {"query": [1, 0], "prefetch": {"query": [0, 1], "limit": 1}}
    assert [point["id"] for point in server.post(docs + "/points/query", json=body).json()["result"]["points"]] == [2]


def test_a_filter_around_a_fusion_applies_to_every_stage(server: TestClient, collection: Callable[..., str]) -> None:
    docs = collection()
    points = [{"id": number, "vector": [1, number], "payload": {"even": number % 2 == 0}} for number in range(1, 7)]
    server.put(docs + "/points", json={"points": points})
    body = {
        "query": {"rrf": {"k": 60}},
        "prefetch": [{"query": [1, 0], "limit": 2}, {"query": [0, 1], "limit": 2}],
        "filter": {"must": {"key": "even", "match": {"value": True}}},
    }
    found = server.post(docs + "/points/query", json=body).json()["result"]["points"]
    # Stages over 2, 4, 6: (2, 4) and (6, 4); 4 is second in both.
    assert [(hit["id"], hit["score"]) for hit in found] == [
        (4, pytest.approx(2 / 61)),
        (2, pytest.approx(1 / 60)),
        (6, pytest.approx(1 / 60)),
    ]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"must": [{"key": "n", "range": {"gte": 2, "lt": 4}}]}, [2, 3]),
        ({"must": [{"key": "n", "match": {"any": [1, 4]}}]}, [1, 4]),
        ({"must": [{"key": "tag", "match": {"except": ["a"]}}]}, [2]),
        ({"must_not": [{"key": "n", "match": {"value": 1}}]}, [2, 3, 4]),
        ({"should": [{"has_id": [4]}, {"key": "tag", "match": {"value": "a"}}]}, [1, 4]),
        ({"must": [{"is_empty": {"key": "tag"}}]}, [3, 4]),
        ({"must": [{"is_null": {"key": "tag"}}]}, [4]),
        ({"must": [{"should": [{"key": "n", "match": {"value": 1}}, {"key": "n", "match": {"value": 2}}]}]}, [1, 2]),
    ],
)
def test_filters_mean_what_they_mean_in_qdrant(
    server: TestClient, collection: Callable[..., str], condition: dict[str, object], expected: list[int]
) -> None:
    docs = collection()
    payloads = [{"n": 1, "tag": "a"}, {"n": 2, "tag": "b"}, {"n": 3}, {"n": 4, "tag": None}]
    points = [{"id": payload["n"], "vector": [1, 0], "payload": payload} for payload in payloads]
    server.put(docs + "/points", json={"points": points})
    answer = server.post(docs + "/points/scroll", json={"filter": condition}).json()["result"]
    assert [point["id"] for point in answer["points"]] == expected


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(vectors=st.lists(VECTORS, min_size=1, max_size=40), limit=st.integers(1, 9))
def test_any_ranking_is_by_cosine_then_id(server: TestClient, vectors: list[tuple[int, int]], limit: int) -> None:
    name = "/collections/ranking"
    server.put(name, json={"vectors": {"size": 2, "distance": "Cosine"}})
    server.post(name + "/points/delete", json={"points": list(range(40))})
    points = [{"id": number, "vector": list(vector)} for number, vector in enumerate(vectors)]
    server.put(name + "/points", json={"points": points})
    found = server.post(name + "/points/query", json={"query": [0, 1], "limit": limit}).json()["result"]["points"]

    # Whole numbers: y² / (x² + y²) orders as the cosine with (0, 1) does, and is exact.
    def cosine(number: int) -> float:
        x, y = vectors[number]
        return math.copysign(y * y / (x * x + y * y), y)

    best = sorted(range(len(vectors)), key=lambda number: (-cosine(number), number))[:limit]
    assert [cosine(hit["id"]) for hit in found] == [cosine(number) for number in best]
    assert [(-hit["score"], hit["id"]) for hit in found] == sorted((-hit["score"], hit["id"]) for hit in found)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    vectors=st.lists(VECTORS, min_size=1, max_size=60),
    queries=st.lists(st.tuples(VECTORS, st.integers(1, 30)), min_size=1, max_size=5),
)
def test_a_batch_answers_each_query_as_if_it_were_alone(
    server: TestClient, vectors: list[tuple[int, int]], queries: list[tuple[tuple[int, int], int]]
) -> None:
    """Also where a tie crosses the limit of some, and where others have stages."""
    name = f"/collections/{uuid.uuid4()}"
    server.put(name, json={"vectors": {"size": 2, "distance": "Cosine"}})
    points = [{"id": number, "vector": list(vector)} for number, vector in enumerate(vectors)]
    server.put(f"{name}/points", json={"points": points})
    plain = [{"query": list(vector), "limit": limit} for vector, limit in queries]
    fused = {"prefetch": [dict(each) for each in plain], "query": {"fusion": "rrf"}, "limit": 3}
    alone = [server.post(f"{name}/points/query", json=each).json()["result"] for each in [*plain, fused, *plain]]
    batch = server.post(f"{name}/points/query/batch", json={"searches": [*plain, fused, *plain]}).json()["result"]
    assert batch == alone


def test_the_file_with_the_token_is_for_the_owner_alone(server: TestClient, data_dir: Path) -> None:
    assert (data_dir / "edge.json").stat().st_mode & 0o777 == 0o600
    server.__exit__(None, None, None)
    assert not (data_dir / "edge.json").exists()
    server.__enter__()


def test_answers_carry_qdrants_envelope(server: TestClient) -> None:
    answer: httpx.Response = server.get("/collections")
    assert set(answer.json()) == {"result", "status", "time"}
    assert answer.json()["status"] == "ok"
    assert answer.json()["time"] >= 0


def test_a_batch_of_changes_by_ids_leaves_out_what_is_not_there(
    server: TestClient, collection: Callable[..., str]
) -> None:
    path = collection()
    server.put(f"{path}/points", json={"points": [{"id": n, "vector": [1, n], "payload": {"a": 1}} for n in (1, 2)]})
    by_ids = [
        {"set_payload": {"payload": {"b": ids[0]}, "filter": {"must": [{"has_id": ids}]}}} for ids in ([1], [2, 9], [9])
    ]
    gone = {"delete_payload": {"keys": ["a"], "filter": {"must": [{"has_id": [2, 9]}]}}}
    by_filter = {"set_payload": {"payload": {"c": 3}, "filter": {"must": [{"key": "b", "match": {"value": 1}}]}}}
    answer = server.post(f"{path}/points/batch", json={"operations": [*by_ids, gone, by_filter]})
    assert len(answer.json()["result"]) == 5
    found = server.post(f"{path}/points", json={"ids": [1, 2, 9]}).json()["result"]
    assert {each["id"]: each["payload"] for each in found} == {1: {"a": 1, "b": 1, "c": 3}, 2: {"b": 2}}


def test_labels_come_in_one_message(server: TestClient, collection: Callable[..., str]) -> None:
    path = collection()
    server.put(f"{path}/points", json={"points": [{"id": n, "vector": [1, n], "payload": {"a": 1}} for n in (1, 2)]})
    body = {"key": "lens", "ids": [1, 9, 2], "labels": [{"value": 4}, {"value": 5}, {"value": 6}]}
    assert server.post(f"{path}/points/labels", json=body).json()["result"]["status"] == "completed"
    found = server.post(f"{path}/points", json={"ids": [1, 2, 9]}).json()["result"]
    assert {each["id"]: each["payload"] for each in found} == {
        1: {"a": 1, "lens": {"value": 4}},
        2: {"a": 1, "lens": {"value": 6}},
    }
    assert server.post(f"{path}/points/labels", json={**body, "ids": [1]}).status_code == 400


def test_points_are_counted_as_they_are(server: TestClient, collection: Callable[..., str]) -> None:
    path = collection()
    for ids in ([1, 2, 3], [2, 3, 4]):
        server.put(f"{path}/points", json={"points": [{"id": n, "vector": [1, n]} for n in ids]})
    server.post(f"{path}/points/delete", json={"points": [1, 9]})
    assert server.post(f"{path}/points/count", json={"exact": True}).json()["result"] == {"count": 3}


def test_vectors_come_in_one_block(server: TestClient, collection: Callable[..., str]) -> None:
    path = collection()
    server.put(f"{path}/points", json={"points": [{"id": n, "vector": [0, n], "payload": {"n": n}} for n in (1, 2)]})
    asked = {"with_vector": True, "with_payload": False, "vectors_as": "block"}
    for route, more in (("points", {"ids": [2, 1, 7]}), ("points/scroll", {"limit": 9})):
        result = server.post(f"{path}/{route}", json={**asked, **more}).json()["result"]
        assert sorted(each["id"] for each in result["points"]) == [1, 2]
        assert array("f", b64decode(result["vectors"])).tolist() == [0, 1, 0, 1]
