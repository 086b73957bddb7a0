"""Small documents that a worker ingests together: one claim, one call of the model, one write, one record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest
from ingest_parts import INDEX, IngestParts
from sqlalchemy import event, text

from app.errors import VectorIndexUnavailableError
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import DocumentState, Job, JobState, Point
from ingest.worker import SMALL_BYTES, Worker


class CountingIndex(InMemoryVectorIndex):
    def __init__(self) -> None:
        super().__init__()
        self.upserts: list[int] = []

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        self.upserts.append(len(points))
        super().upsert(index, points)


class HookedEmbedder(ToyEmbedder):
    """Notes the size of each call, and breaks at a text that holds "poison"."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.hook: Callable[[], None] = lambda: None

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        self.sizes.append(len(texts))
        self.hook()
        if any("poison" in each for each in texts):
            raise ZeroDivisionError("division by zero")
        return super().embed_documents(texts, instruction=instruction, steps=steps)


@pytest.fixture
def embedder() -> HookedEmbedder:
    return HookedEmbedder()


@pytest.fixture
def index() -> CountingIndex:
    return CountingIndex()


@pytest.fixture
def worker(parts: IngestParts, embedder: HookedEmbedder) -> Worker:
    return Worker(catalog=parts.catalog, pipeline=parts.pipeline(embedder, batch_size=64), owner="test", block=8)


def submit_all(parts: IngestParts, *contents: str | bytes) -> list[Job]:
    jobs = [parts.submit(each, uri=f"{number}.txt")[1] for number, each in enumerate(contents)]
    return [job for job in jobs if job is not None]


def states(parts: IngestParts) -> list[str]:
    return [document.state.value for document in sorted(parts.catalog.documents(), key=lambda each: each.uri)]


def test_a_block_is_one_call_of_the_model_and_one_write(
    parts: IngestParts, worker: Worker, embedder: HookedEmbedder
) -> None:
    submit_all(parts, *(f"Text {number}.\nIts second paragraph." for number in range(8)))
    assert worker.run_once() is True
    assert states(parts) == ["ready"] * 8
    assert embedder.sizes == [16]
    assert isinstance(parts.index, CountingIndex)
    assert parts.index.upserts == [16]
    for document in parts.catalog.documents():
        stored = {point_id for _, point_id in parts.index.points_of(INDEX, [document.id])}
        assert stored == {chunk.id for chunk in parts.catalog.chunks(document.id)}
        assert len(stored) == document.chunk_count == 2


def test_the_cost_of_a_block_in_transactions_does_not_grow_with_it(
    parts: IngestParts, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FRESH_S", "_PROGRESS_S", "_LOOK_S"):
        monkeypatch.setattr(f"ingest.leases.{name}", 60)  # leases are looked up by the clock
    commits: list[int] = []
    event.listen(parts.engine, "commit", lambda _: commits.append(1))
    for each in ("One.", "Two."):
        parts.submit(each, uri=f"{each}txt")
    commits.clear()
    worker.run_once()
    of_two = len(commits)
    submit_all(parts, *(f"Text {number}." for number in range(8)))
    commits.clear()
    worker.run_once()
    assert len(commits) == of_two
    assert states(parts) == ["ready"] * 10


def test_a_large_document_is_no_part_of_a_block(parts: IngestParts, worker: Worker, embedder: HookedEmbedder) -> None:
    submit_all(parts, "Small.", "L" * (SMALL_BYTES + 1), "Small, too.")
    worker.run_once()
    assert embedder.sizes == [2]
    worker.run_once()
    assert embedder.sizes == [2, 1]
    assert states(parts) == ["ready"] * 3


def test_one_that_cannot_be_read_fails_alone(parts: IngestParts, worker: Worker) -> None:
    submit_all(parts, "One.", "", "Three.")
    worker.run_once()
    assert states(parts) == ["ready", "failed", "ready"]
    assert "empty" in str(parts.catalog.documents(state=DocumentState.FAILED)[0].error)
    assert [job.attempts for job in parts.catalog.jobs()] == [1] * 3


def test_an_error_goes_to_the_document_that_caused_it(
    parts: IngestParts, worker: Worker, embedder: HookedEmbedder
) -> None:
    jobs = submit_all(parts, "One.", "poison", "Three.")
    worker.run_once()
    assert states(parts) == ["ready", "queued", "ready"]
    failed = parts.catalog.job(jobs[1].id)
    assert (failed.state, failed.attempts) == (JobState.FAILED, 1)
    assert "ZeroDivisionError" in str(failed.error)
    assert embedder.sizes == [3, 1, 1, 1]


def test_one_that_is_cancelled_meanwhile_is_let_go_before_the_others_are_done(
    parts: IngestParts, worker: Worker, embedder: HookedEmbedder
) -> None:
    jobs = submit_all(parts, *(f"Text {number}.\n" * 40 for number in range(4)))  # three calls of 64 and less
    owners: list[str | None] = []

    def cancel() -> None:
        if len(embedder.sizes) == 1:
            parts.catalog.cancel(jobs[3].id)
            time.sleep(0.2)  # what was looked up just before counts as true for a moment
        else:
            owners.append(parts.catalog.job(jobs[3].id).lease_owner)

    embedder.hook = cancel
    worker.run_once()
    assert states(parts) == ["ready"] * 3 + ["failed"]
    assert parts.catalog.job(jobs[3].id).state is JobState.CANCELLED
    assert list(parts.index.points_of(INDEX, [jobs[3].document_id])) == []
    assert owners[-1] is None


def test_a_worker_that_stops_gives_a_whole_block_back(
    parts: IngestParts, worker: Worker, embedder: HookedEmbedder
) -> None:
    submit_all(parts, "One.", "Two.", "Three.")
    stop = threading.Event()
    embedder.hook = stop.set
    worker.run_once(stop)
    assert [(job.state, job.attempts, job.lease_owner) for job in parts.catalog.jobs()] == [
        (JobState.QUEUED, 0, None)
    ] * 3
    assert parts.index.count(INDEX) == 0


def test_a_block_waits_for_an_index_that_is_away_and_costs_no_attempt(
    parts: IngestParts, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_all(parts, "One.", "Two.")

    def away(index: str, points: Sequence[Point]) -> None:
        raise VectorIndexUnavailableError("Qdrant is away.")

    with monkeypatch.context() as patched:
        patched.setattr(parts.index, "upsert", away)
        assert worker.run_once() is False
    assert [(job.state, job.attempts, job.error) for job in parts.catalog.jobs()] == [
        (JobState.QUEUED, 0, "Qdrant is away.")
    ] * 2


def test_what_a_worker_died_with_is_done_in_smaller_blocks(
    parts: IngestParts, worker: Worker, embedder: HookedEmbedder
) -> None:
    submit_all(parts, *(f"Text {number}." for number in range(8)))
    with parts.engine.begin() as connection:
        connection.execute(text("UPDATE job SET attempts = 1"))
    for _ in range(8):
        worker.run_once()
    assert embedder.sizes == [1] * 8  # an eighth of a block of eight


def test_edited_documents_keep_what_they_had(parts: IngestParts, worker: Worker, embedder: HookedEmbedder) -> None:
    submit_all(parts, "One.\nStays.", "Two.\nStays.")
    worker.run_once()
    embedder.embedded_texts.clear()
    submit_all(parts, "Uno.\nStays.", "Stays.")
    worker.run_once()
    assert embedder.embedded_texts == ["Uno."]
    assert sorted(str(point.payload["page_content"]) for point in all_points(parts)) == ["Stays.", "Stays.", "Uno."]
    assert {document.chunk_count for document in parts.catalog.documents()} == {1, 2}


def all_points(parts: IngestParts) -> list[Point]:
    return parts.index.retrieve(INDEX, list(parts.index.point_ids(INDEX)))
