"""The toy embedder behind a real engine: what is asked of it goes through the scheduler, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tiny_models import contract

from app.testing import ToyEmbedder
from app.wiring.embedding import LocalEmbedder
from embedder.engine.engine import Engine
from embedder.engine.limits import Limits
from embedder.text.prompts import PromptIds


class ToyEncoder:
    """The ids of a prompt are the letters of its instruction and text. `batches` records the texts of each."""

    max_steps, device, contract = 20, "cpu", contract()

    def __init__(self, toy: ToyEmbedder) -> None:
        self._toy = toy
        self.info, self.dimension = toy.info, toy.dimension
        self.batches: list[list[str]] = []

    def check_steps(self, steps: int, instruction: str = "") -> int:
        return steps

    def read_prompts(self, texts: Sequence[str], instruction: str) -> list[PromptIds]:
        prompts = [tuple(map(ord, f"{instruction}\0{text}")) for text in texts]
        return [PromptIds(ids, len(ids)) for ids in prompts]

    def refine_prompts(self, prompts: Sequence[tuple[int, ...]], *, steps: int, **_: Any) -> np.ndarray:
        asked = ["".join(map(chr, ids)).split("\0") for ids in prompts]
        self.batches.append([text for _, text in asked])
        vectors = [self._toy.embed_documents([text], instruction=each, steps=steps)[0] for each, text in asked]
        return np.repeat(np.array(vectors, dtype=np.float32)[:, None], steps, axis=1)


class EngineEmbedder(LocalEmbedder):
    """Over an engine that is there already."""

    def __init__(self, engine: Engine) -> None:
        super().__init__("none is loaded")
        self._engine = engine

    @property
    def engine(self) -> Engine:
        return self._engine


@contextmanager
def toy_engine(toy: ToyEmbedder, *, batch_texts: int = 32) -> Iterator[tuple[EngineEmbedder, ToyEncoder]]:
    encoder = ToyEncoder(toy)
    limits = Limits(batch_texts=batch_texts, batch_s=1e6, cache_mb=0, drain_s=0.1)
    with Engine(encoder, limits, streams=1) as engine:  # type: ignore[arg-type]
        yield EngineEmbedder(engine), encoder
