"""Re-ranks texts that are in no collection: by a re-ranker, and by likeness among values where there are some."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from app.errors import InputError
from app.ports.parts import Embedder
from app.ports.rerank import Passage, Reranker
from app.search.value_distributions import QUERY_TEMPERATURE, distributions, similarities, value_cosines
from app.search.value_ranking import VALUE_WEIGHT
from app.types.documents import require_text
from app.types.values import LensValue, flatten_phrases
from embedder.mentions import mentions

MAX_DOCUMENTS = 1_000
MAX_CHARACTERS = 4_000_000  # of all documents


def rerank_texts(
    embedder: Embedder,
    reranker: Reranker,
    query: str,
    texts: Sequence[str],
    *,
    instruction: str | None,
    values: Sequence[LensValue],
) -> list[float]:
    """A score for each text, in their order. Raises InputError, and UnavailableError where the re-ranker is away."""
    _check(texts)
    used = embedder.info.default_query_instruction if instruction is None else instruction
    passages = [Passage("", text, hashlib.sha256(text.encode()).hexdigest()) for text in texts]
    scores = reranker.scores(query, passages, instruction=used)
    if not values:
        return scores
    alike = value_similarities(embedder, [query, *texts], values)
    return [(1 - VALUE_WEIGHT) * score + VALUE_WEIGHT * float(each) for score, each in zip(scores, alike, strict=True)]


def value_similarities(embedder: Embedder, texts: Sequence[str], values: Sequence[LensValue]) -> np.ndarray:
    """(n - 1,): how alike each text after the first is to it among the values, in the model's plain space, or where it
    has none in that of its documents."""
    info = embedder.info
    instruction, steps = (
        ("", 0) if info.min_steps == 0 else (info.default_document_instruction, info.default_document_steps)
    )
    phrases, owners = flatten_phrases(values)
    found = np.asarray(
        embedder.embed_documents([*texts, *phrases], instruction=instruction, steps=steps), dtype=np.float32
    )
    cosines = value_cosines(found[: len(texts)], found[len(texts) :], owners, mentions(texts, phrases))
    return similarities(distributions(cosines[1:]), distributions(cosines[:1], QUERY_TEMPERATURE)[0])


def _check(texts: Sequence[str]) -> None:
    if not 1 <= len(texts) <= MAX_DOCUMENTS:
        raise InputError(f"1 to {MAX_DOCUMENTS} documents can be ranked at a time, not {len(texts)}.")
    if (characters := sum(map(len, texts))) > MAX_CHARACTERS:
        raise InputError(f"The documents have {characters:,} characters; at most {MAX_CHARACTERS:,} can be ranked.")
    for index, text in enumerate(texts):
        require_text(text, name=f"document {index}")
        if not text.strip():
            raise InputError(f"Document {index} is empty; leave it out.")
