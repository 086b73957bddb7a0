"""An embedder that remembers its last queries, for whoever asks the same ones in several ways one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from app.ports import Embedder
from app.search_types import QueryEmbedding

SIZE = 64


class RememberingEmbedder:
    """Implements `Embedder` over another one."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._remembered = lru_cache(maxsize=SIZE)(self._embed)

    @property
    def model_name(self) -> str:
        return self._embedder.model_name

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def default_document_instruction(self) -> str:
        return self._embedder.default_document_instruction

    @property
    def default_document_steps(self) -> int:
        return self._embedder.default_document_steps

    @property
    def default_query_steps(self) -> int:
        return self._embedder.default_query_steps

    @property
    def max_steps(self) -> int:
        return self._embedder.max_steps

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> QueryEmbedding:
        if token_bias:
            return self._embedder.embed_query(text, instruction=instruction, steps=steps, token_bias=token_bias)
        return self._remembered(text, instruction, steps)

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        return self._embedder.embed_documents(texts, instruction=instruction, steps=steps)

    def _embed(self, text: str, instruction: str | None, steps: int | None) -> QueryEmbedding:
        return self._embedder.embed_query(text, instruction=instruction, steps=steps)
