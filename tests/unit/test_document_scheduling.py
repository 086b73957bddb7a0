"""What several jobs want embedded at the same time: computed together, in turns, each with its own faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from embedding_server import WatchedEncoder
from patience import PATIENCE_S, wait_until
from tiny_models import family_encoder, save_tiny_model
from toy_engine import EngineEmbedder, ToyEncoder, toy_engine

from app.errors import UnavailableError
from app.testing import ToyEmbedder
from embedder.engine.engine import Engine
from embedder.engine.limits import Limits
from embedder.engine.work import Priority

Jobs = Callable[..., list["Future[list[list[float]]]"]]


class GatedEmbedder(ToyEmbedder):
    """Breaks at texts that say so, and waits until `unblocked` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.unblocked = threading.Event()
        self.unblocked.set()

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        assert self.unblocked.wait(PATIENCE_S)
        for text in texts:
            if "broken" in text:
                raise ZeroDivisionError(f"Cannot embed {text!r}.")
        return super().embed_documents(texts, instruction=instruction, steps=steps)


@pytest.fixture
def toy() -> Iterator[GatedEmbedder]:
    toy = GatedEmbedder()
    yield toy
    toy.unblocked.set()


@pytest.fixture
def opened(toy: GatedEmbedder) -> Iterator[tuple[EngineEmbedder, ToyEncoder]]:
    with toy_engine(toy) as opened:
        yield opened


@pytest.fixture
def local(opened: tuple[EngineEmbedder, ToyEncoder]) -> EngineEmbedder:
    return opened[0]


@pytest.fixture
def batches(opened: tuple[EngineEmbedder, ToyEncoder]) -> list[list[str]]:
    return opened[1].batches


@pytest.fixture
def jobs(local: EngineEmbedder, toy: GatedEmbedder) -> Iterator[Jobs]:
    """Each in a thread of its own, in this order, while the model is held up; then it is not."""
    with ExitStack() as threads:
        pool = threads.enter_context(ThreadPoolExecutor(16))
        threads.callback(toy.unblocked.set)

        def ask(*requests: Sequence[str], instructions: Sequence[str] = ()) -> list[Future[list[list[float]]]]:
            toy.unblocked.clear()
            ingesting = local.for_ingestion(lambda: False)
            futures = []
            waiting = 0
            for texts, instruction in zip(requests, instructions or [""] * len(requests), strict=True):
                futures.append(pool.submit(ingesting.embed_documents, texts, instruction=instruction, steps=1))
                if len(futures) == 1:  # the model takes this one at once
                    wait_until(lambda: is_computing(local))
                    waiting = local.engine.scheduler.depth(Priority.DOCUMENT)
                else:
                    waiting += len(set(texts))
                    wait_until(lambda: local.engine.scheduler.depth(Priority.DOCUMENT) == waiting)  # noqa: B023
            toy.unblocked.set()
            return futures

        yield ask


def is_computing(local: EngineEmbedder) -> bool:
    return bool(local.engine.encoder.batches)  # type: ignore[attr-defined]


def expected(*texts: str, instruction: str = "") -> np.ndarray:
    return np.array(ToyEmbedder().embed_documents(texts, instruction=instruction, steps=1))


def test_what_several_jobs_want_is_one_batch(jobs: Jobs, batches: list[list[str]]) -> None:
    requests = [["held up"], ["a", "b"], ["c"], ["d", "e", "f"]]
    answers = [job.result() for job in jobs(*requests)]
    assert [sorted(batch) for batch in batches] == [["held up"], ["a", "b", "c", "d", "e", "f"]]
    for texts, answer in zip(requests, answers, strict=True):
        np.testing.assert_allclose(answer, expected(*texts), atol=1e-6)


def test_one_that_is_alone_waits_for_nobody(local: EngineEmbedder) -> None:
    local.for_ingestion(lambda: False).embed_documents(["a"], instruction="", steps=1)
    assert local.embed_documents([], instruction="", steps=1) == []


def test_a_batch_holds_no_more_texts_than_allowed(jobs: Jobs, batches: list[list[str]]) -> None:
    answers = jobs(["held up"], *[[f"{name}{number}" for number in range(20)] for name in "abc"])
    assert [len(answer.result()) for answer in answers] == [1, 20, 20, 20]
    assert [len(batch) for batch in batches] == [1, 32, 28]


def test_other_instructions_give_other_vectors(jobs: Jobs) -> None:
    _, one, two = jobs(["held up"], ["same"], ["same"], instructions=["", "one", "two"])
    np.testing.assert_allclose(one.result(), expected("same", instruction="one"), atol=1e-6)
    np.testing.assert_allclose(two.result(), expected("same", instruction="two"), atol=1e-6)


def test_a_fault_goes_to_its_owner_alone(jobs: Jobs) -> None:
    _, good, broken, fine = jobs(["held up"], ["good"], ["well", "broken"], ["fine"])
    with pytest.raises(ZeroDivisionError, match="'broken'"):
        broken.result()
    np.testing.assert_allclose(good.result(), expected("good"), atol=1e-6)
    np.testing.assert_allclose(fine.result(), expected("fine"), atol=1e-6)


def test_who_is_to_leave_waits_no_longer_and_is_not_embedded(
    local: EngineEmbedder, toy: GatedEmbedder, batches: list[list[str]]
) -> None:
    toy.unblocked.clear()
    leaving = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        staying = pool.submit(local.for_ingestion(lambda: False).embed_documents, ["stays"], instruction="", steps=1)
        wait_until(lambda: bool(batches))
        left = pool.submit(local.for_ingestion(leaving.is_set).embed_documents, ["left"], instruction="", steps=1)
        wait_until(lambda: local.engine.scheduler.depth(Priority.DOCUMENT) == 1)
        leaving.set()
        with pytest.raises(UnavailableError):
            left.result(timeout=PATIENCE_S)
        toy.unblocked.set()
        assert len(staying.result()) == 1
    with pytest.raises(UnavailableError):
        local.for_ingestion(leaving.is_set).embed_documents(["too late"], instruction="", steps=1)
    assert batches == [["stays"]]


def test_a_note_comes_in_between_two_batches_of_a_book(jobs: Jobs, batches: list[list[str]]) -> None:
    first, second = ([f"{name} {number:02}" for number in range(64)] for name in ("first", "second"))
    book, other_book, note, broken = jobs(first, second, ["note"], ["broken"], instructions=["", "", "", "another"])
    with pytest.raises(ZeroDivisionError, match="broken"):
        broken.result()
    np.testing.assert_allclose(note.result(), expected("note"), atol=1e-6)
    np.testing.assert_allclose(book.result(), expected(*first), atol=1e-6)
    np.testing.assert_allclose(other_book.result(), expected(*second), atol=1e-6)
    assert {"note", "first 32"} <= {*batches[1]}  # which is filled with the book all the same
    assert "broken" in {*batches[1], *batches[2]}
    assert batches[0][0] == "first 00"


def test_a_book_that_nobody_waits_for_ends_between_two_batches(
    local: EngineEmbedder, toy: GatedEmbedder, batches: list[list[str]]
) -> None:
    leaving = threading.Event()
    ingesting = local.for_ingestion(leaving.is_set)
    toy.unblocked.clear()
    with ThreadPoolExecutor(1) as pool:
        texts = [f"book {number:03}" for number in range(256)]
        asked = pool.submit(ingesting.embed_documents, texts, instruction="", steps=1)
        wait_until(lambda: bool(batches))
        leaving.set()
        with pytest.raises(UnavailableError):
            asked.result()
        leaving.clear()
        toy.unblocked.set()
    ingesting.embed_documents(["next"], instruction="", steps=1)
    assert [len(batch) for batch in batches] == [32, 1]


def test_a_query_and_highlights_wait_for_one_batch_of_documents_at_most(tmp_path: Path) -> None:
    encoder = WatchedEncoder(family_encoder(save_tiny_model(tmp_path / "tiny", "qwen2")))
    limits = Limits(batch_texts=4, batch_s=1e6)
    with Engine(encoder, limits, streams=1) as engine, ThreadPoolExecutor(3) as pool:  # type: ignore[arg-type]
        local = EngineEmbedder(engine)
        encoder.unblocked.clear()
        book = [f"page {number}" for number in range(16)]
        documents = pool.submit(local.for_ingestion(lambda: False).embed_documents, book, instruction="", steps=1)
        wait_until(lambda: bool(encoder.batches))
        question = pool.submit(local.embed_query, "the question", instruction="", steps=1)
        wait_until(lambda: engine.scheduler.depth(Priority.QUERY) == 1)
        hit = pool.submit(local.embed_documents, ["a sentence of a hit"], instruction="", steps=1)
        wait_until(lambda: engine.scheduler.depth(Priority.QUERY) == 2)
        encoder.unblocked.set()
        assert len(documents.result()) == 16
        assert question.result().vector.size
        assert len(hit.result()) == 1
    asked = {encoder.ids("the question"), encoder.ids("a sentence of a hit")}
    assert asked <= {ids for batch in encoder.batches[1:3] for ids in batch}


def test_joint_vectors_of_a_real_decoder_are_those_of_single_calls(tmp_path: Path) -> None:
    encoder = family_encoder(save_tiny_model(tmp_path / "tiny", "qwen2"))
    requests = [["A short text."], ["A text that is a good deal longer than the other one. " * 5], ["One.", "Two."]]
    watched = WatchedEncoder(encoder)
    with Engine(watched, streams=1) as engine, ThreadPoolExecutor(4) as pool:  # type: ignore[arg-type]
        ingesting = EngineEmbedder(engine).for_ingestion(lambda: False)
        watched.unblocked.clear()
        held = pool.submit(ingesting.embed_documents, ["held up"], instruction="", steps=1)
        wait_until(lambda: bool(watched.batches))
        asked = [pool.submit(ingesting.embed_documents, texts, instruction="", steps=1) for texts in requests]
        wait_until(lambda: engine.scheduler.depth(Priority.DOCUMENT) == 4)
        watched.unblocked.set()
        held.result()
    assert max(map(len, watched.batches)) > 1
    for texts, answer in zip(requests, asked, strict=True):
        for text, vector in zip(texts, answer.result(), strict=True):
            alone = encoder.encode_documents([text], instruction="", steps=1)[0]
            np.testing.assert_allclose(vector, alone, atol=1e-5)
