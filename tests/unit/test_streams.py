"""On a CPU an engine computes two batches of documents side by side, each by its share of the cores."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest
import torch
from embedding_server import Ids, WatchedEncoder
from patience import PATIENCE_S, wait_until
from tiny_models import save_tiny_model

from embedder import Encoder, load_encoder
from embedder.engine.engine import Engine
from embedder.engine.errors import NotServingError
from embedder.engine.limits import Limits
from embedder.engine.scheduler import Scheduler
from embedder.engine.streams import streams_for
from embedder.engine.work import Item, Priority, document_items
from embedder.model.model_thread import on_model_thread

CORES = 4


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return load_encoder(str(save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen2")), dtype="float32")


@pytest.fixture(autouse=True)
def cores() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(CORES)
    yield
    for each in (torch.set_num_threads, lambda count: on_model_thread(torch.set_num_threads, count)):
        each(before)


@pytest.fixture
def watched(encoder: Encoder) -> WatchedEncoder:
    return WatchedEncoder(encoder)


@pytest.fixture
def engine(watched: WatchedEncoder) -> Iterator[Engine]:
    with Engine(watched, Limits(batch_texts=4, cache_mb=0), streams=2) as engine:  # type: ignore[arg-type]
        yield engine
        watched.unblocked.set()


def items_of(encoder: Encoder, *texts: str, priority: Priority = Priority.DOCUMENT) -> list[Item]:
    return document_items(encoder.read_prompts(texts, ""), texts, steps=1, priority=priority)


def embed(engine: Engine, *texts: str, priority: Priority = Priority.DOCUMENT) -> np.ndarray:
    return engine.embed(texts, instruction="", steps=1, priority=priority)


def test_two_batches_of_documents_are_computed_at_the_same_time(
    engine: Engine, watched: WatchedEncoder, encoder: Encoder
) -> None:
    both = threading.Barrier(2)

    def meet(_: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        both.wait(PATIENCE_S)  # breaks where the second batch waits for the first
        return prefixes

    watched.meddle = meet
    texts = [f"text {number}" for number in range(8)]
    found = embed(engine, *texts)
    np.testing.assert_allclose(found, encoder.encode_documents(texts, instruction="", steps=1), atol=1e-5)


def test_few_documents_are_shared_out_evenly(encoder: Encoder) -> None:
    scheduler = Scheduler(Limits(batch_texts=32), streams=2)
    scheduler.submit(items_of(encoder, *(f"text {number}" for number in range(40))))
    assert [len(scheduler.take()[0]) for _ in range(4)] == [20, 10, 8, 2]


def test_a_query_has_the_thread_for_models_while_the_other_has_documents(
    engine: Engine, watched: WatchedEncoder
) -> None:
    scheduler = engine.scheduler
    scheduler.submit(items_of(engine.encoder, "a question", priority=Priority.QUERY))
    assert scheduler.take(documents_only=True) == ([], [])
    watched.unblocked.clear()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(embed, engine, "a document")
        wait_until(lambda: len(watched.batches) == 2)  # the question, and the document beside it
        watched.unblocked.set()


def test_cores_are_shared_by_documents_and_a_lone_query_has_them_all(engine: Engine, watched: WatchedEncoder) -> None:
    seen: list[int] = []

    def note(_: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        seen.append(torch.get_num_threads())
        return prefixes

    watched.meddle = note
    embed(engine, *(f"text {number}" for number in range(8)))
    assert set(seen) == {CORES // 2}
    wait_until(lambda: not engine._streams.busy)
    assert on_model_thread(torch.get_num_threads) == CORES  # for rerankers, which compute there too
    seen.clear()
    embed(engine, "a question", priority=Priority.QUERY)
    assert seen == [CORES]


def test_a_shutdown_waits_for_both_batches(watched: WatchedEncoder) -> None:
    engine = Engine(watched, Limits(batch_texts=4, cache_mb=0), streams=2)  # type: ignore[arg-type]
    watched.unblocked.clear()
    items = engine.submit(items_of(engine.encoder, *(f"text {number}" for number in range(8))))
    wait_until(lambda: len(watched.batches) == 2)
    threading.Timer(0.2, watched.unblocked.set).start()
    engine.close()
    assert all(item.answer.done() and item.answer.exception() is None for item in items)


def test_what_stops_one_thread_is_told_to_all_who_wait(engine: Engine, watched: WatchedEncoder) -> None:
    broken = watched.ids("text 0")

    def meddle(prompts: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        if broken in prompts:
            raise KeyboardInterrupt
        return prefixes

    watched.meddle = meddle
    watched.unblocked.clear()
    items = engine.submit(items_of(engine.encoder, *(f"text {number}" for number in range(16))))
    wait_until(lambda: len(watched.batches) == 2)
    watched.unblocked.set()
    wait([item.answer for item in items], PATIENCE_S)
    errors = {type(item.answer.exception()) for item in items}
    assert NotServingError in errors
    assert not engine.is_serving


def test_there_are_no_more_of_them_than_cores_and_one_on_a_card() -> None:
    assert streams_for("cpu") == 2
    assert streams_for("cuda") == 1
    torch.set_num_threads(1)
    assert streams_for("cpu") == 1


def test_the_second_thread_ends_with_what_is_kept_for_it_and_comes_again(engine: Engine, encoder: Encoder) -> None:
    def second_threads() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name.startswith("gircse-model-2")]

    before = len(second_threads())
    texts = [f"text {number}" for number in range(8)]
    for _ in range(2):
        found = embed(engine, *texts)
        np.testing.assert_allclose(found, encoder.encode_documents(texts, instruction="", steps=1), atol=1e-5)
        assert len(second_threads()) == before + 1
        wait_until(lambda: not engine._streams.busy)
        engine.release_spare_memory()
        wait_until(lambda: len(second_threads()) == before)


def test_a_thread_with_a_batch_is_not_ended(engine: Engine, watched: WatchedEncoder) -> None:
    watched.unblocked.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(embed, engine, *(f"text {number}" for number in range(8)))
        wait_until(lambda: len(watched.batches) == 2)
        engine.release_spare_memory()
        watched.unblocked.set()
        assert waiting.result(PATIENCE_S).shape[0] == 8


def test_a_query_that_another_thread_has_computed_does_not_count_as_late(encoder: Encoder) -> None:
    """A thread that lets queries in between the parts of its documents knows nothing of the other thread's."""
    scheduler = Scheduler(Limits(query_wait_s=0.01), streams=2)

    def ask(text: str) -> None:
        scheduler.submit(items_of(encoder, text, priority=Priority.QUERY))

    with ThreadPoolExecutor(1) as other:
        scheduler.submit(items_of(encoder, "a document"), may_refuse=False)
        documents, _ = scheduler.take(documents_only=True)
        ask("one")
        query, _ = other.submit(scheduler.take).result()
        with scheduler.interruption():
            other.submit(scheduler.note_done, query, 0.001).result()
        time.sleep(0.2)  # the documents take long
        ask("two")
        scheduler.note_done(documents, 0.3)
    (left, _) = scheduler.take()
    assert [each.text for each in left] == ["two"]
    scheduler.note_done(left, 0.001)
    assert scheduler._busy == {}
