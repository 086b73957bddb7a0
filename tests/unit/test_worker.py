from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from ingest_parts import INDEX, IngestParts
from patience import PATIENCE_S, wait_until
from sqlalchemy import text
from worker_process import SlowEmbedder, open_parts

from app.catalog.jobs import MAX_LOST_ATTEMPTS
from app.errors import NoAnswerError, UnavailableError, VectorIndexUnavailableError
from app.ports.texts import TextSink
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import DocumentState, JobState, Point
from app.types.texts import Findings
from ingest.pipeline import IngestPipeline
from ingest.readers import ProcessLimits, ProcessReader
from ingest.worker import Worker, retry_in
from ingest.worker_slots import WorkerSlots

TWENTY = "\n".join(f"Paragraph number {number}." for number in range(20))


@pytest.fixture
def worker_of(parts: IngestParts) -> Callable[..., Worker]:
    def build(
        pipeline: IngestPipeline | None = None,
        *,
        owner: str = "test",
        lease_s: float = 30,
        poll_s: float = 0.01,
        block: int = 1,
    ) -> Worker:
        lease, pipeline = timedelta(seconds=lease_s), pipeline or parts.pipeline()
        return Worker(catalog=parts.catalog, pipeline=pipeline, owner=owner, lease=lease, poll_s=poll_s, block=block)

    return build


def make_due(parts: IngestParts) -> None:
    """Lets the pause of every waiting job be over."""
    with parts.engine.begin() as connection:
        connection.execute(text("UPDATE job SET not_before = '2000-01-01 00:00:00.000000'"))


def test_without_a_job_there_is_nothing_to_do(worker_of: Callable[..., Worker]) -> None:
    assert worker_of().run_once() is False


def test_works_off_what_is_queued(parts: IngestParts, worker_of: Callable[..., Worker]) -> None:
    for number in range(3):
        parts.submit(f"Text {number}.", uri=f"{number}.txt")
    worker = worker_of()
    assert [worker.run_once() for _ in range(4)] == [True, True, True, False]
    assert parts.catalog.job_counts()[JobState.DONE] == 3
    assert parts.index.count(INDEX) == 3


def test_an_unreadable_document_is_dead_at_once_and_the_rest_goes_on(
    parts: IngestParts, worker_of: Callable[..., Worker]
) -> None:
    bad, _ = parts.submit(b"%PDF-1.7 cut off here", uri="bad.pdf")
    good, _ = parts.submit("Good.", uri="good.txt")
    worker = worker_of()
    assert [worker.run_once() for _ in range(3)] == [True, True, False]
    document = parts.catalog.document(bad.id)
    assert document.state is DocumentState.FAILED
    assert document.error is not None
    assert "PDF" in document.error
    (dead,) = parts.catalog.jobs(state=JobState.DEAD)
    assert (dead.error, dead.can_succeed_again) == (document.error, False)
    assert parts.catalog.document(good.id).state is DocumentState.READY


def test_a_document_that_hits_a_limit_may_be_tried_again(parts: IngestParts, worker_of: Callable[..., Worker]) -> None:
    _, job = parts.submit(b"a,b,c,d\n" + b"1,2,3,4\n" * 200_000, uri="a.csv")
    assert job is not None
    with ProcessReader(process_limits=ProcessLimits(wall_s=0.3, cpu_s=60)) as read:
        worker_of(parts.pipeline(read=read)).run_once()
    dead = parts.catalog.job(job.id)
    assert (dead.state, dead.can_succeed_again) == (JobState.DEAD, True)


def test_another_model_is_reported_on_the_document(parts: IngestParts, worker_of: Callable[..., Worker]) -> None:
    document, _ = parts.submit("Text.")
    worker_of(parts.pipeline(ToyEmbedder(fingerprint="toy-2"))).run_once()
    error = parts.catalog.document(document.id).error
    assert error is not None
    assert "gircse up --model" in error


class FaultyEmbedder(ToyEmbedder):
    """Raises an unexpected error."""

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        raise ZeroDivisionError("division by zero")


def test_an_unexpected_error_is_logged_under_the_id_that_the_job_shows_and_tried_again(
    parts: IngestParts, worker_of: Callable[..., Worker], caplog: pytest.LogCaptureFixture
) -> None:
    document, job = parts.submit("Text.")
    assert job is not None
    with caplog.at_level(logging.ERROR):
        assert worker_of(parts.pipeline(FaultyEmbedder())).run_once() is True
    failed = parts.catalog.job(job.id)
    assert (failed.state, failed.attempts) == (JobState.FAILED, 1)
    assert failed.error is not None
    assert "ZeroDivisionError: division by zero" in failed.error
    incident = failed.error.split("incident ")[1].split()[0]
    assert incident in caplog.text
    assert "Traceback" in caplog.text
    make_due(parts)
    worker_of().run_once()
    assert parts.catalog.document(document.id).state is DocumentState.READY


def test_an_error_that_stays_is_dead_after_five_attempts(parts: IngestParts, worker_of: Callable[..., Worker]) -> None:
    _, job = parts.submit("Text.")
    assert job is not None
    worker = worker_of(parts.pipeline(FaultyEmbedder()))
    for _ in range(5):
        assert worker.run_once()
        make_due(parts)
    assert parts.catalog.job(job.id).state is JobState.DEAD
    assert worker.run_once() is False


class AbsentIndex(InMemoryVectorIndex):
    """An engine that is away until it is told to come back."""

    is_away = True

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        if self.is_away:
            raise VectorIndexUnavailableError("Qdrant is away.")
        super().upsert(index, points)


def test_an_engine_that_is_away_costs_no_attempt(tmp_path: Path) -> None:
    index = AbsentIndex()
    parts = IngestParts.open(tmp_path, index)
    parts.add_collection(ToyEmbedder())
    document, job = parts.submit("Text.")
    assert job is not None
    worker = Worker(catalog=parts.catalog, pipeline=parts.pipeline(), owner="test")
    for _ in range(7):
        assert worker.run_once() is False
        waiting = parts.catalog.job(job.id)
        assert (waiting.state, waiting.attempts, waiting.error) == (JobState.QUEUED, 0, "Qdrant is away.")
        make_due(parts)
    index.is_away = False
    assert worker.run_once() is True
    assert parts.catalog.document(document.id).state is DocumentState.READY
    parts.engine.dispose()


class HangingIndex(InMemoryVectorIndex):
    """An engine that hangs on one text."""

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        if any("poison" in str(point.payload["page_content"]) for point in points):
            raise NoAnswerError("Qdrant does not answer.")
        super().upsert(index, points)


def test_a_document_on_which_the_engine_hangs_is_given_up(tmp_path: Path) -> None:
    """It is tried again at most as often as one during which workers end, and other documents of its block succeed."""
    parts = IngestParts.open(tmp_path, HangingIndex())
    parts.add_collection(ToyEmbedder())
    poison, job = parts.submit("poison")
    healthy, _ = parts.submit("Text.", uri="healthy.txt")
    assert job is not None
    worker = Worker(catalog=parts.catalog, pipeline=parts.pipeline(), owner="test")
    for _ in range(3 * MAX_LOST_ATTEMPTS):
        worker.run_once()
        make_due(parts)
    dead = parts.catalog.job(job.id)
    assert (dead.state, dead.attempts) == (JobState.DEAD, MAX_LOST_ATTEMPTS)
    assert "stopped answering" in str(parts.catalog.document(poison.id).error)
    assert parts.catalog.document(healthy.id).state is DocumentState.READY
    assert worker.run_once() is False
    parts.engine.dispose()


def test_cancelling_stops_the_running_job(parts: IngestParts, worker_of: Callable[..., Worker]) -> None:
    _, job = parts.submit(TWENTY)
    assert job is not None
    embedder = SlowEmbedder()
    embedder.seconds_per_text = 0.05
    thread = threading.Thread(target=worker_of(parts.pipeline(embedder, batch_size=1)).run_once)
    thread.start()
    wait_until(lambda: len(embedder.embedded_texts) > 1)
    parts.catalog.cancel(job.id)
    thread.join()
    assert len(embedder.embedded_texts) < 20
    assert parts.catalog.job(job.id).state is JobState.CANCELLED
    # The document is free at once: its next job need not wait for the lease to end.
    parts.catalog.retry(job.id)
    assert worker_of().run_once() is True
    assert parts.index.count(INDEX) == 20


class CountingIndex(InMemoryVectorIndex):
    """Counts how often points were written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        self.writes += 1
        super().upsert(index, points)


def test_what_is_cancelled_ends_with_the_batch_in_flight(tmp_path: Path) -> None:
    index = CountingIndex()
    parts = IngestParts.open(tmp_path, index)
    parts.add_collection(ToyEmbedder())
    _, job = parts.submit(TWENTY)
    assert job is not None
    embedder = SlowEmbedder()
    embedder.seconds_per_text = 0.6
    worker = Worker(catalog=parts.catalog, pipeline=parts.pipeline(embedder, batch_size=1), owner="test")
    thread = threading.Thread(target=worker.run_once)
    thread.start()
    wait_until(lambda: index.writes > 0)
    parts.catalog.cancel(job.id)
    embedded, writes = len(embedder.embedded_texts), index.writes
    assert parts.catalog.job(job.id).state is JobState.CANCELLED
    thread.join()
    assert len(embedder.embedded_texts) <= embedded + 2
    assert index.writes == writes
    parts.engine.dispose()


@pytest.mark.parametrize("act", ["cancel", "pause", "stop"])
def test_a_read_in_flight_is_interrupted_and_the_job_let_go(parts: IngestParts, act: str) -> None:
    """The reader watches its slot and `stop`, as the one in a process of its own does."""
    _, job = parts.submit("A book that takes an hour to read.")
    assert job is not None
    slots, stop, is_reading = WorkerSlots(), threading.Event(), threading.Event()

    def read(path: Path, *, uri: str, media_type: str, into: TextSink) -> Findings:
        is_reading.set()
        wait_until(lambda: slots.is_leaving() or stop.is_set())
        raise UnavailableError("Reading was interrupted.")

    pipeline = parts.pipeline(read=read)
    worker = Worker(catalog=parts.catalog, pipeline=pipeline, owner="test", slots=slots)
    thread = threading.Thread(target=worker.run_once, args=(stop,))
    thread.start()
    is_reading.wait()
    if act == "cancel":
        parts.catalog.cancel(job.id)
    elif act == "pause":
        parts.catalog.pause()
    else:
        stop.set()
    thread.join()
    left = parts.catalog.job(job.id)
    assert left.state is (JobState.CANCELLED if act == "cancel" else JobState.QUEUED)
    assert (left.lease_owner, left.error) == (None, None)
    if act == "cancel":
        parts.catalog.retry(job.id)
    parts.catalog.resume()
    # It is due at once, as if it had not been taken: there was no error to wait for.
    assert Worker(catalog=parts.catalog, pipeline=parts.pipeline(), owner="successor").run_once() is True


def test_newer_content_takes_over_from_a_running_job(parts: IngestParts, worker_of: Callable[..., Worker]) -> None:
    document, _ = parts.submit(TWENTY)
    embedder = SlowEmbedder()
    embedder.seconds_per_text = 0.05
    stop = threading.Event()
    thread = threading.Thread(target=worker_of(parts.pipeline(embedder, batch_size=1)).run, args=(stop,))
    thread.start()
    wait_until(lambda: len(embedder.embedded_texts) > 1)
    parts.submit("The newer text.")
    wait_until(lambda: parts.catalog.document(document.id).state is DocumentState.READY)
    stop.set()
    thread.join()
    assert parts.index.count(INDEX) == 1
    assert len(embedder.embedded_texts) < 20


def test_the_lease_of_a_long_step_is_kept_alive(parts: IngestParts, worker_of: Callable[..., Worker]) -> None:
    parts.submit("One paragraph.")
    embedder = SlowEmbedder()
    embedder.seconds_per_text = 3
    thread = threading.Thread(target=worker_of(parts.pipeline(embedder), lease_s=1.5).run_once)
    thread.start()
    wait_until(lambda: parts.catalog.job_counts()[JobState.RUNNING] == 1)
    stolen = []
    while thread.is_alive():
        stolen.append(parts.catalog.claim("thief", lease=timedelta(seconds=30)))
        thread.join(0.1)
    assert not any(stolen)
    assert parts.catalog.job_counts()[JobState.DONE] == 1


def test_progress_is_told_while_the_first_batch_takes_long(
    parts: IngestParts, worker_of: Callable[..., Worker]
) -> None:
    """Read within milliseconds, then a batch that takes long: that it is embedding is told before it ends."""
    _, job = parts.submit("One paragraph.")
    assert job is not None
    embedder = SlowEmbedder()
    embedder.seconds_per_text = 4
    thread = threading.Thread(target=worker_of(parts.pipeline(embedder), lease_s=60).run_once)
    thread.start()
    wait_until(lambda: parts.catalog.job(job.id).progress > 0)
    assert thread.is_alive()
    assert parts.catalog.job_counts()[JobState.RUNNING] == 1
    thread.join()


def test_several_workers_do_each_job_once(parts: IngestParts, worker_of: Callable[..., Worker]) -> None:
    for number in range(12):
        parts.submit(f"Text {number}.", uri=f"{number}.txt")
    embedder, stop = ToyEmbedder(), threading.Event()
    workers = [worker_of(parts.pipeline(embedder), owner=f"worker-{number}") for number in range(3)]
    threads = [threading.Thread(target=worker.run, args=(stop,)) for worker in workers]
    for thread in threads:
        thread.start()
    wait_until(lambda: parts.catalog.job_counts()[JobState.DONE] == 12)
    stop.set()
    for thread in threads:
        thread.join()
    assert sorted(embedder.embedded_texts) == sorted(f"Text {number}." for number in range(12))


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 10), (2, 20), (4, 80), (5, 160), (50, 600)])
def test_the_pause_between_attempts_doubles_up_to_ten_minutes(attempts: int, seconds: int) -> None:
    assert retry_in(attempts) == timedelta(seconds=seconds)


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
class TestProcess:
    """A worker process that is stopped in the middle of a document."""

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        parts = open_parts(tmp_path)
        parts.add_collection(ToyEmbedder())
        parts.submit(TWENTY)
        parts.index.close()  # type: ignore[attr-defined]  # one process at a time may have this folder
        parts.engine.dispose()
        return tmp_path

    @pytest.fixture
    def catalog_parts(self, home: Path) -> Iterator[IngestParts]:
        parts = IngestParts.open(home, InMemoryVectorIndex())
        yield parts
        parts.engine.dispose()

    def stop_in_the_middle(self, home: Path, parts: IngestParts, number: signal.Signals) -> int:
        script = Path(__file__).with_name("worker_process.py")
        process = subprocess.Popen([sys.executable, str(script), str(home), "1.5", "0.1"])
        try:
            wait_until(lambda: parts.catalog.jobs()[0].progress > 0.2)
            process.send_signal(number)
            return process.wait(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()

    def test_sigterm_gives_the_job_back_and_ends_cleanly(self, home: Path, catalog_parts: IngestParts) -> None:
        assert self.stop_in_the_middle(home, catalog_parts, signal.SIGTERM) == 0
        job = catalog_parts.catalog.jobs()[0]
        assert (job.state, job.attempts, job.lease_owner) == (JobState.QUEUED, 0, None)

    def test_after_sigkill_the_next_worker_finishes_and_embeds_only_the_rest(
        self, home: Path, catalog_parts: IngestParts
    ) -> None:
        assert self.stop_in_the_middle(home, catalog_parts, signal.SIGKILL) == -signal.SIGKILL
        assert catalog_parts.catalog.jobs()[0].state is JobState.RUNNING
        parts, embedder = open_parts(home), ToyEmbedder()
        successor = Worker(catalog=parts.catalog, pipeline=parts.pipeline(embedder), owner="successor")
        wait_until(successor.run_once)  # when the lease of the killed one has ended
        document = parts.catalog.documents()[0]
        assert (document.state, document.chunk_count) == (DocumentState.READY, 20)
        assert set(parts.index.point_ids(INDEX)) == {chunk.id for chunk in parts.catalog.chunks(document.id)}
        assert 0 < len(embedder.embedded_texts) < 20
        parts.index.close()  # type: ignore[attr-defined]
        parts.engine.dispose()


def test_when_all_is_done_it_is_told_once_and_again_after_more_work(parts: IngestParts) -> None:
    stop, idle = threading.Event(), []
    worker = Worker(
        catalog=parts.catalog, pipeline=parts.pipeline(), owner="test", poll_s=0.01, when_idle=lambda: idle.append(1)
    )
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        for round_ in (1, 2):
            parts.submit(f"Text {round_}.", uri=f"{round_}.txt")
            wait_until(lambda: parts.catalog.job_counts()[JobState.DONE] == round_)  # noqa: B023
            wait_until(lambda: len(idle) == round_)  # noqa: B023
        time.sleep(0.1)  # in which it looks for work several times
        assert len(idle) == 2
    finally:
        stop.set()
        thread.join()
