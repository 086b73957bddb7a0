"""What `make stack-test` counts and judges while a part of a stack is away. A small server answers for web."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import in_thread

sys.path.append(str(Path(__file__).parents[1] / "stack"))

from compose_stack import ROOT, Images, StackError, reason_to_skip
from run_stack import TABLE_MARK, conditions, main, table, write_into
from stack_load import LIMIT_S, Load, Outcome, load
from stack_steps import Row, Steps

HITS = {"hits": [{"rank": 1}]}


@dataclass
class FakeStack:
    """Web of a stack: `search` answers searches, `state` is what each document ends in."""

    search: Callable[[], tuple[int, dict[str, Any]]] = lambda: (200, HITS)
    state: str = "ready"
    refuses_documents: bool = False
    documents: list[str] = field(default_factory=list)
    profiles: str = "cpu,single"
    url: str = ""

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, trust_env=False)

    def answer(self, method: str, path: str) -> tuple[int, object]:
        if path == "/api/v1/search":
            return self.search()
        if method == "POST":
            if self.refuses_documents:
                return 503, {"title": "CatalogError"}
            self.documents.append(f"d{len(self.documents)}")
            return 202, {"document": {"id": self.documents[-1]}}
        if "counts" in path:
            failed = len(self.documents) if self.state == "failed" else 0
            return 200, {"total": len(self.documents), "states": {"queued": 0, "failed": failed}}
        return 200, {"state": self.state}


@pytest.fixture
def stack() -> Iterator[FakeStack]:
    fake = FakeStack()

    class Web(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, body = fake.answer(self.command, self.path)
            sent = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    with in_thread(server):
        yield fake


def run_load(stack: FakeStack, searches: int = 4) -> Load:
    """Until so many searches have ended and a document was handed in or refused."""
    with load(stack.client, ["river", "ferry"], collection="sample", label="test") as asked:
        while len(asked.searches) < searches or not (asked.accepted or asked.refused_documents):
            time.sleep(0.01)
    return asked


def judged(stack: FakeStack, asked: Load, **options: bool) -> list[str]:
    row = Row("cpu,single", "a step")
    Steps(stack, [], print)._judge(row, asked, **{"may_fail": False, **options})  # type: ignore[arg-type]
    return row.failures


def test_load_counts_searches_and_documents(stack: FakeStack) -> None:
    asked = run_load(stack)
    assert asked.failed == []
    assert asked.accepted
    assert set(asked.accepted) <= set(stack.documents)
    assert judged(stack, asked) == []


def test_faults_are_counted_by_what_the_server_said(stack: FakeStack) -> None:
    stack.search = lambda: (503, {"title": "IndexUnavailableError"})
    stack.refuses_documents = True
    asked = run_load(stack)
    assert len(asked.failed) == len(asked.searches)
    assert asked.faults() == f"{len(asked.searches)} × 503 IndexUnavailableError"
    assert asked.accepted == []
    assert asked.refused_documents > 0


def test_an_answer_without_hits_is_a_fault(stack: FakeStack) -> None:
    stack.search = lambda: (200, {"hits": []})
    assert {each.fault for each in run_load(stack).searches} == {"200 without hits"}


def outcomes(*given: tuple[float, float, str], fault_at: float = 100) -> Load:
    """Of (seconds after the fault, seconds that it took, fault)."""
    return Load([Outcome(fault_at + began, took, fault) for began, took, fault in given], fault_at=fault_at)


WELL = (60, 0.1, "")


def test_failures_in_the_first_seconds_are_allowed(stack: FakeStack) -> None:
    assert judged(stack, outcomes((1, 0.1, "503"), (LIMIT_S - 0.1, 1, "503"), WELL)) == []


def test_failures_after_the_first_seconds_are_not(stack: FakeStack) -> None:
    asked = outcomes((1, 0.1, "503"), (LIMIT_S + 0.1, 1, "503"), WELL)
    assert judged(stack, asked) == ["1 searches failed later than 5 s after the fault"]
    assert judged(stack, asked, may_fail=True) == []


def test_a_search_that_takes_too_long_is_a_failure_whatever_it_answers(stack: FakeStack) -> None:
    asked = outcomes((1, LIMIT_S + 0.1, ""), WELL)
    assert judged(stack, asked, may_fail=True) == ["1 searches took longer than 5 s"]
    assert judged(stack, asked, may_fail=True, must_answer=False) == []


def test_searches_must_work_again_at_the_end(stack: FakeStack) -> None:
    asked = outcomes(WELL, *[(61 + number, 0.1, "503") for number in range(4)])
    assert judged(stack, asked, may_fail=True) == ["the last searches failed"]


def test_accepted_documents_must_be_searchable(stack: FakeStack) -> None:
    asked = run_load(stack)
    stack.state = "deleting"
    assert judged(stack, asked) == [
        f"{len(asked.accepted)} of {len(asked.accepted)} accepted documents are not searchable"
    ]
    stack.state = "failed"
    with pytest.raises(StackError, match="documents failed"):
        judged(stack, asked)


def test_time_until_searches_work_again_counts_from_the_return() -> None:
    asked = outcomes((1, 0.5, "503"), (9, 0.5, "503"), WELL)
    assert asked.failing_s == 0  # it did not come back
    asked.back_at = 107
    assert asked.failing_s == pytest.approx(2.5)


def test_a_failed_step_is_a_row_and_the_next_one_runs(stack: FakeStack) -> None:
    rows: list[Row] = []
    steps = Steps(stack, rows, lambda row: None)  # type: ignore[arg-type]
    with steps.step("one"):
        raise StackError("docker kill: no such container\nmore")
    with steps.step("two") as row:
        row.said = "well"
    assert [(row.what, row.failures) for row in rows] == [
        ("one", ["StackError: docker kill: no such container"]),
        ("two", []),
    ]
    assert rows[0].cells()[-2:] == ["StackError: docker kill: no such container", ""]
    assert rows[1].cells() == ["cpu,single", "two", "0", "–", "–", "–", "–", "–", "passed", "well"]


def test_table_says_what_stood_in_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("run_stack.docker", lambda *_: "1.2\n")
    real = Images("gircse", "qdrant", "postgres")
    assert "stood in" not in conditions(real)
    text = table([Row("cpu,cluster", "a step")], Images("gircse", "qdrant", "postgres", ("qdrant", "postgres")))
    assert "the embedded engine of gircse stood in for it" in text
    assert "nothing is replicated" in text
    assert "Debian's PostgreSQL stood in" in text
    assert "| cpu,cluster | a step | 0 |" in text


def test_table_of_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- table -->\nold\n")
    write_into(page, "new\n")
    assert page.read_text() == "# Page\n\n<!-- table -->\nnew\n"
    page.write_text("# Page\n")
    with pytest.raises(StackError, match="has no line <!-- table -->"):
        write_into(page, "new\n")
    assert TABLE_MARK in (ROOT / "docs/stack.md").read_text("utf-8")


def test_without_docker_it_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["run_stack.py"])
    assert reason_to_skip() == "Docker is not installed"
    assert main() == 0
    assert capsys.readouterr().out == "Skipped: Docker is not installed.\n"
