"""`GircseEmbedding`: LlamaIndex embedding over `GircseEmbeddings`. Needs the extra [llamaindex]."""

from __future__ import annotations

from typing import Any

from pydantic import PrivateAttr

from embedder.command.status import needs_extra
from embedder.integrations.langchain import GircseEmbeddings

with needs_extra("llamaindex", __name__):
    from llama_index.core.base.embeddings.base import BaseEmbedding


class GircseEmbedding(BaseEmbedding):
    """Embeds queries and documents with separate instructions and steps, as `GircseEmbeddings` does.

    .. code-block:: python

        from embedder import GircseEmbeddings
        from embedder.llamaindex import GircseEmbedding

        embedding = GircseEmbedding(GircseEmbeddings(query_instruction="Identify the topic of the text."))
    """

    _embeddings: GircseEmbeddings = PrivateAttr()

    def __init__(self, embeddings: GircseEmbeddings | None = None, **options: Any) -> None:
        given = embeddings or GircseEmbeddings()
        # LlamaIndex's caches use this name, so it has the fingerprint: vectors of two models never mix.
        options.setdefault("embed_batch_size", 64)
        super().__init__(model_name=f"{given.model} {given.fingerprint}", **options)
        self._embeddings = given

    @classmethod
    def class_name(cls) -> str:
        return "GircseEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embeddings.embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await self._embeddings.aembed_query(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embeddings.embed_documents([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._embeddings.embed_documents(texts)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._embeddings.aembed_documents([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._embeddings.aembed_documents(texts)
