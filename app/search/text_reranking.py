"""Re-ranks texts outside of any collection: by a re-ranker, and by similarity of their values if values are given."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from app.errors import InputError
from app.ports.parts import Embedder
from app.ports.rerank import Reranker, RerankPassage
from app.search.gircse_reranker import STEPS
from app.types.documents import require_text
from app.types.values import LensValue, flatten_phrases
from embedder.text.mentions import mentions
from embedder.text.relevance import Parts, joined_scores, reads_values_under

MAX_DOCUMENTS = 1_000
MAX_CHARACTERS = 4_000_000  # in all documents together


def rerank_texts(
    embedder: Embedder,
    reranker: Reranker,
    query: str,
    texts: Sequence[str],
    *,
    instruction: str | None,
    values: Sequence[LensValue],
) -> list[float]:
    """Returns a score per text, in order. Raises InputError, and UnavailableError if the re-ranker does not respond."""
    _check(texts)
    used = embedder.info.default_query_instruction if instruction is None else instruction
    passages = [RerankPassage("", text, hashlib.sha256(text.encode()).hexdigest()) for text in texts]
    scores = reranker.scores(query, passages, instruction=used)
    if not values:
        return scores
    return _joined(embedder, np.asarray(scores), [query, *texts], values, used).tolist()


def _joined(
    embedder: Embedder, scores: np.ndarray, texts: Sequence[str], values: Sequence[LensValue], instruction: str
) -> np.ndarray:
    """Combines `scores` (n - 1,) with the similarity of values: (n - 1,). texts[0] is the query.

    Values are classified by base-model vectors, or by vectors of documents if the model has no base vectors; and also
    under the instruction, if it differs from the default.
    """
    info = embedder.info
    phrases, owners = flatten_phrases(values)

    def embed(texts: Sequence[str], instruction: str, steps: int) -> np.ndarray:
        vectors = embedder.embed_documents(texts, instruction=instruction, steps=steps)
        return np.asarray(vectors, dtype=np.float32)

    is_read_under = reads_values_under(instruction, info.default_query_instruction)
    parts = Parts.of(texts) if is_read_under else Parts(tuple(texts))
    has_plain = info.min_steps == 0
    plainly = ("", 0) if has_plain else (info.default_document_instruction, info.default_document_steps)
    parts, plain = parts.unrelated(embed(parts.to_embed(phrases, instruction), *plainly))
    instructed = None
    if is_read_under:
        instructed = embed([*parts.texts, *phrases], instruction, min(max(STEPS, info.min_steps), info.max_steps))
    return joined_scores(scores, owners, mentions(parts.texts, phrases), plain, instructed, parts=parts)


def _check(texts: Sequence[str]) -> None:
    if not 1 <= len(texts) <= MAX_DOCUMENTS:
        raise InputError(f"1 to {MAX_DOCUMENTS} documents can be ranked at a time, not {len(texts)}.")
    if (characters := sum(map(len, texts))) > MAX_CHARACTERS:
        raise InputError(f"The documents have {characters:,} characters; at most {MAX_CHARACTERS:,} can be ranked.")
    for index, text in enumerate(texts):
        require_text(text, name=f"document {index}")
        if not text.strip():
            raise InputError(f"Document {index} is empty; leave it out.")
