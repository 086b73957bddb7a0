"""An embedding server for tests: a real tiny model, which a test may hold up or let fail at what it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from patience import PATIENCE_S
from served import served
from starlette.testclient import TestClient

from embedder import Encoder
from embedder.engine.engine import Engine
from embedder.engine.limits import Limits
from embedder.server.application import create_application
from embedder.server.service import EngineSource

Ids = tuple[int, ...]


class WatchedEncoder:
    """The encoder it is given. Batches wait until `unblocked` is set; `meddle` may raise, or change results."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.batches: list[list[Ids]] = []
        self.unblocked = threading.Event()
        self.unblocked.set()
        self.delay_s = 0.0
        self.meddle: Callable[[Sequence[Ids], np.ndarray], np.ndarray] = lambda prompts, prefixes: prefixes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def refine_prompts(self, prompts: Sequence[Ids], **options: Any) -> np.ndarray:
        self.batches.append(list(prompts))
        assert self.unblocked.wait(PATIENCE_S)
        time.sleep(self.delay_s)
        return self.meddle(prompts, self._encoder.refine_prompts(prompts, **options))

    def ids(self, text: str, instruction: str = "") -> Ids:
        return self._encoder.read_prompts([text], instruction)[0].ids

    @property
    def computed(self) -> list[Ids]:
        return [ids for batch in self.batches for ids in batch]


class WatchedServer:
    def __init__(self, encoder: Encoder, limits: Limits) -> None:
        self.encoder = WatchedEncoder(encoder)
        self.engine = Engine(self.encoder, limits, streams=1)  # type: ignore[arg-type]
        self.source = EngineSource(self.engine)

    def close(self) -> None:
        self.encoder.unblocked.set()
        self.source.close()
        self.engine.close()

    def value(self, name: str, **labels: str) -> float:
        """Of a metric."""
        return self.engine.metrics.registry.get_sample_value(f"gircse_embedder_{name}", labels) or 0.0


def watched_application(
    encoder: Encoder, *, api_key: str | None = None, tokenizer: str = "{}", **limits: Any
) -> tuple[FastAPI, WatchedServer]:
    """The application of an embedding server. limits: fields of `Limits`."""
    server = WatchedServer(encoder, Limits(**{"query_wait_s": 60.0, **limits}))
    return create_application(server.engine, tokenizer=lambda: tokenizer, api_key=api_key), server


@contextmanager
def embedding_client(encoder: Encoder, *, api_key: str | None = None, **limits: Any) -> Iterator[TestClient]:
    """A client of that application, which sends its key."""
    application, _ = watched_application(encoder, api_key=api_key, **limits)
    with TestClient(application, headers={"authorization": f"Bearer {api_key}"} if api_key else None) as client:
        yield client


@contextmanager
def server_process(model: str, *options: str, **environment: str) -> Iterator[str]:
    """The address of `python -m embedder.server`."""
    command = [sys.executable, "-m", "embedder.server", "--model", model, "--port", "0", "--dtype", "float32", *options]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIRCSE_")}
    with subprocess.Popen(
        command,
        env=inherited | environment,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            assert process.stdout is not None
            ready = re.match(r"Ready: (http://\S+)", process.stdout.readline())
            assert ready, "the server ended before it was ready"
            yield ready.group(1)
        finally:
            process.terminate()
            try:
                process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def listening(app: FastAPI) -> Iterator[int]:
    """Its port, in a thread of this process."""
    with served(app) as url:
        yield int(url.rpartition(":")[2])
