"""The fixtures of the tests against a server, themselves, with the embedded engine in the place of Qdrant's program."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from patience import wait_until
from qdrant_servers import API_KEY, PROGRAM, URL, Node, QdrantServer, open_index, opened_cluster, opened_server, told

from app.errors import NotFoundError
from app.testing import text_source
from app.types.documents import JobState
from app.vectors.nodes import NodeTransport

NORTH = [1.0, 0.0, 0.0]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Notes the arguments that it was started with."""
    found = tmp_path / "qdrant"
    node = Path(__file__).parents[1] / "edge_node.py"
    found.write_text(f'#!/bin/sh\nset -e\necho "$@" > arguments\nexec {sys.executable} -P {node}\n', "utf-8")
    found.chmod(0o755)
    return found


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in (URL, API_KEY, PROGRAM):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_without_a_variable_the_embedded_engine_stands_in_and_that_is_told(
    only: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert told().startswith("NO QDRANT SERVER")
    with opened_server(tmp_path / "server") as server:
        assert server.is_stand_in
    with pytest.raises(pytest.skip.Exception, match=PROGRAM), opened_cluster(tmp_path / "cluster"):
        pass


def test_a_program_is_started_killed_and_started_again_on_its_data(
    only: pytest.MonkeyPatch, program: Path, tmp_path: Path
) -> None:
    only.setenv(PROGRAM, str(program))
    with opened_server(tmp_path / "server") as server:
        index = open_index(server.url, server.api_key)
        index.create("docs", dimension=3)
        [node] = server.nodes
        node.kill()
        assert node.pid == 0
        node.start()
        index.close()
        index = open_index(server.url, server.api_key)
        assert index.indexes() == ["docs"]
        index.close()
        assert not server.is_stand_in
        assert str(program) in told()


def test_a_program_is_started_three_times_as_a_cluster(only: pytest.MonkeyPatch, program: Path, tmp_path: Path) -> None:
    only.setenv(PROGRAM, str(program))
    with opened_cluster(tmp_path / "cluster") as cluster:
        assert len(set(cluster.urls)) == len(cluster.nodes) == 3
        first, *others = [(tmp_path / "cluster" / f"node-{n}" / "arguments").read_text().split() for n in range(3)]
    assert first[0] == "--uri"
    assert [(each[0], each[2:]) for each in others] == [("--uri", ["--bootstrap", first[1]])] * 2
    assert len({first[1], *(each[1] for each in others)}) == 3


def test_named_nodes_are_a_server_and_a_cluster(only: pytest.MonkeyPatch, tmp_path: Path) -> None:
    only.setenv(URL, "http://one:6333, http://two:6333/")
    only.setenv(API_KEY, "secret")
    expected = QdrantServer(("http://one:6333", "http://two:6333"), "secret")
    with opened_server(tmp_path) as server, opened_cluster(tmp_path) as cluster:
        assert server == cluster == expected
    assert "http://one" in told()


@pytest.mark.server(is_quick=True)
def test_names_of_a_tests_own_hide_all_others_and_are_removed(qdrant_server: QdrantServer) -> None:
    name = f"library-{uuid.uuid4().hex}--1"
    there = open_index(qdrant_server.url, qdrant_server.api_key)
    with qdrant_server.with_own_names() as one, qdrant_server.with_own_names() as other:
        first, second = open_index(one, qdrant_server.api_key), open_index(other, qdrant_server.api_key)
        for index in (first, second):
            index.create(name, dimension=3)
            index.point_to("library", name)
        assert len([each for each in there.indexes() if each.endswith(name)]) == 2
        assert first.indexes() == [name]
        assert first.aliases() == {"library": name}
        first.drop(name)
        assert (first.indexes(), first.aliases(), first.exists("library")) == ([], {}, False)
        assert second.exists("library")
        with pytest.raises(NotFoundError, match=f"'{name}'"):
            first.count(name)
        for index in (first, second):
            index.close()
    assert [each for each in there.indexes() if each.endswith(name)] == []
    there.close()


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.timeout(300)
def test_a_search_over_a_server_that_hangs_is_answered_503_and_names_it(
    only: pytest.MonkeyPatch, tmp_path: Path, toy_services_factory: Callable[..., Any]
) -> None:
    asked = {"query": "a heron", "collection": "library", "explain": False}
    with opened_server(tmp_path / "server") as server, closing(open_index(server.url, server.api_key)) as index:
        application = toy_services_factory(index=index)
        application.add("A heron stands in the river.")
        with TestClient(api_of(application.services)) as client:
            assert client.post("/api/v1/search", json=asked).status_code == 200
            with server.nodes[0].stopped():
                refusals = [client.post("/api/v1/search", json=asked) for _ in range(3)]
                assert client.get("/readyz").status_code == 503
            assert [each.status_code for each in refusals] == [503] * 3
            assert all("vector index" in each.json()["detail"] for each in refusals)
            wait_until(lambda: client.post("/api/v1/search", json=asked).status_code == 200)


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.timeout(300)
def test_no_write_waits_for_a_server_that_hangs_after_its_ping(
    only: pytest.MonkeyPatch, tmp_path: Path, toy_services_factory: Callable[..., Any]
) -> None:
    """A request gets 503, which names the server. A job is tried again, and nothing of it is lost."""
    only.setitem(NodeTransport.__init__.__kwdefaults__, "write_s", 3_600)  # so that only pings can end a write
    with opened_server(tmp_path / "server") as server, closing(open_index(server.url, server.api_key)) as index:
        application = toy_services_factory(index=index)
        application.add("A heron stands in the river.")
        services, catalog = application.services, application.services.catalog
        with TestClient(api_of(services)) as client:
            with stopped_after_a_ping(server.nodes[0], only) as pings:
                refusal = client.post("/api/v1/collections", json={"name": "letters"})
                assert (refusal.status_code, pings) == (503, ["PUT"])
                assert "vector index" in refusal.json()["detail"]
            wait_until(lambda: client.post("/api/v1/collections", json={"name": "letters"}).status_code == 201)
            with stopped_after_a_ping(server.nodes[0], only):
                assert client.delete("/api/v1/collections/letters").status_code in {204, 503}  # a worker removes it
            wait_until(lambda: client.get("/readyz").status_code == 200)
            assert client.get("/api/v1/collections/letters").status_code == 404
        document, job = services.library.add_document("library", text_source("text://late", "A stork, late."))
        assert job is not None
        with stopped_after_a_ping(server.nodes[0], only):
            application.work_off()
            waiting = catalog.job(job.id)
            assert (waiting.state, waiting.attempts) == (JobState.QUEUED, 1)  # it may have stopped the server
            assert "vector index" in (waiting.error or "")
        wait_until(lambda: application.work_off() or catalog.job(job.id).state is JobState.DONE)
        name = catalog.collection("library").active_index
        assert set(index.point_ids(name)) == {
            chunk.id for each in catalog.documents("library") for chunk in catalog.chunks(each.id)
        }
        assert index.count(name, document_id=document.id) == 1


@contextmanager
def stopped_after_a_ping(node: Node, patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Stops the process just before the next write is sent, until the block ends. Yields the methods of writes."""
    send, sent = NodeTransport._send_watched, list[str]()

    def stop_and_send(self: NodeTransport, to: Any, request: httpx.Request, path: bytes) -> httpx.Response:
        if not sent:
            os.kill(node.pid, signal.SIGSTOP)
        sent.append(request.method)
        return send(self, to, request, path)

    with patch.context() as within:
        within.setattr(NodeTransport, "_send_watched", stop_and_send)
        try:
            yield sent
        finally:
            os.kill(node.pid, signal.SIGCONT)
