"""Re-ranks with a server that implements `/rerank` of Cohere, Jina, vLLM or text-embeddings-inference.

The server is not trusted: it may be unavailable, slow or wrong. Then there are no scores rather than wrong ones.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import httpx

from app.errors import InputError, RerankerUnavailableError
from app.ports.rerank import RerankPassage
from app.wiring.query_template import QueryTemplate
from app.wiring.remote import client_options

# How long searches skip a server after a failure.
_PAUSE_S = 10.0
_BYTES_PER_PASSAGE, _LEAST_BYTES = 1_000, 100_000  # limits of a response; some servers return the texts, too
_LOGGED_BYTES = 200
_UNPACKED = {"accept-encoding": "identity"}  # a small compressed response could expand to a large one

Api = Literal["cohere", "tei"]
_log = logging.getLogger(__name__)


class ServerReranker:
    """Re-ranks with a server. Implements `Reranker`."""

    def __init__(
        self,
        url: str,
        *,
        api: Api = "cohere",
        model: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 5,
        template: QueryTemplate,
    ) -> None:
        try:
            self._url = str(httpx.URL(url))
        except httpx.InvalidURL as error:
            raise InputError(f"GIRCSE_RERANK_URL: {url!r} is not a URL ({error}).") from None
        self._api = api
        self._model = model
        self._timeout_s = timeout_s
        self._template = template
        self._client = httpx.Client(**client_options("", api_key, timeout_s=timeout_s))
        self._lock = threading.Lock()
        self._resumes_at = -math.inf

    def scores(self, query: str, passages: Sequence[RerankPassage], *, instruction: str) -> list[float]:
        if not passages:
            return []
        self._check_pause()
        body = self._body(self._template.fill(query, instruction), [each.text for each in passages])
        try:
            answer = self._ask(body, most_bytes=_LEAST_BYTES + _BYTES_PER_PASSAGE * len(passages) + _bytes_of(passages))
            return scores_of(answer, count=len(passages))
        except RerankerUnavailableError:
            with self._lock:
                self._resumes_at = time.monotonic() + _PAUSE_S
            raise

    def close(self) -> None:
        self._client.close()

    def _check_pause(self) -> None:
        with self._lock:
            left_s = self._resumes_at - time.monotonic()
        if left_s > 0:
            raise RerankerUnavailableError(f"The rerank server has just failed. Next attempt in {math.ceil(left_s)} s.")

    def _body(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        if self._api == "tei":
            return {"query": query, "texts": texts, "truncate": True, "raw_scores": False}
        model = {} if self._model is None else {"model": self._model}
        return {**model, "query": query, "documents": texts, "top_n": len(texts)}

    def _ask(self, body: Mapping[str, Any], *, most_bytes: int) -> object:
        """The parsed JSON response. `timeout_s` limits the total time, even if the response arrives slowly."""
        until = time.monotonic() + self._timeout_s
        parts: list[bytes] = []
        count = 0
        try:
            with self._client.stream("POST", self._url, json=body, headers=_UNPACKED) as answer:
                for part in answer.iter_raw():
                    parts.append(part)
                    count += len(part)
                    if count > most_bytes:
                        raise RerankerUnavailableError(f"The rerank server's response exceeds {most_bytes:,} bytes.")
                    if time.monotonic() > until:
                        raise RerankerUnavailableError(self._late())
                status = answer.status_code
        except httpx.TimeoutException:
            raise RerankerUnavailableError(self._late()) from None
        except httpx.HTTPError as error:
            raise RerankerUnavailableError(
                f"The rerank server at {self._url} does not respond ({type(error).__name__}: {error}). Start it, or "
                "correct GIRCSE_RERANK_URL."
            ) from None
        text = b"".join(parts)
        if status != httpx.codes.OK:
            _log.warning("The rerank server answers %d: %r", status, text[:_LOGGED_BYTES])  # users do not see its text
            raise RerankerUnavailableError(f"The rerank server at {self._url} answers with status {status}.")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise RerankerUnavailableError(f"The response of the rerank server at {self._url} is not JSON.") from None

    def _late(self) -> str:
        return (
            f"The rerank server at {self._url} did not respond within {self._timeout_s:g} s (GIRCSE_RERANK_TIMEOUT_S)."
        )


def scores_of(answer: object, *, count: int) -> list[float]:
    """Parse `{"results": [{index, relevance_score}]}` or `[{index, score}]` into one score per passage.

    If any score is outside 0 to 1, all are taken as logits and converted to probabilities. Raises
    RerankerUnavailableError.
    """
    rows = answer.get("results") if isinstance(answer, Mapping) else answer
    if not isinstance(rows, list):
        raise _unusable("no list of results")
    found: dict[int, float] = {}
    for row in rows:
        index, score = _row_of(row)
        if not 0 <= index < count:
            raise _unusable("a score for a passage that it was not sent")
        if index in found:
            raise _unusable(f"two scores for passage {index}")
        found[index] = score
    if len(found) < count:
        raise _unusable(f"scores for {len(found)} of {count} passages")
    scores = [found[index] for index in range(count)]
    return scores if all(0 <= each <= 1 for each in scores) else [probability(each) for each in scores]


def probability(logit: float) -> float:
    """The logistic function, without an overflow."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def _row_of(row: object) -> tuple[int, float]:
    if not isinstance(row, Mapping):
        raise _unusable("a result that is not an object")
    index, score = row.get("index"), row.get("relevance_score", row.get("score"))
    if type(index) is not int:
        raise _unusable("a result without an index")
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise _unusable("a result without a score")
    try:
        value = float(score)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise _unusable("a score that is not a finite number")
    return index, value


def _unusable(what: str) -> RerankerUnavailableError:
    return RerankerUnavailableError(f"The rerank server returned {what}.")


def _bytes_of(passages: Sequence[RerankPassage]) -> int:
    """The largest size of the texts in JSON: an escaped character takes six bytes."""
    return 6 * sum(len(passage.text) for passage in passages)
