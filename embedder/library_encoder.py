"""An encoder for programs without a scheduler of their own: it computes in the thread of the process for models, and
remembers vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from embedder.encoder import Encoder
from embedder.model_thread import on_model_thread
from embedder.vector_cache import VectorCache


class LibraryEncoder(Encoder):
    """cache_mb: memory for vectors of texts that were encoded before, for when they come again.

    own_thread: compute in one thread of the process, whichever asks.
    """

    def __init__(self, *parts: Any, cache_mb: float, own_thread: bool, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._cache = VectorCache(cache_mb) if cache_mb > 0 else None
        self._has_own_thread = own_thread

    def _raw_prefixes(self, *batch: Any, **options: Any) -> np.ndarray:
        compute = super()._raw_prefixes
        return on_model_thread(compute, *batch, **options) if self._has_own_thread else compute(*batch, **options)

    def _encode_batches(
        self, texts: Sequence[str], instruction: str, steps: int, *, bias: Tensor | None, batch_size: int
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        if self._cache is None or bias is not None or isinstance(texts, str):
            yield from super()._encode_batches(texts, instruction, steps, bias=bias, batch_size=batch_size)
            return
        ids = [prompt.ids for prompt in self.read_prompts(texts, instruction)]
        known = {row: vector for row, each in enumerate(ids) if (vector := self._cache.get(each, steps)) is not None}
        if known:
            yield list(known), np.stack(list(known.values()))
        new = [row for row in range(len(texts)) if row not in known]
        rest = [texts[row] for row in new]
        for rows, vectors in super()._encode_batches(rest, instruction, steps, bias=None, batch_size=batch_size):
            for row, vector in zip(rows, vectors, strict=True):
                self._cache.keep(ids[new[row]], steps, vector)
            yield [new[row] for row in rows], vectors
