"""The chaos suite's own parts: a plan that its seed decides, a proxy that breaks, a comparison that sees."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from chaos_corpus import real_files
from chaos_plan import Delete, Plan, Put, Target, make_plan
from chaos_proxy import FailingProxy, Fault
from chaos_state import State, StoredDocument, StoredPoint, differences
from patience import PATIENCE_S
from served import in_thread

from ingest.readers import type_of_suffix

TARGETS = (Target.WORKER, Target.EDGE)


def plan_of(seed: int) -> Plan:
    return make_plan(seed, real_files(320), kills=32, targets=TARGETS, workers=2)


def test_the_corpus_is_many_different_real_files_of_every_kind() -> None:
    files = real_files(320)
    assert len({file.data for file in files}) == len({file.name for file in files}) == 320
    kinds = Counter(type_of_suffix(file.name) for file in files)
    assert set(kinds) == {"text/plain", "text/markdown", "text/html", "text/csv"}


def test_the_seed_decides_the_plan() -> None:
    assert plan_of(7) == plan_of(7)
    assert plan_of(7) != plan_of(8)


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_kills_every_target_and_edits_and_deletes(seed: int) -> None:
    plan = plan_of(seed)
    assert Counter(each.kill.target for each in plan.rounds) == {Target.WORKER: 16, Target.EDGE: 16}
    puts = Counter(operation.file.name for operation in plan.operations if isinstance(operation, Put))
    assert len(puts) == 320
    assert sum(count > 1 for count in puts.values()) > 20
    assert sum(isinstance(operation, Delete) for operation in plan.operations) > 10


class _Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.served += 1  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def upstream() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hello)
    server.served = 0  # type: ignore[attr-defined]
    with in_thread(server):
        yield server


def ask(port: int) -> int:
    """The status of the answer; 0 when the connection broke."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("POST", "/", body=b"x" * 1000)
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def test_the_proxy_breaks_what_it_says_and_nothing_else(upstream: ThreadingHTTPServer) -> None:
    with FailingProxy(seed=3, target_port=upstream.server_address[1]) as proxy:
        assert {ask(proxy.port) for _ in range(10)} == {200}
        proxy.is_breaking = True
        statuses = Counter(ask(proxy.port) for _ in range(200))
    injected = proxy.injected
    assert all(injected[fault] for fault in Fault)
    assert statuses[0] == injected[Fault.RESET_BEFORE] + injected[Fault.RESET_AFTER] + injected[Fault.CUT]
    assert statuses[500] + statuses[502] + statuses[503] == injected[Fault.ERROR]
    assert upstream.served == 210 - injected[Fault.RESET_BEFORE] - injected[Fault.ERROR]  # type: ignore[attr-defined]


class _Chunks(_Hello):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n")


def test_answers_in_chunks_pass_as_they_are() -> None:
    """As Qdrant sends what it compresses."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Chunks)
    with in_thread(server), FailingProxy(seed=3, target_port=server.server_address[1]) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        for _ in range(2):
            connection.request("POST", "/", body=b"x")
            assert connection.getresponse().read() == b"hello world"
        connection.close()


def test_nothing_passes_while_the_proxy_is_cut(upstream: ThreadingHTTPServer) -> None:
    with FailingProxy(seed=3, target_port=upstream.server_address[1]) as proxy, ThreadPoolExecutor(2) as threads:
        proxy.is_cut = True
        waiting = [threads.submit(ask, proxy.port) for _ in range(2)]
        assert not wait(waiting, timeout=0.5).done
        assert upstream.served == 0  # type: ignore[attr-defined]
        proxy.is_cut = False
        assert [each.result() for each in waiting] == [200, 200]


def stored(*, fields: str = "title", payload: str = "{}", vector: float = 1.0, word: int = 7) -> StoredDocument:
    return StoredDocument(fields, ("0 hash 0-4 None",), (StoredPoint("id", payload, np.array([vector]), {word: 1.5}),))


def test_like_states_do_not_differ() -> None:
    here = State({"a.txt": stored()}, ())
    assert differences(here, State({"a.txt": stored(vector=1.000001)}, ())) == []


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ({}, "a.txt is missing"),
        ({"a.txt": stored(), "b.txt": stored()}, "b.txt should not be there"),
        ({"a.txt": stored(fields="other")}, "other instead of title"),
        ({"a.txt": replace(stored(), chunks=())}, "chunks"),
        ({"a.txt": stored(payload='{"page_content": "x"}')}, "payloads"),
        ({"a.txt": replace(stored(), points=())}, "payloads"),
        ({"a.txt": stored(vector=0.9999)}, "vectors"),
        ({"a.txt": stored(word=8)}, "vectors"),
    ],
)
def test_every_kind_of_difference_is_told(documents: dict[str, StoredDocument], told: str) -> None:
    (found,) = differences(State({"a.txt": stored()}, ()), State(documents, ()))
    assert told in found


def test_faults_of_a_state_are_differences() -> None:
    assert differences(State({}, ()), State({}, ("2 jobs are dead",))) == ["2 jobs are dead"]
