from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from datetime import timedelta

from ingest_parts import IngestParts
from patience import PATIENCE_S, wait_until
from sqlalchemy import text
from toy_engine import toy_engine
from worker_process import SlowEmbedder

from app.testing import ToyEmbedder
from app.types.documents import DocumentState, Job, JobState
from ingest.worker import Worker
from ingest.worker_slots import WorkerSlots


@contextmanager
def working(parts: IngestParts, embedder: ToyEmbedder, *, slots: int) -> Iterator[threading.Event]:
    """A worker as it is wired; yields what stops it."""
    stop, places = threading.Event(), WorkerSlots(slots)

    def is_leaving() -> bool:
        return stop.is_set() or places.is_leaving()

    with toy_engine(embedder) as (local, _):
        pipeline = parts.pipeline(local.for_ingestion(is_leaving), batch_size=1)
        worker = Worker(catalog=parts.catalog, pipeline=pipeline, owner="test", poll_s=0.05, slots=places, block=1)
        thread = threading.Thread(target=worker.run, args=(stop,))
        thread.start()
        try:
            yield stop
        finally:
            stop.set()
            thread.join()


def submit_all(parts: IngestParts, *texts: str) -> list[Job]:
    jobs = [parts.submit(each, uri=f"{number}.txt")[1] for number, each in enumerate(texts)]
    return [job for job in jobs if job is not None]


def states_of(parts: IngestParts) -> dict[str, DocumentState]:
    return {document.uri: document.state for document in parts.catalog.documents()}


class PoisonedEmbedder(ToyEmbedder):
    """Notes how many texts each call held, and breaks at one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        self.sizes.append(len(texts))
        for each in texts:
            if "poison" in each:
                raise ZeroDivisionError("division by zero")
        return super().embed_documents(texts, instruction=instruction, steps=steps)


def test_jobs_are_done_at_the_same_time(parts: IngestParts) -> None:
    submit_all(parts, *(f"Text {number}." for number in range(8)))
    meeting = threading.Barrier(4, timeout=PATIENCE_S)  # nobody reads on before four do

    class MeetingEmbedder(ToyEmbedder):
        def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
            meeting.wait()
            return super().embed_documents(texts, instruction=instruction, steps=steps)

    stop = threading.Event()
    pipeline = parts.pipeline(MeetingEmbedder())
    worker = Worker(catalog=parts.catalog, pipeline=pipeline, owner="test", poll_s=0.05, slots=WorkerSlots(4), block=1)
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        wait_until(lambda: not open_jobs(parts))
    finally:
        stop.set()
        thread.join()
    assert parts.index.count("library--1") == 8


def test_one_slot_does_one_job_at_a_time(parts: IngestParts) -> None:
    submit_all(parts, *(f"Text {number}." for number in range(6)))
    embedder = PoisonedEmbedder()
    with working(parts, embedder, slots=1):
        wait_until(lambda: parts.catalog.job_counts()[JobState.DONE] == 6)
    assert embedder.sizes == [1] * 6


def test_a_job_that_fails_does_not_stop_the_others(parts: IngestParts) -> None:
    jobs = submit_all(parts, *("poison" if number == 3 else f"Text {number}." for number in range(8)))
    with working(parts, PoisonedEmbedder(), slots=8):
        wait_until(lambda: parts.catalog.job_counts()[JobState.RUNNING] == 0 and len(open_jobs(parts)) == 1)
    failed = parts.catalog.job(jobs[3].id)
    assert (failed.state, failed.attempts) == (JobState.FAILED, 1)
    assert "ZeroDivisionError" in str(failed.error)
    assert [uri for uri, state in states_of(parts).items() if state is not DocumentState.READY] == ["3.txt"]
    assert all(parts.catalog.job(job.id).attempts == 1 for job in jobs)


def open_jobs(parts: IngestParts) -> list[Job]:
    return [job for job in parts.catalog.jobs() if job.state is not JobState.DONE]


def test_a_cancelled_job_is_left_after_the_call_under_way_though_others_are_in_the_model(parts: IngestParts) -> None:
    long = "\n".join(f"Paragraph {number}." for number in range(30))
    jobs = submit_all(parts, *(f"{number}: {long}" for number in range(4)))
    embedder = SlowEmbedder()
    embedder.seconds_per_text = 0.4  # 1.6 s for a joint call of four
    with working(parts, embedder, slots=4):
        wait_until(lambda: len(embedder.embedded_texts) >= 8)
        parts.catalog.cancel(jobs[1].id)
        before = len(embedder.embedded_texts)
        wait_until(lambda: parts.catalog.job(jobs[1].id).lease_owner is None)
        assert len(embedder.embedded_texts) <= before + 8, "it waited for more than the call under way and the next"
        assert {parts.catalog.job(job.id).state for job in jobs if job is not jobs[1]} == {JobState.RUNNING}


def test_a_worker_that_stops_gives_every_job_back_at_once(parts: IngestParts) -> None:
    long = "\n".join(f"Paragraph {number}." for number in range(30))
    submit_all(parts, *(f"{number}: {long}" for number in range(4)))
    embedder = SlowEmbedder()
    embedder.seconds_per_text = 0.2
    with working(parts, embedder, slots=4) as stop:
        wait_until(lambda: len(embedder.embedded_texts) >= 4)
        stop.set()
        before = len(embedder.embedded_texts)
    assert len(embedder.embedded_texts) <= before + 8, "it went on after the call under way"
    assert [(job.state, job.attempts, job.lease_owner) for job in parts.catalog.jobs()] == [
        (JobState.QUEUED, 0, None)
    ] * 4


def test_a_paused_collection_empties_its_slots(parts: IngestParts) -> None:
    long = "\n".join(f"Paragraph {number}." for number in range(30))
    submit_all(parts, *(f"{number}: {long}" for number in range(4)))
    embedder = SlowEmbedder()
    embedder.seconds_per_text = 0.1
    with working(parts, embedder, slots=4):
        wait_until(lambda: len(embedder.embedded_texts) >= 4)
        parts.catalog.pause()
        wait_until(lambda: parts.catalog.job_counts()[JobState.RUNNING] == 0)
    assert parts.catalog.job_counts()[JobState.QUEUED] == 4


def end_two_workers(parts: IngestParts, uri: str) -> None:
    statement = text("UPDATE job SET attempts = 2 WHERE document_id = (SELECT id FROM document WHERE uri = :uri)")
    with parts.engine.begin() as connection:
        connection.execute(statement, {"uri": uri})


class CrowdEmbedder(SlowEmbedder):
    """Notes how many jobs were in flight when a text was embedded."""

    def __init__(self, parts: IngestParts) -> None:
        super().__init__()
        self.seconds_per_text = 0.05
        self.in_flight: dict[str, int] = {}
        self._parts = parts

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        running = self._parts.catalog.job_counts()[JobState.RUNNING]
        self.in_flight.update(dict.fromkeys(texts, running))
        return super().embed_documents(texts, instruction=instruction, steps=steps)


def test_what_ended_two_workers_is_done_alone_lest_it_takes_others_with_it(parts: IngestParts) -> None:
    submit_all(parts, *("suspect" if number == 4 else f"Text {number}." for number in range(12)))
    end_two_workers(parts, "4.txt")
    embedder = CrowdEmbedder(parts)
    with working(parts, embedder, slots=4):
        wait_until(lambda: parts.catalog.job_counts()[JobState.DONE] == 12)
    assert embedder.in_flight.pop("suspect") == 1
    assert max(embedder.in_flight.values()) > 1


def test_a_suspect_that_waits_to_be_alone_keeps_its_lease(parts: IngestParts) -> None:
    submit_all(parts, "\n".join(f"Paragraph {number}." for number in range(8)), "suspect")
    end_two_workers(parts, "1.txt")
    embedder = CrowdEmbedder(parts)
    embedder.seconds_per_text = 0.2
    stop, slots = threading.Event(), WorkerSlots(2)
    pipeline = parts.pipeline(embedder, batch_size=1)
    worker = Worker(
        catalog=parts.catalog, pipeline=pipeline, owner="test", lease=timedelta(seconds=1), poll_s=0.05, slots=slots
    )
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    wait_until(lambda: parts.catalog.job_counts()[JobState.DONE] == 2)
    stop.set()
    thread.join()
    assert [job.attempts for job in parts.catalog.jobs() if job.attempts != 1] == [3]


def test_who_watches_for_a_job_asks_in_its_context() -> None:
    slots = WorkerSlots()
    answers = []

    def ask(ask_in: Context) -> None:
        thread = threading.Thread(target=lambda: answers.append(ask_in.run(slots.is_leaving)))
        thread.start()
        thread.join()

    with slots.holding(lambda: True):
        ask(copy_context())
        ask(Context())  # another job's
    ask(copy_context())
    assert answers == [True, False, False]


def test_with_patience_another_slot_opens_only_beside_one_that_is_long_in_reading() -> None:
    slots = WorkerSlots(3, patience_s=0.3)
    assert slots.take(timeout_s=0)
    assert not slots.take(timeout_s=0)
    assert slots.take(timeout_s=5)
    assert not slots.take(timeout_s=0)
    slots.give_back()
    assert not slots.take(timeout_s=0.1)
    slots.give_back()
    assert slots.take(timeout_s=0)  # nothing is at work


def test_another_slot_opens_beside_jobs_that_have_been_read() -> None:
    slots = WorkerSlots(3, patience_s=60)
    assert slots.take(timeout_s=0)
    with slots.holding(lambda: False):
        assert not slots.take(timeout_s=0)
        slots.note_read()
        slots.note_read()  # with each batch of a long document
        assert slots.take(timeout_s=0)
        assert not slots.take(timeout_s=0)  # the second one is being read
    slots.give_back()
    assert not slots.take(timeout_s=0)
    slots.give_back()
    assert slots.take(timeout_s=0)


def test_the_next_documents_are_read_while_the_model_has_those_before(parts: IngestParts) -> None:
    submit_all(parts, *(f"Text {number}." for number in range(4)))
    stop, slots = threading.Event(), WorkerSlots(2, patience_s=60)
    both = threading.Barrier(2)

    class Meeting(ToyEmbedder):
        def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
            both.wait(PATIENCE_S)
            return super().embed_documents(texts, instruction=instruction, steps=steps)

    pipeline = parts.pipeline(Meeting(), before_embedding=slots.note_read)
    worker = Worker(catalog=parts.catalog, pipeline=pipeline, owner="test", poll_s=0.05, slots=slots, block=2)
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    wait_until(lambda: parts.catalog.job_counts()[JobState.DONE] == 4)
    stop.set()
    thread.join()
