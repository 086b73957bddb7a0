"""`GircseRetriever`: a LangChain retriever over the REST API of a running gircse-search, sync and async."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import httpx
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, SecretStr, model_validator

from embedder.errors import ServerError
from embedder.integrations.known_options import known_options

_MAX_DETAIL = 500
_BUSY = (429, 503)
_LEAST_PAUSE_S = 0.1
_ALWAYS_SENT = ("collection", "instruction", "lens", "steps", "filters", "mode", "explain")
# Sent only if set: servers of earlier releases reject these fields.
_SENT_IF_SET = ("rerank", "per_document", "exclude", "detect_negation", "prefer_prose", "fold_duplicates", "diversity")


class GircseRetriever(BaseRetriever):
    """Retrieves the passages of a collection that are nearest to a query under an instruction.

    .. code-block:: python

        from embedder import GircseRetriever

        retriever = GircseRetriever(collection="letters", instruction="Identify the feeling.", k=5)
        retriever.invoke("They never call back.")
    """

    url: str = "http://127.0.0.1:7860"
    """Address of `gircse up` or `gircse serve`."""
    api_key: SecretStr | None = None
    """API token, if the server controls access."""
    collection: str = "library"
    instruction: str | None = None
    """What "similar" means. None: the model's default; "": no instruction."""
    lens: str | None = None
    """Name of a saved instruction, instead of `instruction`."""
    steps: int | None = Field(default=None, ge=0)
    """Refinement steps. None: the model's default."""
    k: int = Field(default=4, ge=1, le=100)
    """Number of passages; `invoke(query, k=…)` overrides it."""
    mode: str = "hybrid"
    """dense: by meaning; sparse: by words; hybrid: both."""
    filters: dict[str, str] = Field(default_factory=dict)
    """Metadata that must match exactly."""
    rerank: int | None = Field(default=None, ge=0, le=200)
    """Re-rank this many candidates with the instruction applied to the passages too; slower. None: the service's
    default."""
    per_document: int | None = Field(default=None, ge=1)
    """Maximum passages per document; 1 returns distinct documents. None: no limit."""
    exclude: list[str] = Field(default_factory=list)
    """Phrases to exclude: passages about them rank lower."""
    detect_negation: bool | None = None
    """Whether "jazz, not about New York" excludes New York. None: the service's default, which is yes."""
    prefer_prose: bool | None = None
    """Rank tables of numbers and bibliographies lower, unless the query asks for them. None: the service's default."""
    fold_duplicates: bool | None = None
    """Drop near-duplicates of a better passage. None: the service's default."""
    diversity: float | None = Field(default=None, ge=0, le=1)
    """Maximal marginal relevance: from 0 (relevance only) to 1 (most diverse)."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further options of `POST /api/v1/search` by their names there, such as `like` or `token_bias`; the server
    validates them."""
    explain: bool = False
    """Also find the sentence that matched in each passage, as `why` in its metadata; slower."""
    timeout_s: float = Field(default=60, gt=0)
    """Timeout in seconds for one search, retries included. Retries a busy server as its `Retry-After` asks."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_options(cls, values: Any) -> Any:
        return known_options(cls, values)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        until = time.monotonic() + self.timeout_s
        with httpx.Client(**self._connection()) as client:
            while True:
                try:
                    answer = client.post("/api/v1/search", json=self._question(query, k))
                except httpx.HTTPError as error:
                    raise _unreached(self.url, error) from error
                if (pause_s := _pause_s(answer, until)) is None:
                    return _documents(answer)
                time.sleep(pause_s)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        until = time.monotonic() + self.timeout_s
        async with httpx.AsyncClient(**self._connection()) as client:
            while True:
                try:
                    answer = await client.post("/api/v1/search", json=self._question(query, k))
                except httpx.HTTPError as error:
                    raise _unreached(self.url, error) from error
                if (pause_s := _pause_s(answer, until)) is None:
                    return _documents(answer)
                await asyncio.sleep(pause_s)

    def _connection(self) -> dict[str, Any]:
        shown = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key.get_secret_value()}"}
        return {"base_url": self.url, "headers": shown, "timeout": self.timeout_s}

    def _question(self, query: str, k: int | None) -> dict[str, Any]:
        always = {name: getattr(self, name) for name in _ALWAYS_SENT} | {"limit": self.k if k is None else k}
        further = {name: getattr(self, name) for name in _SENT_IF_SET}
        optional = {name: value for name, value in further.items() if value is not None and value != []}
        return {"query": query} | always | optional | self.options


def _pause_s(answer: httpx.Response, until: float) -> float | None:
    """Seconds to wait before a retry; None to keep this response."""
    retry_after = answer.headers.get("retry-after", "")
    if answer.status_code not in _BUSY or not retry_after.isdecimal():
        return None
    pause_s = max(int(retry_after), _LEAST_PAUSE_S) * random.uniform(1, 1.25)  # jitter: not all clients at once
    return pause_s if time.monotonic() + pause_s < until else None


def _documents(answer: httpx.Response) -> list[Document]:
    if answer.is_error:
        raise ServerError(f"The search failed with status {answer.status_code}: {_detail_of(answer)}")
    return [_document(hit) for hit in answer.json()["hits"]]


def _document(hit: dict[str, Any]) -> Document:
    source, chunk, why = hit["document"], hit["chunk"], hit["why"]
    own = {"document_id": source["id"], "title": source["title"], "uri": source["uri"], "score": hit["score"]}
    place = {key: chunk[key] for key in ("start", "end", "page")}
    context = {"context": chunk["context"]} if chunk.get("context") else {}
    if chunk.get("kind", "prose") != "prose":
        context["chunk_kind"] = chunk["kind"]
    second = {key: hit[key] for key in ("rerank_score", "moved_from", "match", "excluded") if hit.get(key) is not None}
    sentence = {} if why is None else {"why": chunk["text"][why["start"] : why["end"]]}
    metadata = {**source["metadata"], **own, **place, **context, **second, **sentence}
    return Document(id=chunk["id"], page_content=chunk["text"], metadata=metadata)


def _detail_of(answer: httpx.Response) -> str:
    """The detail of the problem JSON, else the beginning of the body."""
    try:
        return str(answer.json()["detail"])[:_MAX_DETAIL]
    except (ValueError, KeyError, TypeError):
        return answer.text[:_MAX_DETAIL]


def _unreached(url: str, error: httpx.HTTPError) -> ServerError:
    return ServerError(f"No gircse-search answers at {url} ({error}). Start one with `gircse up`, or set another url.")
