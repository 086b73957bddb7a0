"""The engine of the embedding server: what it lets in, in which order it computes, and that all get an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from embedding_server import Ids, WatchedServer
from patience import PATIENCE_S
from tiny_models import save_tiny_model

from embedder import Encoder, load_encoder
from embedder.engine.errors import (
    ComputationError,
    InvalidRequestError,
    NotAVectorError,
    NotServingError,
    OverloadedError,
    TooLargeError,
)
from embedder.engine.limits import Limits
from embedder.engine.work import Item, Priority, document_items
from embedder.refinement_steps import RefinementStep
from embedder.server.protocol import EmbedTask, InputType, RefineTask

STEPS = 3


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return load_encoder(str(save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen2")), dtype="float32")


@pytest.fixture
def server_factory(encoder: Encoder) -> Iterator[Callable[..., WatchedServer]]:
    started: list[WatchedServer] = []

    def start(**limits: object) -> WatchedServer:
        started.append(WatchedServer(encoder, Limits(**{"query_wait_s": 60.0, **limits})))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def server(server_factory: Callable[..., WatchedServer]) -> WatchedServer:
    return server_factory()


def query(*texts: str, instruction: str = "", steps: int = STEPS) -> EmbedTask:
    return EmbedTask(texts, InputType.QUERY, instruction=instruction, steps=steps)


def documents(*texts: str, steps: int = STEPS) -> EmbedTask:
    return EmbedTask(texts, InputType.DOCUMENT, instruction="", steps=steps, is_bulk=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def waiting(server: WatchedServer, priority: Priority, count: int) -> None:
    await until(lambda: server.engine.scheduler.depth(priority) == count)


async def hold_up(server: WatchedServer) -> asyncio.Task[object]:
    """A query that the model has in flight, until `unblocked` is set."""
    server.encoder.unblocked.clear()
    task = asyncio.create_task(server.source.embed(query("held up")))
    await until(lambda: server.encoder.ids("held up") in server.encoder.computed)
    return task


async def test_vectors_are_the_library_s(server: WatchedServer, encoder: Encoder) -> None:
    found = await server.source.embed(query("a river runs", "two\nlines", instruction="Look at the place"))
    expected = encoder.encode_queries(["a river runs", "two\nlines"], instruction="Look at the place", steps=STEPS)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-6)
    assert found.tokens == sum(
        len(each.ids) for each in encoder.read_prompts(["a river runs", "two\nlines"], "Look at the place")
    )
    defaults = await server.source.embed(EmbedTask(("a river runs",), InputType.DOCUMENT))
    np.testing.assert_allclose(defaults.vectors, encoder.encode_documents(["a river runs"]), atol=1e-6)


async def test_requests_of_several_instructions_and_steps_share_a_batch(
    server: WatchedServer, encoder: Encoder
) -> None:
    held = await hold_up(server)
    tasks = [
        query("a river", steps=5),
        query("a river", instruction="Look at the place", steps=5),
        query("the sea", steps=2),
    ]
    answers = [asyncio.create_task(server.source.embed(each)) for each in tasks]
    await waiting(server, Priority.QUERY, 3)
    server.encoder.unblocked.set()
    found = await asyncio.gather(*answers, held)
    assert [len(batch) for batch in server.encoder.batches] == [1, 3]
    for task, answer in zip(tasks, found[:-1], strict=True):
        expected = encoder.encode_queries(task.texts, instruction=task.instruction, steps=task.steps)
        np.testing.assert_allclose(answer.vectors, expected, atol=1e-6)


async def test_queries_overtake_documents_between_two_batches(
    server_factory: Callable[..., WatchedServer],
) -> None:
    server = server_factory(batch_texts=2)
    held = await hold_up(server)
    bulk = asyncio.create_task(server.source.embed(documents("a", "b", "c", "d")))
    await waiting(server, Priority.DOCUMENT, 4)
    asked = asyncio.create_task(server.source.embed(query("the question")))
    await waiting(server, Priority.QUERY, 1)
    server.encoder.unblocked.set()
    await asyncio.gather(held, bulk, asked)
    assert server.encoder.batches[1] == [server.encoder.ids("the question")]


async def test_queries_are_let_in_between_the_parts_of_a_batch_of_documents(
    server: WatchedServer, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Ids] = []

    def note_end(prompts: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        ended.extend(prompts)
        return prefixes

    server.encoder.meddle = note_end
    started, asked = threading.Event(), threading.Event()
    let_in = server.engine._runner._let_queries_in

    def wait_for_a_query() -> None:
        started.set()
        assert asked.wait(PATIENCE_S)
        let_in()

    monkeypatch.setattr(server.engine._runner, "_let_queries_in", wait_for_a_query)
    bulk = asyncio.create_task(server.source.embed(documents("a", "b")))
    await until(started.is_set)
    question = asyncio.create_task(server.source.embed(query("the question")))
    await waiting(server, Priority.QUERY, 1)
    asked.set()
    found, (expected,) = await bulk, encoder.encode_queries(["the question"], instruction="", steps=STEPS)
    assert ended[0] == server.encoder.ids("the question")
    np.testing.assert_allclose((await question).vectors[0], expected, atol=1e-6)
    expected = encoder.encode_documents(["a", "b"], instruction="", steps=STEPS)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-6)


async def test_what_queries_take_that_are_let_in_is_no_part_of_what_documents_take(
    server: WatchedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def take_their_time(prompts: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        clock[0] += 100.0 if server.encoder.ids("the question") in prompts else 1.0
        return prefixes

    server.encoder.meddle = take_their_time
    scheduler = server.engine.scheduler
    texts, questions = items_of(server, "a document"), items_of(server, "the question", priority=Priority.QUERY)
    scheduler.submit(texts)
    batch, _ = scheduler.take()
    scheduler.submit(questions)
    server.engine._compute(batch)
    assert questions[0].answer.result().computed_s == 100.0
    assert texts[0].answer.result().computed_s == 1.0


async def test_documents_go_on_between_queries_that_are_let_in(server: WatchedServer) -> None:
    """The ninth batch of queries waits until that of documents is done."""
    scheduler = server.engine.scheduler
    scheduler.submit(items_of(server, "a document", priority=Priority.DOCUMENT))
    scheduler.take()
    taken = []
    for number in range(12):
        scheduler.submit(items_of(server, f"question {number}", priority=Priority.QUERY))
        with scheduler.interruption() as (batch, _):
            taken.append(len(batch))
    assert taken == [1] * 8 + [0] * 4


def items_of(server: WatchedServer, text: str, *, priority: Priority = Priority.DOCUMENT) -> list[Item]:
    return document_items(server.engine.encoder.read_prompts([text], ""), [text], steps=STEPS, priority=priority)


async def test_documents_have_a_turn_however_many_queries_come(server_factory: Callable[..., WatchedServer]) -> None:
    server = server_factory(batch_texts=1)
    held = await hold_up(server)
    bulk = asyncio.create_task(server.source.embed(documents("a document")))
    asked = asyncio.create_task(server.source.embed(query(*[f"question {number}" for number in range(20)])))
    await waiting(server, Priority.QUERY, 20)
    server.encoder.unblocked.set()
    await asyncio.gather(held, bulk, asked)
    assert server.encoder.computed.index(server.encoder.ids("a document")) < 12


async def test_documents_of_a_length_are_computed_together(server_factory: Callable[..., WatchedServer]) -> None:
    server = server_factory(batch_texts=2)
    held = await hold_up(server)
    bulk = asyncio.create_task(server.source.embed(documents("short", "word " * 50, "tiny", "word " * 49)))
    await waiting(server, Priority.DOCUMENT, 4)
    server.encoder.unblocked.set()
    await asyncio.gather(held, bulk)
    lengths = [sorted(len(ids) for ids in batch) for batch in server.encoder.batches[1:]]
    assert all(each[-1] - each[0] < 10 for each in lengths), lengths


async def test_a_poisoned_text_fails_alone(server: WatchedServer) -> None:
    poison = server.encoder.ids("poison")

    def meddle(prompts: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        if poison in prompts:
            raise RuntimeError("an assertion of a kernel")
        return prefixes

    server.encoder.meddle = meddle
    held = await hold_up(server)
    texts = ["good 1", "good 2", "poison", "good 3", "good 4"]
    answers = [asyncio.create_task(server.source.embed(query(text))) for text in texts]
    await waiting(server, Priority.QUERY, 5)
    server.encoder.unblocked.set()
    found = await asyncio.gather(held, *answers, return_exceptions=True)
    failed = [text for text, answer in zip(["held", *texts], found, strict=True) if isinstance(answer, Exception)]
    assert failed == ["poison"]
    assert isinstance(found[3], ComputationError)
    assert "kernel" not in str(found[3])
    with pytest.raises(ComputationError, match="Text 1"):
        await server.source.embed(query("good 1", "poison"))


async def test_a_batch_without_memory_is_halved(server: WatchedServer, encoder: Encoder) -> None:
    def meddle(prompts: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        if len(prompts) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return prefixes

    server.encoder.meddle = meddle
    texts = [f"text {number}" for number in range(8)]
    found = await server.source.embed(query(*texts))
    np.testing.assert_allclose(found.vectors, encoder.encode_queries(texts, instruction="", steps=STEPS), atol=1e-6)
    assert server.value("out_of_memory_total") == 3
    held = await hold_up(server)  # what comes next is batched smaller, by its tokens
    long = [f"word {number} " * 100 for number in range(16)]
    answer = asyncio.create_task(server.source.embed(documents(*long)))
    await waiting(server, Priority.DOCUMENT, 16)
    server.encoder.meddle = lambda prompts, prefixes: prefixes
    server.encoder.batches.clear()
    server.encoder.unblocked.set()
    await asyncio.gather(held, answer)
    most = Limits().batch_tokens / 8 * 1.3
    assert all(max(map(len, batch)) * len(batch) <= most for batch in server.encoder.batches)


async def test_a_text_that_alone_finds_no_memory_is_told_so(server: WatchedServer) -> None:
    def meddle(prompts: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    server.encoder.meddle = meddle
    with pytest.raises(ComputationError, match="ran out of memory on this one text"):
        await server.source.embed(query("a text"))
    server.encoder.meddle = lambda prompts, prefixes: prefixes
    assert (await server.source.embed(query("a text"))).vectors.shape == (1, 32)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
async def test_what_is_no_vector_is_an_error_of_its_text(server: WatchedServer, value: float) -> None:
    sick = server.encoder.ids("sick")

    def meddle(prompts: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        prefixes[[ids == sick for ids in prompts]] = value
        return prefixes

    server.encoder.meddle = meddle
    held = await hold_up(server)
    answers = [asyncio.create_task(server.source.embed(query(text))) for text in ("well", "sick")]
    await waiting(server, Priority.QUERY, 2)
    server.encoder.unblocked.set()
    _, well, ill = await asyncio.gather(held, *answers, return_exceptions=True)
    assert not isinstance(well, BaseException)
    assert isinstance(ill, NotAVectorError)
    server.encoder.meddle = lambda prompts, prefixes: prefixes
    assert np.isfinite((await server.source.embed(query("sick"))).vectors).all()  # and it was not kept


async def test_texts_of_a_client_that_has_gone_are_not_computed(server: WatchedServer) -> None:
    held = await hold_up(server)
    gone = asyncio.create_task(server.source.embed(query("nobody waits for this", "and both do for this")))
    await waiting(server, Priority.QUERY, 2)
    stays = asyncio.create_task(server.source.embed(query("and both do for this")))
    await until(lambda: server.value("joined_total") == 1)
    gone.cancel()
    await waiting(server, Priority.QUERY, 1)
    assert server.engine.scheduler.tokens(Priority.QUERY) == len(server.encoder.ids("and both do for this"))
    server.encoder.unblocked.set()
    await asyncio.gather(held, stays)
    assert server.encoder.ids("nobody waits for this") not in server.encoder.computed
    assert server.value("refused_total", reason="client_gone") == 1


async def test_what_waits_past_its_deadline_is_not_computed(server_factory: Callable[..., WatchedServer]) -> None:
    server = server_factory(query_deadline_s=0.05)
    held = await hold_up(server)
    with pytest.raises(NotServingError, match="timed out in the queue"):
        await server.source.embed(query("too late"))
    server.encoder.unblocked.set()
    await held
    assert server.encoder.ids("too late") not in server.encoder.computed
    assert server.engine.scheduler.depth(Priority.QUERY) == 0


async def test_a_model_that_never_ends_a_batch_hangs_no_request(server_factory: Callable[..., WatchedServer]) -> None:
    server = server_factory(query_deadline_s=0.05, compute_s=0.05, ready_s=0.05)
    held = await hold_up(server)
    with pytest.raises(NotServingError):
        await held
    assert not await server.source.is_ready()


async def test_nobody_hangs_when_the_thread_dies(server: WatchedServer) -> None:
    def meddle(prompts: Sequence[Ids], prefixes: np.ndarray) -> np.ndarray:
        raise SystemExit("the thread is to end")

    assert await server.source.is_ready()
    server.encoder.meddle = meddle
    held = await hold_up(server)
    answers = [asyncio.create_task(server.source.embed(query(f"text {number}"))) for number in range(3)]
    answers.append(asyncio.create_task(server.source.embed(documents("a document"))))
    await waiting(server, Priority.QUERY, 3)
    await waiting(server, Priority.DOCUMENT, 1)
    server.encoder.unblocked.set()
    found = await asyncio.wait_for(asyncio.gather(held, *answers, return_exceptions=True), 20)
    assert [type(each) for each in found] == [NotServingError] * 5
    assert not await server.source.is_ready()
    with pytest.raises(NotServingError, match="stopped after an error"):
        await server.source.embed(query("another"))
    assert server.value("alive") == 0


async def test_equal_texts_are_computed_once(server: WatchedServer) -> None:
    held = await hold_up(server)
    answers = [asyncio.create_task(server.source.embed(query("the same", "the same"))) for _ in range(5)]
    await waiting(server, Priority.QUERY, 1)
    await until(lambda: server.value("joined_total") == 9)
    server.encoder.unblocked.set()
    _, *found = await asyncio.gather(held, *answers)
    assert server.encoder.computed.count(server.encoder.ids("the same")) == 1
    assert all(np.array_equal(each.vectors, found[0].vectors) for each in found)


async def test_a_document_that_a_query_waits_for_goes_with_the_queries(server: WatchedServer) -> None:
    held = await hold_up(server)
    bulk = asyncio.create_task(server.source.embed(documents("one", "two")))
    await waiting(server, Priority.DOCUMENT, 2)
    asked = asyncio.create_task(server.source.embed(query("two")))
    await waiting(server, Priority.QUERY, 1)
    server.encoder.unblocked.set()
    await asyncio.gather(held, bulk, asked)
    assert server.encoder.batches[1:] == [[server.encoder.ids("two")], [server.encoder.ids("one")]]


async def test_kept_vectors_are_those_of_the_same_question(server: WatchedServer) -> None:
    await server.source.embed(query("a text", "another"))
    await server.source.embed(query("another", "a text"))
    assert len(server.encoder.computed) == 2
    assert server.value("cache_hits_total") == 2
    await server.source.embed(query("a text", steps=STEPS + 1))
    await server.source.embed(query("a text", instruction="Look at the place"))
    assert len(server.encoder.computed) == 4
    for bias in ({}, {"river": 5.0}, {"river": -5.0}):
        await server.source.refine(RefineTask("a text", "", STEPS, token_bias=bias))
    assert len(server.encoder.computed) == 7
    first = await server.source.embed(query("a text"))
    assert len(server.encoder.computed) == 7
    np.testing.assert_array_equal(first.vectors, (await server.source.embed(query("a text"))).vectors)


async def test_refinements_share_a_batch_and_are_the_library_s(server: WatchedServer, encoder: Encoder) -> None:
    held = await hold_up(server)
    tasks = [RefineTask("a river", "", 4), RefineTask("the sea", "Look at the place", 2), RefineTask("a river", "", 4)]
    answers = []
    for task, depth in zip(tasks, (1, 2, 2), strict=True):
        answers.append(asyncio.create_task(server.source.refine(task)))
        await waiting(server, Priority.QUERY, depth)
    server.encoder.unblocked.set()
    _, *found = await asyncio.gather(held, *answers)
    assert [len(batch) for batch in server.encoder.batches] == [1, 2]
    for task, answer in zip(tasks, found, strict=True):
        expected = encoder.refine(task.text, instruction=task.instruction, steps=task.steps)
        np.testing.assert_allclose(answer.vector, expected.vector, atol=1e-6)
        np.testing.assert_allclose([each.remaining for each in answer.steps], expected.remaining, atol=1e-6)
        for step, other in zip(answer.steps, expected.steps, strict=True):
            ours = {word.token: word.probability for word in step.tokens}
            assert ours == pytest.approx({word.token: word.probability for word in other.tokens}, abs=1e-6)


async def test_a_tolerance_ends_the_steps_of_each_text_by_itself(server: WatchedServer, encoder: Encoder) -> None:
    for tolerance in (1e-4, 1e-2, 2.0):
        found = await server.source.refine(RefineTask("a river", "", 8, tolerance=tolerance))
        expected = encoder.refine("a river", instruction="", steps=8, tolerance=tolerance)
        assert found.step_count == expected.step_count
        np.testing.assert_allclose(found.vector, expected.vector, atol=1e-6)


async def test_steps_are_told_as_they_are_there(server: WatchedServer) -> None:
    told: list[RefinementStep] = []
    found = await server.source.refine(RefineTask("a river", "", 4), on_step=told.append)
    await until(lambda: len(told) == 4)
    assert [each.tokens for each in told] == [each.tokens for each in found.steps]


async def test_a_full_priority_class_refuses_and_says_when_to_come_back(
    server_factory: Callable[..., WatchedServer],
) -> None:
    server = server_factory(query_inputs=2, document_tokens=40, document_inputs=4)
    held = await hold_up(server)
    asked = asyncio.create_task(server.source.embed(query("one", "two")))
    await waiting(server, Priority.QUERY, 2)
    with pytest.raises(OverloadedError, match=r"has 2 texts.*1 more would exceed 2") as refused:
        await server.source.embed(query("three"))
    assert refused.value.retry_after_s
    bulk = asyncio.create_task(server.source.embed(documents("a document")))
    await waiting(server, Priority.DOCUMENT, 1)
    with pytest.raises(OverloadedError, match="document queue has"):
        await server.source.embed(documents("word " * 60))
    with pytest.raises(OverloadedError, match="has 1 texts"):
        await server.source.embed(documents("a", "b", "c", "d"))
    assert server.engine.scheduler.depth(Priority.QUERY) == 2  # all or nothing of a request
    assert server.value("refused_total", reason="overloaded") == 3
    server.encoder.unblocked.set()
    await asyncio.gather(held, asked, bulk)


async def test_a_query_that_would_take_too_long_is_refused_at_once(
    server_factory: Callable[..., WatchedServer],
) -> None:
    server = server_factory(query_wait_s=1e-9)
    held = await hold_up(server)  # the first is never refused
    await asyncio.sleep(0.5)  # a hundred times what its batch was expected to take
    with pytest.raises(OverloadedError, match="expected wait"):
        await server.source.embed(query("one more"))
    server.encoder.unblocked.set()
    await held


async def test_a_lone_client_is_never_refused(server_factory: Callable[..., WatchedServer]) -> None:
    server = server_factory(query_wait_s=1e-9, cache_mb=0.0)
    for number in range(30):  # however long a batch took, against what was expected of it
        server.encoder.delay_s = 0.0 if number % 5 else 0.05
        await server.source.embed(query(f"text {number}"))


async def test_a_shutdown_serves_who_waits_and_lets_nobody_in(server: WatchedServer) -> None:
    held = await hold_up(server)
    asked = asyncio.create_task(server.source.embed(query("in time")))
    await waiting(server, Priority.QUERY, 1)
    server.engine.drain()
    assert not await server.source.is_ready()
    with pytest.raises(NotServingError, match="shutting down"):
        await server.source.embed(query("too late"))
    server.encoder.unblocked.set()
    await asyncio.gather(held, asked)


async def test_a_shutdown_does_not_wait_for_ever(server_factory: Callable[..., WatchedServer]) -> None:
    server = server_factory(drain_s=0.05)
    held = await hold_up(server)
    asked = asyncio.create_task(server.source.embed(query("never begun")))
    await waiting(server, Priority.QUERY, 1)
    await asyncio.to_thread(server.engine.close)
    with pytest.raises(NotServingError, match="shut down"):
        await asked
    server.encoder.unblocked.set()
    await held


async def test_the_canary_is_really_computed(server: WatchedServer) -> None:
    assert await server.source.is_ready()
    assert await server.source.is_ready()
    assert len(server.encoder.batches) == 2
    await hold_up(server)
    assert not await server.source.is_ready()
    assert server.engine.scheduler.depth(Priority.PROBE) == 1
    assert not await server.source.is_ready()
    assert server.engine.scheduler.depth(Priority.PROBE) == 1  # however many ask


async def test_limits_of_a_request_are_named_with_what_was_sent(server_factory: Callable[..., WatchedServer]) -> None:
    server = server_factory(max_inputs=2, max_request_tokens=30)
    with pytest.raises(TooLargeError, match="has 3 texts; the limit is 2"):
        await server.source.embed(query("a", "b", "c"))
    with pytest.raises(TooLargeError, match=r"has \d+ tokens; the limit is 30"):
        await server.source.embed(query("word " * 60))
    with pytest.raises(InvalidRequestError, match="Text 1 is empty"):
        await server.source.embed(query("a", " "))
    with pytest.raises(InvalidRequestError, match="steps is 65"):
        await server.source.embed(query("a", steps=65))
    assert server.encoder.batches == []


async def test_long_texts_are_cut_and_counted_or_refused(server: WatchedServer, encoder: Encoder) -> None:
    long = "word " * 1000
    found = await server.source.embed(query("short", long))
    assert found.truncated == 1
    np.testing.assert_allclose(
        found.vectors[1:], encoder.encode_queries([long], instruction="", steps=STEPS), atol=1e-6
    )
    task = EmbedTask((long,), InputType.QUERY, instruction="", steps=STEPS, may_cut=False)
    with pytest.raises(InvalidRequestError, match=r"Text 0 has \d+ tokens"):
        await server.source.embed(task)


async def test_thousands_of_texts_from_many_all_get_theirs(
    server_factory: Callable[..., WatchedServer], encoder: Encoder
) -> None:
    texts = [f"text {number} " + "word " * (number % 7) for number in range(600)]
    server = server_factory(query_inputs=2000)
    parts = [texts[start : start + 100] for start in range(0, 600, 50)]
    tasks = [documents(*part, steps=1) if at % 2 else query(*part, steps=1) for at, part in enumerate(parts)]
    found = await asyncio.gather(*(server.source.embed(task) for task in tasks))
    expected = encoder.encode_queries(texts, instruction="", steps=1)
    for at, answer in enumerate(found):
        np.testing.assert_allclose(answer.vectors, expected[at * 50 : at * 50 + 100], atol=1e-6)
    assert server.engine.scheduler.depth(Priority.QUERY) == server.engine.scheduler.depth(Priority.DOCUMENT) == 0
