"""Models compute on the CPU in one thread of a process, whichever thread asks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from patience import PATIENCE_S
from tiny_models import save_tiny_model

from app.errors import NotFoundError
from app.wiring.embedding import LocalEmbedder
from embedder import Encoder, GircseEmbeddings, TextError, load_encoder
from embedder.model.model_thread import on_model_thread


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen2"))


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the threads in which models compute."""
    seen: set[str] = set()
    compute = Encoder._raw_prefixes

    def noted(self: Encoder, *rest: object, **options: object) -> np.ndarray:
        seen.add(threading.current_thread().name)
        return compute(self, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "_raw_prefixes", noted)
    return seen


def test_all_calls_run_in_one_thread(model: str, threads: set[str]) -> None:
    local, embeddings = LocalEmbedder(model), GircseEmbeddings(model=model)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(local.embed_query, ["a", "b", "c", "d"]))
        list(pool.map(embeddings.embed_query, ["a", "b", "c", "d"]))
    local.embed_documents(["a text", "another"], instruction="", steps=2)
    embeddings.embed_documents(["a text", "another"])
    asyncio.run(embeddings.aembed_query("a text"))
    assert len(threads) == 1
    assert threading.current_thread().name not in threads


def test_an_encoder_alone_computes_where_it_is_asked(model: str, threads: set[str]) -> None:
    load_encoder(model).encode_queries(["a text"], steps=1)
    assert threads == {threading.current_thread().name}


def test_who_watches_the_steps_may_ask_again(model: str) -> None:
    encoder = load_encoder(model, own_thread=True)
    found: list[np.ndarray] = []
    encoder.watch_soft_tokens(
        ["a text"], lambda *_: found.append(encoder.encode_queries(["another"], steps=1)), steps=2
    )
    assert len(found) == 2


def test_errors_come_back_as_they_are(model: str) -> None:
    with pytest.raises(TextError, match="steps"):
        load_encoder(model, own_thread=True).encode_queries(["a text"], steps=0)
    with pytest.raises(ZeroDivisionError):
        on_model_thread(lambda: 1 // 0)


def test_what_nobody_waits_for_is_not_begun() -> None:
    """As after Ctrl-C while another call was being computed."""
    begun, release = threading.Event(), threading.Event()
    done: list[str] = []

    def interrupted(self: object, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    first = threading.Thread(target=on_model_thread, args=(lambda: (begun.set(), release.wait(PATIENCE_S)),))
    first.start()
    begun.wait(PATIENCE_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            on_model_thread(done.append, "computed")
    release.set()
    first.join(10)
    assert on_model_thread(lambda: list(done)) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_a_thread_of_its_own() -> None:
    name = on_model_thread(lambda: threading.current_thread().name)
    assert name != threading.current_thread().name
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(on_model_thread(os.getpid)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reader, 20)) == child


def test_the_thread_ends_with_its_program() -> None:
    program = "from embedder import GircseEmbeddings; print(len(GircseEmbeddings().embed_query('a text')))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.strip() == "384"


def test_a_model_that_does_not_exist_is_an_error_only_where_it_is_used() -> None:
    embedder = LocalEmbedder("nonsense")
    embedder._load()
    with pytest.raises(NotFoundError, match="No folder 'nonsense'"):
        embedder.embed_query("a text")


def test_a_model_that_is_loaded_while_the_process_ends_is_no_error(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr("app.wiring.embedding.load_engine", refuse)
    with pytest.raises(RuntimeError, match="cannot schedule"):
        LocalEmbedder(model)._load()
    ended = threading.Thread()
    monkeypatch.setattr(threading, "main_thread", lambda: ended)
    LocalEmbedder(model)._load()
