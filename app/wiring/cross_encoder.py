"""Re-ranks with a cross-encoder of sentence-transformers in this process. Needs the extra `[rerank]`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from sentence_transformers import CrossEncoder

from app.errors import InputError, RerankerUnavailableError
from app.ports.rerank import RerankPassage
from app.wiring.query_template import QueryTemplate
from embedder.model.model_thread import on_model_thread

_BATCH_SIZE = 16


class CrossEncoderReranker:
    """Re-ranks with a local cross-encoder. Implements `Reranker`. Runs in the process's model thread, alternating with
    the embedder."""

    def __init__(self, model: str, *, device: str | None = None, template: QueryTemplate) -> None:
        """Load the model. Raises InputError if it cannot be loaded or does not give one score per pair."""
        try:
            self._model = on_model_thread(CrossEncoder, model, device=device, trust_remote_code=False)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"GIRCSE_RERANK_MODEL: cannot load {model!r} as a cross-encoder ({error}). Use a folder saved by "
                "sentence-transformers' CrossEncoder, or a hub id."
            ) from error
        if self._model.num_labels != 1:
            raise InputError(
                f"GIRCSE_RERANK_MODEL: {model!r} gives {self._model.num_labels} scores per pair. Use a model with one."
            )
        self._template = template

    def scores(self, query: str, passages: Sequence[RerankPassage], *, instruction: str) -> list[float]:
        """Scores from 0 to 1: a logistic function is applied to the model's raw scores."""
        if not passages:
            return []
        filled = self._template.fill(query, instruction)
        pairs = [(filled, passage.text) for passage in passages]
        try:
            scores = [float(each) for each in on_model_thread(self._predict, pairs)]
        except (RuntimeError, IndexError) as error:  # out of memory, or a text longer than the model's positions
            raise RerankerUnavailableError(f"The cross-encoder failed: {error}") from error
        if not all(map(math.isfinite, scores)):
            raise RerankerUnavailableError(
                "The cross-encoder returned a score that is not a number. Use another model."
            )
        return scores

    def close(self) -> None:
        """No-op: there is no connection to close."""

    def _predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        found = self._model.predict(
            pairs, batch_size=_BATCH_SIZE, show_progress_bar=False, activation_fn=torch.nn.Sigmoid()
        )
        return list(found)
