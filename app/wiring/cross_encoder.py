"""Re-ranks with a cross-encoder of sentence-transformers, in this process. Apart, since that is an extra ([rerank])."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from sentence_transformers import CrossEncoder

from app.errors import InputError, RerankerUnavailableError
from app.ports.rerank import Passage
from app.wiring.query_template import QueryTemplate
from embedder.model.model_thread import on_model_thread

_BATCH_SIZE = 16


class CrossEncoderReranker:
    """Implements `Reranker`: it computes in the thread of the process for models, in turn with the embedder."""

    def __init__(self, model: str, *, device: str | None = None, template: QueryTemplate) -> None:
        """Raises InputError where there is no such model, or none of one score for a pair."""
        try:
            self._model = on_model_thread(CrossEncoder, model, device=device, trust_remote_code=False)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"GIRCSE_RERANK_MODEL: {model!r} is no cross-encoder that can be opened ({error}). Name a folder that "
                "sentence-transformers' CrossEncoder saved, or a hub id."
            ) from error
        if self._model.num_labels != 1:
            raise InputError(
                f"GIRCSE_RERANK_MODEL: {model!r} gives {self._model.num_labels} scores for a pair; take a model of one."
            )
        self._template = template

    def scores(self, query: str, passages: Sequence[Passage], *, instruction: str) -> list[float]:
        """0 to 1: models of raw scores get a logistic function."""
        if not passages:
            return []
        asked = self._template.fill(query, instruction)
        pairs = [(asked, each.text) for each in passages]
        try:
            scores = [float(each) for each in on_model_thread(self._predict, pairs)]
        except (RuntimeError, IndexError) as error:  # no memory, or a text that is longer than its positions
            raise RerankerUnavailableError(f"The cross-encoder failed: {error}") from error
        if not all(map(math.isfinite, scores)):
            raise RerankerUnavailableError("The cross-encoder gave a score that is no number. Take another model.")
        return scores

    def close(self) -> None:
        """Nothing is held open."""

    def _predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        found = self._model.predict(
            pairs, batch_size=_BATCH_SIZE, show_progress_bar=False, activation_fn=torch.nn.Sigmoid()
        )
        return list(found)
