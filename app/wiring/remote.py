"""Client of an embedding server (`gircse embedder`) for the core's ports: the same vectors without torch."""

from __future__ import annotations

import contextvars
import copy
import logging
import math
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any, Self

import httpx
import numpy as np
from tokenizers import Tokenizer

from app.errors import ConflictError, EmbedderBusyError, EmbedderUnavailableError, InputError, UnavailableError
from app.settings import Settings
from app.wiring.bounded_http import BoundedClient
from app.wiring.embedding import is_small
from app.wiring.server_pings import ServerPings
from embedder.model_info import ModelInfo
from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep, RefinementToken
from embedder.server.protocol import FINGERPRINT_HEADER, SHAPE_HEADER, InputType

TEXTS_PER_REQUEST = 64
CHARACTERS_PER_REQUEST = 400_000
REQUESTS_AT_ONCE = 4  # parallel requests per call for documents, which keeps several replicas busy

_CONNECT_S = 2.0
_CONNECTIONS = 64
_QUERY_PATIENCE_S = 1.5  # how long to retry an overloaded server
_DOCUMENT_PATIENCE_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_READY_S = 1.9
QUIET_S = 2.0  # ping the server if a request takes longer; a query usually takes milliseconds to seconds
PING_S = 1.5
_AWAY_S = 1.0  # after a failed ping, queries fail at once for this time
_LEAVING_POLL_S = 0.2
_START_POLL_S = 1.0
_FACTS = "/api/v1/model"
_BUSY, _AWAY = frozenset({429, 503}), frozenset({401, 403, 404, 408, 500, 502, 504})
_FAULTS_OF_A_TEXT = frozenset({"computation_failed", "not_a_vector"})

_log = logging.getLogger(__name__)


class _OneModel:
    """The model of the first answer. This process keeps to it: its callers check a collection's model once and embed
    for minutes, and its caches hold vectors.
    """

    def __init__(self, url: str) -> None:
        self.lock = threading.Lock()
        self._url = url
        self._info: ModelInfo | None = None
        self.is_other = False  # whether the last answer was another model's

    def info(self, ask: Callable[[], httpx.Response]) -> ModelInfo:
        with self.lock:
            if self._info is None:
                self._info = facts_of(ask())
            return self._info

    def require_same(self, answer: httpx.Response, fingerprint: str) -> None:
        """Raises EmbedderUnavailableError."""
        found = answer.headers.get(FINGERPRINT_HEADER)
        self.is_other = found != fingerprint
        if self.is_other:
            raise EmbedderUnavailableError(
                f"The embedding server at {self._url} has changed its model, from {fingerprint[:12]} to "
                f"{str(found)[:12]}. Restart this process to use the new one. If several servers share the address, "
                "run the same model on all."
            )


class RemoteEmbedder:
    """Embeds with an embedding server. Implements `SharedEmbedder` and `TokenCounter`. Fetches the model's info at
    first use.

    Several servers may share the address: they are stateless, and every response names the model's fingerprint.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, query_tolerance: float | None = None, timeout_s: float = 30
    ) -> None:
        self.url = url.rstrip("/")
        self._query_tolerance = query_tolerance
        self._timeout_s = timeout_s
        options = client_options(self.url, api_key, timeout_s=timeout_s)
        self._client = BoundedClient(**options)
        self._pings = ServerPings(**options, ping_s=PING_S)
        self._model = _OneModel(self.url)
        self._lock = threading.Lock()
        self._tokenizer: tuple[str, Tokenizer] | None = None  # as JSON, and parsed
        self._is_leaving: Callable[[], bool] | None = None
        self._queries = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="gircse-query")
        self._away_until = 0.0  # time.monotonic()

    @classmethod
    def of(cls, settings: Settings) -> Self:
        if settings.embedder_url is None:
            raise InputError("GIRCSE_EMBEDDER_URL is not set. Set it to the address of `gircse embedder`.")
        key = settings.embedder_api_key
        return cls(
            settings.embedder_url,
            api_key=None if key is None else key.get_secret_value(),
            query_tolerance=settings.query_tolerance,
            timeout_s=settings.embedder_timeout_s,
        )

    def close(self) -> None:
        self._queries.shutdown(wait=False, cancel_futures=True)
        self._client.close()
        self._pings.close()

    def for_ingestion(self, is_leaving: Callable[[], bool]) -> Self:
        ingesting = copy.copy(self)  # shares the connections and the model
        ingesting._is_leaving = is_leaving
        return ingesting

    @property
    def info(self) -> ModelInfo:
        get = partial(self._client.get, _FACTS)
        return self._model.info(partial(self._ask, partial(self._watched, get), patience_s=_QUERY_PATIENCE_S))

    def wait_until_available(self) -> None:
        """Block until the server returns its model's info."""
        logged = ""
        while True:
            try:
                _ = self.info
                return
            except EmbedderUnavailableError as error:
                if str(error) != logged:
                    logged = str(error)
                    _log.warning("The pages are waiting for the embedding server: %s", logged)
                time.sleep(_START_POLL_S)

    def is_ready(self) -> bool:
        """Whether the server's model can embed a test text now, and is the one of this process."""
        return self._pings.is_ok("/readyz", timeout_s=_READY_S) and not self._has_other_model()

    def _has_other_model(self) -> bool:
        """Asks the server only after an answer of another model."""
        if self._model.is_other:
            with suppress(httpx.HTTPError, UnavailableError):
                self._model.require_same(self._client.get(_FACTS, timeout=_READY_S), self.info.fingerprint)
        return self._model.is_other

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        body = {
            "text": text,
            "instruction": instruction,
            "steps": steps,
            "token_bias": dict(token_bias or {}),
            "tolerance": self._query_tolerance,
        }
        found = self._post("/api/v1/refine", body, patience_s=_QUERY_PATIENCE_S, is_watched=True).json()
        refinement = tuple(_step_of(step) for step in found["refinement"])
        vector = np.array(found["vector"], dtype=np.float32)
        return Refinement(text, found["instruction"], vector, refinement, read_text=found.get("read_text", ""))

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        return self._embed(texts, {"instruction": instruction, "steps": steps})

    def embed_steps(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[list[float]]]:
        return self._embed(texts, {"instruction": instruction, "steps": steps, "every_step": True})

    def _embed(self, texts: Sequence[str], options: Mapping[str, object]) -> list[Any]:
        """Embed in requests of bounded size. The server batches them with requests of other clients."""
        is_bulk = self._is_leaving is not None or not is_small(texts)
        parts = plan_parts(texts)

        def embed(rows: Sequence[int]) -> list[Any]:
            return self._embed_part([texts[row] for row in rows], options, is_bulk=is_bulk)

        if len(parts) <= 1 and self._is_leaving is None:
            return embed(range(len(texts))) if parts else []
        vectors: list[Any] = [[]] * len(texts)
        pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="gircse-remote")
        try:
            waiting = {pool.submit(embed, rows): rows for rows in parts}
            while waiting:
                for done in wait(waiting, timeout=_LEAVING_POLL_S, return_when=FIRST_COMPLETED).done:
                    for row, vector in zip(waiting.pop(done), done.result(), strict=True):
                        vectors[row] = vector
                if waiting and self._is_leaving is not None and self._is_leaving():
                    raise EmbedderUnavailableError(
                        "Embedding was interrupted, because the worker gives up the job. It will run later."
                    )
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return vectors

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return list(self._ready_tokenizer()[1].encode(text, add_special_tokens=False).offsets)

    def tokenizer_json(self) -> str:
        return self._ready_tokenizer()[0]

    def _ready_tokenizer(self) -> tuple[str, Tokenizer]:
        fingerprint = self.info.fingerprint
        with self._lock:
            if self._tokenizer is None:
                get = partial(self._client.get, "/api/v1/tokenizer")
                answer = self._ask(partial(self._watched, get), patience_s=_DOCUMENT_PATIENCE_S)
                self._model.require_same(answer, fingerprint)
                self._tokenizer = answer.text, Tokenizer.from_str(answer.text)
            return self._tokenizer

    def _embed_part(self, texts: Sequence[str], options: Mapping[str, object], *, is_bulk: bool) -> list[Any]:
        body = {"texts": texts, "input_type": InputType.DOCUMENT, "is_bulk": is_bulk, **options}
        patience_s = _DOCUMENT_PATIENCE_S if is_bulk else _QUERY_PATIENCE_S
        is_request = self._is_leaving is None  # a job may wait for a server that is too busy to answer pings
        answer = self._post(
            "/api/v1/embed", body, patience_s=patience_s, timeout_s=self._timeout_s * 10, is_watched=is_request
        )
        return vectors_of(answer, count=len(texts)).tolist()

    def _post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        patience_s: float,
        timeout_s: float | None = None,
        is_watched: bool = False,
    ) -> httpx.Response:
        fingerprint = self.info.fingerprint
        timeout = timeout_of(timeout_s or self._timeout_s)

        def send() -> httpx.Response:
            return self._client.post(path, json=body, timeout=timeout)

        answer = self._ask(partial(self._watched, send) if is_watched else send, patience_s=patience_s)
        self._model.require_same(answer, fingerprint)
        return answer

    def _watched(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        """Run `send`, but ping the server meanwhile and raise httpx.ReadTimeout early if it hangs."""
        if time.monotonic() < self._away_until:
            raise httpx.ReadTimeout("it did not respond a moment ago")
        sent = self._queries.submit(contextvars.copy_context().run, send)
        while not wait([sent], timeout=QUIET_S).done:
            if not self.is_alive():
                self._away_until = time.monotonic() + _AWAY_S
                raise httpx.ReadTimeout("it no longer responds")
        return sent.result()

    def is_alive(self) -> bool:
        """Whether the server answers a ping in time, however many requests it has."""
        ping = self.ping()
        return bool(wait([ping], timeout=PING_S).done) and ping.result()

    def ping(self) -> Future[bool]:
        """Whether the server answers. Wait for it no longer than PING_S."""
        return self._pings.begin()

    def _ask(self, send: Callable[[], httpx.Response], *, patience_s: float) -> httpx.Response:
        """The successful response. Retries a busy server for `patience_s`, and a broken connection once."""
        until, pause_s = time.monotonic() + patience_s, _FIRST_PAUSE_S
        may_retry = True  # the server may have closed an idle connection just when it was used again
        while True:
            try:
                answer = send()
            except httpx.TransportError as error:
                if may_retry and isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)):
                    may_retry = False
                    continue
                raise EmbedderUnavailableError(
                    f"The embedding server at {self.url} does not respond ({type(error).__name__}: {error}). Start "
                    "`gircse embedder` there, or correct GIRCSE_EMBEDDER_URL."
                ) from None
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            if answer.status_code not in _BUSY or time.monotonic() + pause_s > until:
                check_answer(answer, url=self.url)
                return answer
            time.sleep(pause_s * random.uniform(0.5, 1.0))


def client_options(url: str, api_key: str | None, *, timeout_s: float) -> dict[str, Any]:
    """Options for httpx clients: TLS with the system's certificates (plus SSL_CERT_FILE), and no proxy.

    A proxy of the environment must not come between components of one installation.
    """
    return {
        "base_url": url,
        "headers": {} if api_key is None else {"authorization": f"Bearer {api_key}"},
        "timeout": timeout_of(timeout_s),
        "limits": httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS // 2),
        "trust_env": False,
        "verify": ssl.create_default_context(),
    }


def timeout_of(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=_CONNECT_S)


def check_answer(answer: httpx.Response, *, url: str) -> None:
    """Raise the core's error for an error response of an embedding server."""
    if answer.is_success:
        return
    detail, code = error_of(answer)
    status = answer.status_code
    if status == httpx.codes.INTERNAL_SERVER_ERROR and code in _FAULTS_OF_A_TEXT:
        raise ConflictError(detail)
    if status == httpx.codes.TOO_MANY_REQUESTS:
        raise EmbedderBusyError(f"The embedding server at {url} is overloaded: {detail}")
    if status in _BUSY or status in _AWAY or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise EmbedderUnavailableError(
            f"The embedding server at {url} answers {status}: {detail}{_ADVICE.get(status, '')}"
        )
    raise InputError(detail)


_ADVICE = {
    401: " Set GIRCSE_EMBEDDER_API_KEY to the server's key.",
    404: " Correct GIRCSE_EMBEDDER_URL: it is the address of `gircse embedder`, without a path.",
}


def facts_of(answer: httpx.Response) -> ModelInfo:
    """The model's info. Raises ConflictError if the server has another version with other fields.

    An unknown field may change the meaning of vectors, so it must not be ignored.
    """
    values, url = answer.json(), answer.request.url
    known = {field.name for field in fields(ModelInfo)}
    if unknown := sorted(set(values) - known):
        raise ConflictError(
            f"The embedding server at {url} is newer than this application, which does not know the model fields "
            f"{', '.join(unknown)}. Upgrade the application."
        )
    if values.get("match_cosines"):
        values["match_cosines"] = tuple(values["match_cosines"])
    try:
        return ModelInfo(**values)
    except TypeError as error:
        raise ConflictError(
            f"The embedding server at {url} is older than this application ({error}). Upgrade the server."
        ) from None


def vectors_of(answer: httpx.Response, *, count: int) -> np.ndarray:
    """The vectors of a response: (n, D) float32, or (n, K, D) if every step was requested."""
    shape = [int(each) for each in answer.headers.get(SHAPE_HEADER, "").split(",") if each]
    rows = shape[0] if shape else 0
    if rows != count or len(answer.content) != 4 * math.prod(shape):
        raise EmbedderUnavailableError(
            f"The embedding server returned {rows or 'no'} vectors for {count} texts. Try again."
        )
    return np.frombuffer(answer.content, dtype="<f4").reshape(shape)


def plan_parts(texts: Sequence[str]) -> list[list[int]]:
    """Split the row numbers of texts into requests, longest texts first, so that similar lengths are batched."""
    parts: list[list[int]] = [[]]
    characters = 0
    for row in sorted(range(len(texts)), key=lambda each: -len(texts[each])):
        characters += len(texts[row])
        if parts[-1] and (len(parts[-1]) == TEXTS_PER_REQUEST or characters > CHARACTERS_PER_REQUEST):
            parts.append([])
            characters = len(texts[row])
        parts[-1].append(row)
    return parts if texts else []


def error_of(answer: httpx.Response) -> tuple[str, str | None]:
    """The detail and code of a problem response; the reason phrase and None if it has no problem details."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or "detail" not in body:
        return answer.reason_phrase, None
    return str(body["detail"]), body.get("code")


def _step_of(step: Mapping[str, Any]) -> RefinementStep:
    tokens = tuple(RefinementToken(each["token"], each["probability"]) for each in step["tokens"])
    return RefinementStep(step["step"], tokens, step["remaining"])
