from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from ingest_parts import wait_for
from tiny_models import family_encoder, save_tiny_model

from app.errors import InputError, UnavailableError
from app.testing import ToyEmbedder
from ingest.batching import JointEmbedder

PATIENT_S = 10  # so long that a call is made for another reason than that the time is over


class WatchedEmbedder(ToyEmbedder):
    """Notes every call, refuses texts that say so, and waits while its gate is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        self.calls.append(list(texts))
        assert self.gate.wait(PATIENT_S)
        for text in texts:
            if "refused" in text:
                raise InputError(f"Cannot embed {text!r}.")
        return super().embed_documents(texts, instruction=instruction, steps=steps)


@pytest.fixture
def embedder() -> WatchedEmbedder:
    return WatchedEmbedder()


@pytest.fixture
def joint_of(embedder: WatchedEmbedder) -> Iterator[Callable[..., JointEmbedder]]:
    with ExitStack() as opened:

        def build(*, asking: int = 1, gather_s: float = PATIENT_S, **options: object) -> JointEmbedder:
            return opened.enter_context(
                JointEmbedder(embedder, asking=lambda: asking, gather_s=gather_s, **options)  # type: ignore[arg-type]
            )

        yield build
        embedder.gate.set()


def ask_together(
    joint: JointEmbedder, requests: Sequence[Sequence[str]], *, instructions: Sequence[str] | None = None
) -> list[list[list[float]] | InputError]:
    """What each of the threads that ask at the same time gets, or is told."""

    def ask(texts: Sequence[str], instruction: str) -> list[list[float]] | InputError:
        try:
            return joint.embed_documents(texts, instruction=instruction, steps=1)
        except InputError as error:
            return error

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(ask, requests, instructions or [""] * len(requests)))


def test_what_half_of_all_ask_at_the_same_time_is_one_call(
    joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder
) -> None:
    requests = [["a", "b"], ["c"], [], ["d", "e", "f"]]
    answers = ask_together(joint_of(asking=8), requests)
    assert len(embedder.calls) == 1
    assert sorted(embedder.calls[0]) == ["a", "b", "c", "d", "e", "f"]
    expected = [ToyEmbedder().embed_documents(texts, instruction="", steps=1) for texts in requests]
    assert answers == expected


def test_one_that_is_alone_waits_for_nobody(joint_of: Callable[..., JointEmbedder]) -> None:
    began = time.monotonic()
    joint_of(asking=1).embed_documents(["a"], instruction="", steps=1)
    assert time.monotonic() - began < PATIENT_S / 2


def test_who_does_not_ask_is_waited_for_only_a_moment(
    joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder
) -> None:
    joint_of(asking=4, gather_s=0.05).embed_documents(["a"], instruction="", steps=1)
    assert embedder.calls == [["a"]]


def test_a_call_holds_no_more_texts_than_allowed(
    joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder
) -> None:
    requests = [["a"] * 3, ["b"] * 3, ["c"] * 3, ["d"] * 9]
    answers = ask_together(joint_of(asking=8, gather_s=0.2, max_texts=6), requests)
    assert sorted(len(call) for call in embedder.calls) == [3, 6, 9]
    assert [len(answer) for answer in answers if isinstance(answer, list)] == [3, 3, 3, 9]


def test_one_that_is_large_enough_waits_for_nobody(
    joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder
) -> None:
    began = time.monotonic()
    joint_of(asking=9, enough_texts=3).embed_documents(["a", "b", "c"], instruction="", steps=1)
    assert time.monotonic() - began < PATIENT_S / 2


def test_other_instructions_are_other_calls(joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder) -> None:
    answers = ask_together(joint_of(asking=4, gather_s=0.2), [["same"], ["same"]], instructions=["one", "two"])
    assert embedder.calls == [["same"], ["same"]]
    assert answers[0] != answers[1]


def test_a_fault_goes_to_its_owner_alone(joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder) -> None:
    answers = ask_together(joint_of(asking=6), [["good"], ["refused"], ["fine"]])
    assert len(embedder.calls) == 4  # together, then each alone
    assert isinstance(answers[1], InputError)
    assert "'refused'" in str(answers[1])
    toy = ToyEmbedder()
    assert answers[0] == toy.embed_documents(["good"], instruction="", steps=1)
    assert answers[2] == toy.embed_documents(["fine"], instruction="", steps=1)


def test_who_is_to_leave_waits_no_longer_and_is_not_embedded(
    joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder
) -> None:
    leaving = threading.local()
    joint = joint_of(asking=9, gather_s=0, is_leaving=lambda: getattr(leaving, "now", False))
    embedder.gate.clear()

    def leave() -> float:
        leaving.now = True
        began = time.monotonic()
        with pytest.raises(UnavailableError):
            joint.embed_documents(["left"], instruction="", steps=1)
        return time.monotonic() - began

    with ThreadPoolExecutor(2) as pool:
        staying = pool.submit(joint.embed_documents, ["stays"], instruction="", steps=1)
        assert pool.submit(leave).result() < 2
        embedder.gate.set()
        assert len(staying.result()) == 1
    assert embedder.calls == [["stays"]]


def test_a_note_comes_in_between_two_batches_of_a_book(
    joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder
) -> None:
    joint = joint_of(asking=4, gather_s=0, max_texts=64)
    embedder.gate.clear()
    with ThreadPoolExecutor(4) as pool:
        first, second, note, refused = [
            pool.submit(joint.embed_documents, texts, instruction=instruction, steps=1)
            for texts, instruction in (
                (["first"] * 64, ""),
                (["second"] * 64, ""),
                (["note"], ""),
                (["refused"], "another"),
            )
            if not time.sleep(0.05)  # so they ask in this order
        ]
        embedder.gate.set()
    assert [call[0] for call in embedder.calls] == ["first", "note", "refused", "first", "second", "second"]
    toy = ToyEmbedder()
    assert note.result() == toy.embed_documents(["note"], instruction="", steps=1)
    assert first.result() == toy.embed_documents(["first"] * 64, instruction="", steps=1)
    assert second.result() == toy.embed_documents(["second"] * 64, instruction="", steps=1)
    with pytest.raises(InputError, match="refused"):
        refused.result()


def test_a_call_that_nobody_waits_for_ends_between_two_batches(
    joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder
) -> None:
    leaving = threading.Event()
    joint = joint_of(is_leaving=leaving.is_set)
    embedder.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(joint.embed_documents, ["book"] * 256, instruction="", steps=1)
        wait_for(lambda: bool(embedder.calls))
        leaving.set()
        with pytest.raises(UnavailableError):
            asked.result()
        leaving.clear()
        embedder.gate.set()
    joint.embed_documents(["next"], instruction="", steps=1)
    assert embedder.calls == [["book"] * 32, ["next"]]


def test_a_query_waits_for_no_documents(joint_of: Callable[..., JointEmbedder], embedder: WatchedEmbedder) -> None:
    joint = joint_of()
    embedder.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        documents = pool.submit(joint.embed_documents, ["book"], instruction="", steps=1)
        assert list(joint.embed_query("note", steps=1).vector) == list(
            ToyEmbedder().embed_query("note", steps=1).vector
        )
        assert not documents.done()
        embedder.gate.set()


def test_joint_vectors_of_a_real_decoder_are_those_of_single_calls(tmp_path: Path) -> None:
    encoder = family_encoder(save_tiny_model(tmp_path / "tiny", "qwen2"))

    class Decoder(ToyEmbedder):
        def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
            return encoder.encode_documents(texts, instruction=instruction, steps=steps).tolist()

        def embed_in_batches(
            self, texts: Sequence[str], *, instruction: str, steps: int
        ) -> Iterator[tuple[Sequence[int], list[list[float]]]]:
            for rows, vectors in encoder.encode_in_batches(texts, instruction=instruction, steps=steps, batch_size=2):
                yield rows, vectors.tolist()

    requests = [["A short text."], ["A text that is a good deal longer than the other one. " * 5], ["One.", "Two."]]
    with JointEmbedder(Decoder(), asking=lambda: 6, gather_s=PATIENT_S) as joint:
        answers = ask_together(joint, requests)
    for texts, answer in zip(requests, answers, strict=True):
        for text, vector in zip(texts, answer, strict=True):  # type: ignore[arg-type]
            alone = Decoder().embed_documents([text], instruction="", steps=1)[0]
            np.testing.assert_allclose(vector, alone, atol=1e-5)
