"""Chooses the reranker by the settings: the embedding model, a cross-encoder, or a server."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from app.errors import InputError, RerankerUnavailableError
from app.ports.observer import SILENT, Observer
from app.ports.parts import Embedder
from app.ports.rerank import Reranker, RerankPassage
from app.search.gircse_reranker import EmbedderReranker
from app.settings import Settings
from app.wiring.query_template import QueryTemplate
from app.wiring.rerank_server import ServerReranker


def reranker_for(settings: Settings, embedder: Embedder, *, observer: Observer = SILENT) -> Reranker:
    """The reranker. Loads no model and sends no request yet. Raises InputError if a package or folder is missing."""
    template = QueryTemplate(settings.rerank_query)
    if settings.rerank_url is not None:
        key = settings.rerank_api_key
        return ServerReranker(
            settings.rerank_url,
            api=settings.rerank_api,
            model=settings.rerank_model,
            api_key=None if key is None else key.get_secret_value(),
            timeout_s=settings.rerank_timeout_s,
            template=template,
        )
    if settings.rerank_by == "cross-encoder":
        if find_spec("sentence_transformers") is None:
            raise InputError("GIRCSE_RERANK_BY=cross-encoder needs a package: pip install 'gircse-search[rerank]'")
        model, device = str(settings.rerank_model), settings.device
        if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
            raise InputError(f"GIRCSE_RERANK_MODEL: there is no folder {model}.")
        return OpenedAtFirstUse(
            lambda: importlib.import_module("app.wiring.cross_encoder").CrossEncoderReranker(
                model, device=device, template=template
            )
        )
    return EmbedderReranker(embedder, steps=settings.rerank_steps, kept=settings.rerank_kept_vectors, observer=observer)


class OpenedAtFirstUse:
    """A re-ranker that is loaded late. Implements `Reranker`: loads the model at first use, since it takes seconds and
    most commands do not re-rank."""

    def __init__(self, open_reranker: Callable[[], Reranker]) -> None:
        self._open = open_reranker
        self._lock = threading.Lock()
        self._reranker: Reranker | None = None
        self._fault = ""

    def scores(self, query: str, passages: Sequence[RerankPassage], *, instruction: str) -> list[float]:
        """Load the model if necessary and score. After a failed load it does not try again: a try may take a minute."""
        with self._lock:
            if self._fault:
                raise RerankerUnavailableError(self._fault)
            if self._reranker is None:
                try:
                    self._reranker = self._open()
                except InputError as error:  # a wrong setting is not an error of the user's request
                    self._fault = str(error)
                    raise RerankerUnavailableError(self._fault) from error
            reranker = self._reranker
        return reranker.scores(query, passages, instruction=instruction)

    def close(self) -> None:
        with self._lock:
            if self._reranker is not None:
                self._reranker.close()
