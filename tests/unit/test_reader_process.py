"""The process that parses documents: what it gives, what ends it, and that nothing of it stays behind."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from bytes_reader import BytesReader
from patience import PATIENCE_S, wait_until

from app.errors import DocumentError, ReadingLimitError, ServerLimitError, UnavailableError
from app.types.texts import Cell, Findings, Mark, TextPart, Word
from ingest.readers import ProcessLimits, ReadLimits
from ingest.readers.children import ReaderChild
from ingest.readers.document import read_document
from ingest.readers.messages import (
    Advance,
    AnswerReader,
    MessageError,
    ReadMessage,
    Refusal,
    write_frame,
    write_message,
)

LIMITS = ProcessLimits(wall_s=60, cpu_s=60)


# Takes a parser more than a second, whatever the machine.
SLOW_TABLE = b"a,b,c,d\n" + b"1,2,3,4\n" * 200_000


@pytest.fixture
def reader_factory() -> Iterator[Callable[..., BytesReader]]:
    opened: list[BytesReader] = []

    def build(
        *, limits: ReadLimits | None = None, is_stopping: Callable[[], bool] = bool, **changes: float
    ) -> BytesReader:
        process_limits = replace(LIMITS, **changes)
        opened.append(
            BytesReader(limits=limits or ReadLimits(), process_limits=process_limits, is_stopping=is_stopping)
        )
        return opened[-1]

    yield build
    for reader in opened:
        reader.close()


@pytest.fixture(scope="module")
def warm_reader() -> Iterator[BytesReader]:
    """To be shared: starting a child takes most of a second."""
    with pytest.MonkeyPatch.context() as patch, BytesReader(process_limits=LIMITS) as reader:
        patch.setenv("GIRCSE_DATABASE_URL", "postgresql://me:secret@host/db")
        reader.read(b"warm", uri="a.txt")
        yield reader


def test_reads_as_in_this_process(warm_reader):
    page = "<title>Köln 東京</title><meta name=author content='Ada'><p>One.</p>".encode()
    assert warm_reader.read(page, uri="a.html") == read_document(page, uri="a.html")


def test_refusal_is_the_parsers_own(warm_reader):
    with pytest.raises(DocumentError, match="This PDF is truncated"):
        warm_reader.read(b"%PDF-1.4", uri="a.txt")


def test_refusal_by_a_limit_of_the_server_is_known_as_such(reader_factory, warm_reader):
    with pytest.raises(ServerLimitError, match="GIRCSE_MAX_DOCUMENT_CHARACTERS"):
        reader_factory(limits=ReadLimits(max_characters=3)).read(b"four letters", uri="a.txt")
    with pytest.raises(DocumentError) as refused:
        warm_reader.read(b"%PDF-1.4", uri="a.txt")
    assert not isinstance(refused.value, ServerLimitError)


def test_every_refusal_that_the_operator_can_lift_is_a_limit_of_the_server():
    """The page offers a retry for these, which their messages name."""
    for file in sorted((Path(__file__).parents[2] / "ingest" / "readers").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "DocumentError":
                text = ast.unparse(node)
                assert not re.search(r"GIRCSE_[A-Z]|pip install", text), f"{file.name}:{node.lineno}"


def test_one_child_reads_many_documents(warm_reader):
    before = warm_reader.child_ids
    for number in range(5):
        assert warm_reader.read(b"text %d" % number, uri="a.txt").text == f"text {number}"
    assert warm_reader.child_ids == before
    assert len(before) == 1


def test_threads_read_at_the_same_time(warm_reader):
    texts = [f"document {number} " * 1_000 for number in range(40)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda text: warm_reader.read(text.encode(), uri="a.txt").text, texts))
    assert found == texts


def test_more_threads_than_children_wait_for_one():
    with BytesReader(process_limits=LIMITS, max_children=1) as reader, ThreadPoolExecutor(4) as pool:
        names = [f"document {number}" for number in range(8)]
        reading = [pool.submit(reader.read, name.encode(), uri="a.txt") for name in names]
        most = 0
        while not all(each.done() for each in reading):
            most = max(most, len(reader.child_ids))
        assert [each.result().text for each in reading] == names
    assert most == 1


def test_idle_child_that_died_is_replaced(warm_reader):
    before = warm_reader.child_ids
    for child_id in before:
        os.kill(child_id, signal.SIGTERM)
    wait_until(lambda: all(psutil.Process(child_id).status() == psutil.STATUS_ZOMBIE for child_id in before))
    assert warm_reader.read(b"next", uri="a.txt").text == "next"
    assert before.isdisjoint(warm_reader.child_ids)
    assert not any(map(psutil.pid_exists, before))


def test_child_gives_way_to_a_fresh_one_after_its_documents(reader_factory):
    reader = reader_factory(max_documents=2)
    assert reader.read(b"one", uri="a.txt").text == "one"
    assert len(reader.child_ids) == 1
    assert reader.read(b"two", uri="a.txt").text == "two"
    assert reader.child_ids == frozenset()


def test_child_that_holds_much_memory_gives_way_to_a_fresh_one(reader_factory):
    reader = reader_factory(idle_memory_bytes=1_000_000)
    assert reader.read(b"one", uri="a.txt").text == "one"
    assert reader.child_ids == frozenset()


def test_too_slow_document_is_refused(reader_factory):
    reader = reader_factory(wall_s=0.3)
    with pytest.raises(ReadingLimitError, match=r"longer than 0\.3 s.*Split it"):
        reader.read(SLOW_TABLE, uri="a.csv")
    assert reader.child_ids == frozenset()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows counts no CPU time for a limit")
def test_document_that_takes_too_much_cpu_time_is_refused(reader_factory):
    reader = reader_factory(cpu_s=0)  # a second is left to each
    with pytest.raises(ReadingLimitError, match="CPU time, which is the limit"):
        reader.read(SLOW_TABLE, uri="a.csv")


def test_document_that_takes_too_much_memory_is_refused_and_the_next_one_read(reader_factory):
    reader = reader_factory(memory_bytes=40_000_000)
    with pytest.raises(ReadingLimitError, match="more than 40 MB of memory"):
        reader.read(b'["' + b"word " * 10_000_000 + b'"]', uri="a.json")
    assert reader.read(b"next", uri="a.txt").text == "next"


def test_watch_from_outside_sees_memory_where_the_system_does_not_limit_it(reader_factory, monkeypatch):
    reader = reader_factory(memory_bytes=10**12)  # far beyond any limit that the system would enforce
    reader.read(b"warm", uri="a.txt")
    monkeypatch.setattr("ingest.readers.children.ReaderChild._memory_bytes", lambda self: 2 * 10**12)
    with pytest.raises(DocumentError, match="MB of memory, which is the limit"):
        reader.read(SLOW_TABLE, uri="a.csv")


def test_document_whose_child_was_killed_is_read_again(reader_factory):
    reader = reader_factory(wall_s=PATIENCE_S, cpu_s=int(PATIENCE_S))
    reader.read(b"warm", uri="a.txt")
    (child_id,) = reader.child_ids
    threading.Timer(0.1, os.kill, (child_id, signal.SIGTERM)).start()
    assert reader.read(SLOW_TABLE[: len(SLOW_TABLE) // 4], uri="a.csv").text.startswith("a: 1; b: 2")
    assert child_id not in reader.child_ids


def test_document_that_crashes_its_child_twice_is_refused(reader_factory, monkeypatch):
    wait_until_ready = ReaderChild._wait_until_ready

    def crash_soon(child: ReaderChild, is_stopping: Callable[[], bool]) -> int:
        try:
            return wait_until_ready(child, is_stopping)
        finally:
            threading.Timer(0.2, os.kill, (child.pid, signal.SIGABRT)).start()

    monkeypatch.setattr(ReaderChild, "_wait_until_ready", crash_soon)
    reader = reader_factory()
    with pytest.raises(DocumentError, match=r"ended twice \(signal SIGABRT\)"):
        reader.read(SLOW_TABLE, uri="a.csv")


def test_stopping_worker_leaves_the_document_for_later(reader_factory):
    stop = threading.Event()
    reader = reader_factory(is_stopping=stop.is_set)
    reader.read(b"warm", uri="a.txt")
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(UnavailableError, match="read later"):
        reader.read(SLOW_TABLE, uri="a.csv")
    assert reader.child_ids == frozenset()


def test_close_ends_idle_and_busy_children(reader_factory):
    reader = reader_factory()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(reader.read, SLOW_TABLE, uri="a.csv")
        wait_until(lambda: reader.child_ids)
        (child_id,) = reader.child_ids
        reader.close()
        with pytest.raises(UnavailableError):
            reading.result()
    assert not psutil.pid_exists(child_id)
    with pytest.raises(UnavailableError, match="closed"):
        reader.read(b"too late", uri="a.txt")


PARENT = """
from bytes_reader import BytesReader
reader = BytesReader()
reader.read(b"warm", uri="a.txt")
print(*reader.child_ids, flush=True)
reader.read(b"a,b,c,d\\n" + b"1,2,3,4\\n" * 2_000_000, uri="a.csv")
"""


def test_killed_parent_leaves_no_child_even_in_a_document():
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        before = child.cpu_times().user
        wait_until(lambda: child.cpu_times().user > before + 0.1)
        parent.kill()
        child.wait(timeout=PATIENCE_S)


def test_child_gets_no_secrets_and_writes_no_files(warm_reader):
    child = psutil.Process(min(warm_reader.child_ids))
    assert "GIRCSE_DATABASE_URL" in os.environ
    assert not any(name.startswith("GIRCSE_") for name in child.environ())
    if sys.platform == "linux":
        assert child.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
        assert child.rlimit(psutil.RLIMIT_CORE) == (0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process say whom it ends first")
def test_where_memory_runs_out_the_child_is_ended_before_the_service(warm_reader):
    scores = [
        int(Path(f"/proc/{process}/oom_score_adj").read_text("ascii"))
        for process in (os.getpid(), *warm_reader.child_ids)
    ]
    assert all(score > scores[0] for score in scores[1:])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has loaded")
def test_child_loads_the_parser_of_its_documents_and_no_model_library(reader_factory):
    def loaded() -> set[str]:
        return {mapped.path for mapped in psutil.Process(min(reader.child_ids)).memory_maps()}

    reader = reader_factory()
    reader.read(b"Not a page.", uri="a.txt")
    assert not any("/lxml/" in path for path in loaded())
    reader.read(b"<p>A page.", uri="a.html")
    assert any("/lxml/" in path for path in loaded())
    assert not any("/torch/" in path or "/tokenizers/" in path or "/numpy/" in path for path in loaded())


def test_worker_loads_no_parser():
    code = "import sys, ingest.readers; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "ingest.readers.process" in loaded
    assert {"lxml", "openpyxl", "docx", "pypdf", "oxmsg"}.isdisjoint(loaded)


HARD = """
import resource
from ingest.readers.child_side import limit, prolong
from ingest.readers.limits import ProcessLimits

for kind, hard in ((resource.RLIMIT_CPU, 50), (resource.RLIMIT_AS, 8_000_000_000)):
    resource.setrlimit(kind, (hard, hard))
limit(ProcessLimits(cpu_s=200, memory_bytes=1_000_000_000), 1_000_000_000)
prolong(100)
print(resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_AS))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sets limits of Linux")
def test_child_keeps_the_limits_of_its_service():
    """Raising them is an error, which would be blamed on every document."""
    told = subprocess.run([sys.executable, "-c", HARD], check=True, capture_output=True, text=True).stdout
    assert told == "(50, 50) (3000000000, 8000000000)\n"


def test_child_that_cannot_start_is_not_an_error_of_the_document(reader_factory, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UnavailableError, match="does not start"):
        reader_factory().read(b"text", uri="a.txt")


class TestAnswersAreNotBelieved:
    def answer(self, *payloads: bytes, limits: ReadLimits | None = None) -> list[ReadMessage]:
        buffer = io.BytesIO()
        for payload in payloads:
            write_frame(buffer, payload)
        buffer.seek(0)
        answer = AnswerReader(buffer, limits or ReadLimits())
        return [answer.next() for _ in payloads]

    def part(self, **changes: object) -> bytes:
        values = {"text": "Body.", "page_starts": []}
        return json.dumps({"part": values | changes}).encode()

    def found(self, **changes: object) -> bytes:
        values = {"title": "T", "media_type": "text/plain", "metadata": {}}
        return json.dumps({"found": values | changes}).encode()

    def test_honest_answer_comes_through(self):
        messages = [
            TextPart("Body\n\n", [0], [Mark(0, 4, 1)], [Cell(0, 2, 4, 1)], [Word(0, 4, 1, 10, 20, 30, 40, 99)]),
            Advance(0.5),
            TextPart("Two", [6, 9], [], [], []),
            Findings(title="é", media_type="m", metadata={"n": 1, "x": 1.5, "b": True, "s": "1"}),
        ]
        buffer = io.BytesIO()
        for message in messages:
            write_message(buffer, message)
        buffer.seek(0)
        answer = AnswerReader(buffer, ReadLimits())
        assert [answer.next() for _ in messages] == messages

    @pytest.mark.parametrize(
        "payload",
        [
            pickle.dumps(print),
            b"",
            b"null",
            b"[" * 100_000,
            b"{}",
            b'{"part": null, "refusal": null}',
            b'{"part": {"text": "a"}, "refusal": {"reason": "b"}}',
            b'{"refusal": 7}',
            b'{"refusal": {"reason": 7}}',
        ],
    )
    def test_nonsense_is_refused(self, payload):
        with pytest.raises(MessageError):
            self.answer(payload)

    @pytest.mark.parametrize(
        "changes",
        [
            {"text": 5},
            {"text": "a\0b"},
            {"page_starts": [0, 99]},
            {"page_starts": [3, 1]},
            {"page_starts": [-1]},
            {"marks": [[0, 2]]},
            {"marks": [[0, 2, 8]]},
            {"marks": [[0, 2, -1]]},
            {"marks": [[-1, 2, 1]]},
            {"marks": [[2, 2, 1]]},
            {"marks": [[0, 3, 1], [2, 4, 1]]},
            {"marks": [[5, 6, 1]]},
            {"marks": [[0, 2**70, 1]]},
            {"marks": [[0.5, 2, 1]]},
        ],
    )
    def test_wrong_part_is_refused(self, changes):
        assert self.answer(self.part())
        with pytest.raises(MessageError):
            self.answer(self.part(**changes))

    @pytest.mark.parametrize(
        "changes",
        [
            {"title": 5},
            {"title": "x" * 2_001},
            {"media_type": "x" * 2_001},
            {"metadata": {"a": ["list"]}},
            {"metadata": {"a": "\0"}},
            {"metadata": {"a\0": "x"}},
            {"metadata": {"a": "x" * 2_001}},
            {"metadata": {"a" * 2_001: "x"}},
            {"metadata": dict.fromkeys(map(str, range(65)), 1)},
        ],
    )
    def test_wrong_findings_are_refused(self, changes):
        assert self.answer(self.found())
        with pytest.raises(MessageError):
            self.answer(self.found(**changes))

    def test_page_of_a_part_before_is_refused(self):
        assert len(self.answer(self.part(), self.part(page_starts=[5]))) == 2
        with pytest.raises(MessageError, match="pages"):
            self.answer(self.part(), self.part(page_starts=[4]))

    def test_more_text_than_was_allowed_is_refused(self):
        limits = ReadLimits(max_characters=12)
        assert len(self.answer(self.part(), self.part(), limits=limits)) == 2
        with pytest.raises(MessageError, match="too long"):
            self.answer(self.part(), self.part(), self.part(), limits=limits)

    def test_endless_answer_is_refused_before_it_is_read(self):
        with pytest.raises(MessageError, match="announced"):
            AnswerReader(io.BytesIO((2**62).to_bytes(8, "big")), ReadLimits()).next()

    def test_answer_cut_short_is_an_end(self):
        with pytest.raises(EOFError):
            AnswerReader(io.BytesIO((10).to_bytes(8, "big") + b"half"), ReadLimits()).next()

    def test_refusal_is_made_storable(self):
        buffer = io.BytesIO()
        write_message(buffer, Refusal("bad \ud800 \0" + "x" * 10_000))
        buffer.seek(0)
        refusal = AnswerReader(buffer, ReadLimits()).next()
        assert isinstance(refusal, Refusal)
        assert refusal.reason.startswith("bad \ufffd \ufffdxxx")
        assert len(refusal.reason) == 2_000
