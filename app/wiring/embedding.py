"""Adapts the embedder library to the core's ports. Imports torch when it loads the model."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import embedder
from app.errors import ConflictError, EmbedderUnavailableError, GircseError, InputError, NotFoundError
from app.settings import Settings
from embedder.engine.errors import ComputationError, InvalidRequestError, NotServingError
from embedder.engine.limits import Limits
from embedder.engine.work import Priority
from embedder.model.model_thread import on_model_thread
from embedder.model_info import ModelInfo
from embedder.refinement import Refinement

# Calls up to this size count as interactive, such as those for highlights.
_SMALL_TEXTS, _SMALL_CHARACTERS = 128, 20_000


class LocalEmbedder:
    """Embeds with the model in this process. Implements `SharedEmbedder` and `TokenCounter`. Loads the model at first
    use."""

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        cuda_graphs: bool = False,
        query_tolerance: float | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._opened = _OpenedOnce(
            lambda: load_engine(model, device=device, dtype=dtype, cuda_graphs=cuda_graphs, limits=limits)
        )
        self._query_tolerance = query_tolerance
        self._priority: Priority | None = None
        self._is_leaving: Callable[[], bool] = lambda: False

    @classmethod
    def of(cls, settings: Settings, *, device: str | None = None) -> Self:
        return cls(
            settings.model,
            device=device or settings.device,
            dtype=settings.dtype,
            cuda_graphs=settings.cuda_graphs,
            query_tolerance=settings.query_tolerance,
            limits=limits_of(settings),
        )

    def for_ingestion(self, is_leaving: Callable[[], bool]) -> Self:
        ingesting = copy.copy(self)  # shares the engine
        ingesting._priority, ingesting._is_leaving = Priority.DOCUMENT, is_leaving
        return ingesting

    @property
    def engine(self) -> embedder.Engine:
        """The engine, also used by the routes for embeddings. Loads the model."""
        with errors_translated():
            return self._opened.get()

    @property
    def _encoder(self) -> embedder.Encoder:
        return self.engine.encoder

    @property
    def info(self) -> ModelInfo:
        return self._encoder.info

    @property
    def is_on_cpu(self) -> bool:
        return self._encoder.device == "cpu"

    def begin(self) -> None:
        """Start loading the model in a thread. Calls that need it wait."""
        threading.Thread(target=self._load, name="model-loading").start()

    def _load(self) -> None:
        try:
            with errors_translated():
                self._opened.get()
        except (GircseError, OSError):
            pass  # the first call tries again and raises it
        except RuntimeError:
            if threading.main_thread().is_alive():  # otherwise the process ends, and Python starts no further threads
                raise

    def is_ready(self) -> bool:
        """Whether the model can embed a test text. The test runs before all waiting requests."""
        with errors_translated():
            return bool(len(self.engine.probe().answer.result().vector))

    def release_spare_memory(self) -> None:
        """Free the memory that the model caches for its next batch."""
        self.engine.release_spare_memory()

    def close(self) -> None:
        self._opened.close()

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        with errors_translated():
            return self.engine.refine(
                text, instruction=instruction, steps=steps, token_bias=token_bias, tolerance=self._query_tolerance
            )

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        with errors_translated():
            return self.engine.embed(texts, instruction=instruction, steps=steps, **self._waiting(texts)).tolist()

    def embed_steps(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[list[float]]]:
        with errors_translated():
            return self.engine.embed_steps(texts, instruction=instruction, steps=steps, **self._waiting(texts)).tolist()

    def _waiting(self, texts: Sequence[str]) -> dict[str, Any]:
        """The scheduling arguments for a call: its priority, and the check for leaving."""
        priority = self._priority or (Priority.QUERY if is_small(texts) else Priority.DOCUMENT)
        return {"priority": priority, "is_leaving": self._is_leaving}

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        with errors_translated():
            return self._encoder.token_offsets(text)


class _OpenedOnce:
    """Opens the engine at the first `get`, once. Thread-safe."""

    def __init__(self, open_engine: Callable[[], embedder.Engine]) -> None:
        self._open = open_engine
        self._lock = threading.Lock()
        self._engine: embedder.Engine | None = None

    def get(self) -> embedder.Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self._open()
            return self._engine

    def close(self) -> None:
        with self._lock:
            if self._engine is not None:
                self._engine.close()


def load_engine(
    model: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    cuda_graphs: bool = False,
    limits: Limits | None = None,
) -> embedder.Engine:
    # Load in the model thread: PyTorch creates worker threads per calling thread, which would exceed the cores.
    encoder = on_model_thread(embedder.load_encoder, model, device=device, dtype=dtype, cuda_graphs=cuda_graphs)
    return embedder.Engine(encoder, limits)


def limits_of(settings: Settings) -> Limits:
    return Limits(
        max_body_mb=settings.embedder_max_body_mb,
        max_inputs=settings.embedder_max_inputs,
        max_request_tokens=settings.embedder_max_tokens,
        batch_tokens=settings.embedder_batch_tokens,
        query_wait_s=settings.embedder_query_wait_s,
        query_deadline_s=max(10.0, 4 * settings.embedder_query_wait_s),
        cache_mb=settings.vector_cache_mb,
    )


def is_small(texts: Sequence[str]) -> bool:
    """Whether a call with these texts counts as interactive."""
    return len(texts) <= _SMALL_TEXTS and sum(map(len, texts)) <= _SMALL_CHARACTERS


def tokenizer_json(model: str) -> str:
    """The model's tokenizer, for processes that count tokens without the model."""
    with errors_translated():
        return embedder.load_model_tokenizer(model).to_str()


@contextmanager
def errors_translated() -> Iterator[None]:
    """Convert errors of the embedder library to the core's errors."""
    try:
        yield
    except (embedder.TextError, InvalidRequestError) as error:
        raise InputError(str(error)) from error
    except NotServingError as error:
        raise EmbedderUnavailableError(str(error)) from error
    except ComputationError as error:
        # A fault of the model or machine, not of the text. Raise its cause, which callers report and retry as usual.
        raise error.__cause__ or ConflictError(str(error)) from None
    except embedder.ModelNotFoundError as error:
        raise NotFoundError(str(error)) from error
    except embedder.EmbedderError as error:
        raise ConflictError(str(error)) from error
