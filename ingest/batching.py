"""Joins what several jobs want embedded at the same time: a model takes sixteen short texts in about half the time that
it takes for one after the other, and less again where they are of one length. Vectors are those of single calls, and a
fault goes to the job whose text it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from app.errors import UnavailableError
from app.ports.parts import BatchEmbedder
from embedder.model_info import ModelInfo
from embedder.refinement import Refinement

MAX_TEXTS = 384  # of a joint call; a request for more is a call of its own
ENOUGH_TEXTS = 16  # with more in a call a text costs the model as much
GATHER_S = 0.25
_LOOK_S = 0.2  # how often a waiting request asks whether its job is to be left
# A request's turn comes as if it had been made later by this much for each of its texts: a book that fills call after
# call does not keep a note waiting, and nothing waits for ever.
_TURN_S_PER_TEXT = 0.05


@dataclass(eq=False, slots=True)
class _Request:
    texts: Sequence[str]
    instruction: str
    steps: int
    asked_at: float = field(default_factory=time.monotonic)
    call: _Call | None = None
    start: int = 0  # of its texts in the call
    has_left: bool = False

    @property
    def turn(self) -> float:
        return self.asked_at + _TURN_S_PER_TEXT * len(self.texts)

    def is_like(self, other: _Request) -> bool:
        return (self.instruction, self.steps) == (other.instruction, other.steps)


@dataclass(frozen=True, slots=True)
class _Call:
    vectors: Future[list[list[float]]]
    is_joint: bool


class JointEmbedder:
    """The port `Embedder` over another one. Calls of the model for documents are made one at a time, in one thread.

    A call runs in batches. Between two of them those come in whose turn is earlier, and one ends that nobody waits for
    any more.

    `asking` gives the number of threads that may ask now: a call is made once half of them have, or for `enough_texts`,
    or when nobody asked for `gather_s`. `is_leaving` is asked in the thread that waits; once it says yes,
    UnavailableError ends the wait.
    """

    def __init__(
        self,
        embedder: BatchEmbedder,
        *,
        asking: Callable[[], int] = lambda: 1,
        is_leaving: Callable[[], bool] = lambda: False,
        max_texts: int = MAX_TEXTS,
        enough_texts: int = ENOUGH_TEXTS,
        gather_s: float = GATHER_S,
    ) -> None:
        self._embedder = embedder
        self._asking = asking
        self._is_leaving = is_leaving
        self._max_texts = max_texts
        self._enough_texts = min(enough_texts, max_texts)
        self._gather_s = gather_s
        self._model = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")
        self._changed = threading.Condition()
        self._waiting: list[_Request] = []
        self._is_busy = False
        self._is_closing = False
        self._free_since = 0.0

    def load(self) -> None:
        """Loads the model in the thread that calls it later.

        Every thread that has used PyTorch keeps helpers of its own; where these are more than the cores, all are slow.
        """
        self._model.submit(lambda: self._embedder.info).result()

    @property
    def info(self) -> ModelInfo:
        return self._embedder.info

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        """At once: a query waits for no documents."""
        return self._embedder.embed_query(text, instruction=instruction, steps=steps, token_bias=token_bias)

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        request = _Request(texts, instruction, steps)
        call = self._join(request)
        self._wait_for(call.vectors, request)
        if call.is_joint and call.vectors.exception() is not None:
            alone = self._model.submit(self._embed, [request])
            self._wait_for(alone, request)
            return alone.result()
        return call.vectors.result()[request.start : request.start + len(texts)]

    def close(self) -> None:
        """Waits for the batch that the model has in hand."""
        self._is_closing = True
        self._model.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _join(self, request: _Request) -> _Call:
        """Waits until the request is part of a call, which the thread of the request whose turn it is starts."""
        with self._changed:
            self._waiting.append(request)
            self._waiting.sort(key=lambda each: each.turn)
            self._changed.notify_all()
            try:
                while request.call is None:
                    self._check_leaving()
                    left_s = self._due_in() if self._waiting[0] is request and not self._is_busy else _LOOK_S
                    if left_s <= 0:
                        self._start_call()
                    else:
                        self._changed.wait(min(left_s, _LOOK_S))
            finally:
                if request.call is None:
                    self._waiting.remove(request)
                    self._changed.notify_all()  # the turn is another one's
        return request.call

    def _due_in(self) -> float:
        """Seconds for which it pays to wait for more texts."""
        # The other half writes what the last call gave: so the model and all else are at work at the same time.
        has_half = 2 * len(self._waiting) >= self._asking()
        if has_half or sum(len(each.texts) for each in self._waiting) >= self._enough_texts:
            return 0.0
        last_asked_at = max(each.asked_at for each in self._waiting)
        return max(self._free_since, last_asked_at) + self._gather_s - time.monotonic()

    def _start_call(self) -> None:
        requests = self._take_requests()
        self._is_busy = True
        vectors = self._model.submit(self._embed, requests)
        self._tell(requests, vectors)
        vectors.add_done_callback(self._note_free)

    def _tell(self, requests: Sequence[_Request], vectors: Future[list[list[float]]]) -> None:
        call, start = _Call(vectors, is_joint=len(requests) > 1), 0
        for request in requests:
            request.call, request.start = call, start
            start += len(request.texts)
        self._changed.notify_all()

    def _let_pass(self, turn: float) -> None:
        """Makes the calls whose turn is before this one. Runs in the model's thread."""
        while True:
            with self._changed:
                if not self._waiting or self._waiting[0].turn >= turn:
                    return
                requests = self._take_requests()
                vectors: Future[list[list[float]]] = Future()
                self._tell(requests, vectors)
            try:
                vectors.set_result(self._embed(requests))
            except Exception as error:  # noqa: BLE001 - raised again by those who wait for these vectors
                vectors.set_exception(error)

    def _embed(self, requests: Sequence[_Request]) -> list[list[float]]:
        """Vectors of all their texts, one request after the other. Runs in the model's thread."""
        texts = [text for request in requests for text in request.texts]
        vectors: list[list[float]] = [[]] * len(texts)
        first = requests[0]
        for places, found in self._embedder.embed_in_batches(texts, instruction=first.instruction, steps=first.steps):
            for place, vector in zip(places, found, strict=True):
                vectors[place] = vector
            if self._is_closing or all(request.has_left for request in requests):
                raise _interrupted()
            self._let_pass(first.turn)
        return vectors

    def _take_requests(self) -> list[_Request]:
        """The request whose turn it is, and those after it that fit into one call with it."""
        requests, count = [self._waiting[0]], len(self._waiting[0].texts)
        for request in self._waiting[1:]:
            if request.is_like(requests[0]) and count + len(request.texts) <= self._max_texts:
                requests.append(request)
                count += len(request.texts)
        self._waiting = [request for request in self._waiting if request not in requests]
        return requests

    def _note_free(self, _: Future[list[list[float]]]) -> None:
        with self._changed:
            self._is_busy = False
            self._free_since = time.monotonic()
            self._changed.notify_all()

    def _wait_for(self, vectors: Future[list[list[float]]], request: _Request) -> None:
        while not wait([vectors], timeout=_LOOK_S).done:
            try:
                self._check_leaving()
            except UnavailableError:
                request.has_left = True
                raise

    def _check_leaving(self) -> None:
        if self._is_leaving():
            raise _interrupted()


def _interrupted() -> UnavailableError:
    return UnavailableError("Embedding was interrupted: the job is to be left. It is done later.")
