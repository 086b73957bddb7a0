"""`GircseReranker`: a LangChain document compressor that re-ranks retrieved documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, model_validator

from embedder.integrations.known_options import known_options
from embedder.integrations.langchain import GircseEmbeddings
from embedder.text.mentions import mentions
from embedder.text.relevance import Parts, ValuePhrases, cosine_scores, joined_scores, reads_values_under


class GircseReranker(BaseDocumentCompressor):
    """Re-ranks documents with a GIRCSE model, applying the query's instruction to the documents too.

    .. code-block:: python

        from embedder import GircseReranker
        from langchain_classic.retrievers import ContextualCompressionRetriever

        reranker = GircseReranker(instruction="Identify the feeling.", top_n=5)
        ContextualCompressionRetriever(base_compressor=reranker, base_retriever=retriever)

    Stores each document's score in its metadata as `relevance_score`; leaves empty documents out.
    """

    embeddings: GircseEmbeddings = Field(default_factory=GircseEmbeddings)
    """The model. With a cache (`cache_mb`), each document is embedded once per instruction."""
    instruction: str | None = None
    """What "similar" means, for query and documents. None: the query instruction of the embeddings; "": no instruction.
    """
    values: list[str] = Field(default_factory=list)
    """Values that the instruction distinguishes, each as `name` or `name = synonym, synonym`. The ranking then also
    compares the values of query and document."""
    steps: int = Field(default=1, ge=1)
    """Refinement steps for query and documents."""
    top_n: int | None = Field(default=None, ge=1)
    """Return only this many documents. None: all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_options(cls, values: Any) -> Any:
        return known_options(cls, values)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """The documents, best first. Raises ValueError for an empty query or for indistinguishable values."""
        filled = [each for each in documents if each.page_content.strip()]
        if not filled:
            return []
        scores = self._scores(query, [each.page_content for each in filled])
        order = np.argsort(-scores, kind="stable")[: self.top_n]
        return [
            filled[at].model_copy(update={"metadata": {**filled[at].metadata, "relevance_score": float(scores[at])}})
            for at in order
        ]

    def _scores(self, query: str, texts: list[str]) -> np.ndarray:
        encoder, batch_size = self.embeddings._encoder, self.embeddings.batch_size
        instruction = self.embeddings.query_instruction if self.instruction is None else self.instruction
        query_vector = encoder.encode_queries([query], instruction=instruction, steps=self.steps)[0]
        if instruction is None:
            instruction = encoder.contract.default_query_instruction
        vectors = encoder.encode_documents(texts, instruction=instruction, steps=self.steps, batch_size=batch_size)
        cosines = cosine_scores(query_vector, vectors)
        if not self.values:
            return cosines
        values = ValuePhrases.parse(self.values)
        is_read_under = reads_values_under(instruction, encoder.contract.default_query_instruction)
        parts = Parts.of([query, *texts]) if is_read_under else Parts((query, *texts))
        steps = 0 if encoder.contract.min_steps == 0 else None
        parts, plain = parts.unrelated(
            encoder.encode_documents(
                parts.to_embed(values.phrases, instruction),
                instruction="" if steps == 0 else None,
                steps=steps,
                batch_size=batch_size,
            )
        )
        instructed = None
        if is_read_under:
            more = [*parts.texts[1 + len(texts) :], *values.phrases]
            others = encoder.encode_documents(more, instruction=instruction, steps=self.steps, batch_size=batch_size)
            instructed = np.concatenate([query_vector[None], vectors, others])
        mentioned = mentions(parts.texts, values.phrases)
        return joined_scores(cosines, values.owners, mentioned, plain, instructed, parts=parts)
