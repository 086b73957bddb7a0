"""The embedder library behind the core's ports. Imports torch when the model is loaded."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import embedder
from app.errors import ConflictError, InputError, NotFoundError
from app.settings import Settings
from app.types.search import QueryEmbedding, RefinementStep, Token


class LocalEmbedder:
    """Implements `Embedder` and `TokenCounter`; loads the model at its first use."""

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        query_tolerance: float | None = None,
        cache_mb: float = 0,
        cuda_graphs: bool = False,
    ) -> None:
        self._model = model
        self._device = device
        self._dtype = dtype
        self._query_tolerance = query_tolerance
        self._cache_mb = cache_mb
        self._cuda_graphs = cuda_graphs
        self._lock = threading.Lock()
        self._loaded: embedder.Encoder | None = None

    @classmethod
    def of(cls, settings: Settings, *, device: str | None = None) -> Self:
        return cls(
            settings.model,
            device=device or settings.device,
            dtype=settings.dtype,
            query_tolerance=settings.query_tolerance,
            cache_mb=settings.vector_cache_mb,
            cuda_graphs=settings.cuda_graphs,
        )

    @property
    def _encoder(self) -> embedder.Encoder:
        with self._lock:
            if self._loaded is None:
                with errors_translated():
                    self._loaded = embedder.load_encoder(
                        self._model,
                        device=self._device,
                        dtype=self._dtype,
                        cache_mb=self._cache_mb,
                        cuda_graphs=self._cuda_graphs,
                        own_thread=True,
                    )
            return self._loaded

    @property
    def model_name(self) -> str:
        return self._encoder.name

    @property
    def fingerprint(self) -> str:
        return self._encoder.fingerprint

    @property
    def dimension(self) -> int:
        return self._encoder.dimension

    @property
    def default_document_instruction(self) -> str:
        return self._encoder.contract.default_document_instruction

    @property
    def default_document_steps(self) -> int:
        return self._encoder.contract.default_document_steps

    @property
    def default_query_steps(self) -> int:
        return self._encoder.contract.default_query_steps

    @property
    def max_steps(self) -> int:
        return self._encoder.max_steps

    @property
    def is_on_cpu(self) -> bool:
        return self._encoder.device == "cpu"

    @property
    def encoder(self) -> embedder.Encoder:
        """For the routes that embed for others; loads the model."""
        return self._encoder

    def is_ready(self) -> bool:
        return bool(self.embed_query("ready?", instruction="", steps=1).vector)

    def close(self) -> None:
        """The model stays in memory: another one may hold it, too."""

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> QueryEmbedding:
        with errors_translated():
            found = self._encoder.refine(
                text, instruction=instruction, steps=steps, token_bias=token_bias, tolerance=self._query_tolerance
            )
        return QueryEmbedding(
            vector=tuple(found.vector.tolist()),
            instruction=found.instruction,
            steps=found.step_count,
            refinement=_refinement_steps(found),
        )

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        with errors_translated():
            return self._encoder.encode_documents(texts, instruction=instruction, steps=steps).tolist()

    def embed_in_batches(
        self, texts: Sequence[str], *, instruction: str, steps: int
    ) -> Iterator[tuple[Sequence[int], list[list[float]]]]:
        with errors_translated():
            for rows, vectors in self._encoder.encode_in_batches(texts, instruction=instruction, steps=steps):
                yield rows, vectors.tolist()

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        with errors_translated():
            return self._encoder.token_offsets(text)


def tokenizer_json(model: str) -> str:
    """The model's tokenizer, for processes that count tokens without the model."""
    with errors_translated():
        return embedder.load_model_tokenizer(model).to_str()


def _refinement_steps(found: embedder.Refinement) -> tuple[RefinementStep, ...]:
    return tuple(
        RefinementStep(
            step=step.step,
            tokens=tuple(Token(token.token, token.probability) for token in step.tokens),
            remaining=float(left),
        )
        for step, left in zip(found.steps, found.remaining, strict=False)  # baselines have a vector, but no steps
    )


@contextmanager
def errors_translated() -> Iterator[None]:
    """The library's errors as the core's."""
    try:
        yield
    except embedder.TextError as error:
        raise InputError(str(error)) from error
    except embedder.ModelNotFoundError as error:
        raise NotFoundError(str(error)) from error
    except embedder.EmbedderError as error:
        raise ConflictError(str(error)) from error
