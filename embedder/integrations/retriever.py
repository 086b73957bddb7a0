"""`GircseRetriever`: LangChain's retriever over the REST API of a running gircse-search, sync and async."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import httpx
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, SecretStr

from embedder.errors import ServerError

_MAX_TOLD = 500
_BUSY = (429, 503)
_LEAST_PAUSE_S = 0.1
_ASKED = ("collection", "instruction", "lens", "steps", "filters", "mode", "explain")
# Left out where they are not given: servers of earlier releases know no such fields.
_FURTHER = ("rerank", "per_document", "exclude", "detect_negation", "prefer_prose", "fold_duplicates", "diversity")


class GircseRetriever(BaseRetriever):
    """Passages of a collection that are nearest to a query, seen through an instruction.

    .. code-block:: python

        from embedder import GircseRetriever

        retriever = GircseRetriever(collection="letters", instruction="Identify the feeling.", k=5)
        retriever.invoke("They never call back.")
    """

    url: str = "http://127.0.0.1:7860"
    """Where `gircse up` or `gircse serve` answers."""
    api_key: SecretStr | None = None
    """Shown to a server that controls access."""
    collection: str = "library"
    instruction: str | None = None
    """What "similar" means. None: the model's own; "": no instruction."""
    lens: str | None = None
    """A saved instruction in its place."""
    steps: int | None = Field(default=None, ge=0)
    """Refinement steps. None: the model's own number."""
    k: int = Field(default=4, ge=1, le=100)
    """How many passages; `invoke(query, k=…)` asks for another number."""
    mode: str = "hybrid"
    """hybrid: by meaning and by words; dense: by meaning alone; sparse: by words alone."""
    filters: dict[str, str] = Field(default_factory=dict)
    """Metadata that must be equal."""
    rerank: int | None = Field(default=None, ge=0, le=200)
    """So many of the first candidates are looked at again, under the instruction on their side too; costs time. None:
    as the service does by default."""
    per_document: int | None = Field(default=None, ge=1)
    """At most so many passages of one document; 1 for passages of different ones. None: any number."""
    exclude: list[str] = Field(default_factory=list)
    """Phrases that passages should not be about: those that are rank lower."""
    detect_negation: bool | None = None
    """Whether "jazz, not about New York" excludes New York. None: as the service does by default, which is to."""
    prefer_prose: bool | None = None
    """Tables of numbers and references count less, unless the query asks for such. None: as the service does."""
    fold_duplicates: bool | None = None
    """Near-identical passages are left out behind the best of them. None: as the service does."""
    diversity: float | None = Field(default=None, ge=0, le=1)
    """Maximal marginal relevance: 0 by relevance alone, to 1 for passages unlike each other."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further options of `POST /api/v1/search` by their names there, as `like` or `token_bias`; the server checks
    them."""
    explain: bool = False
    """Also find the sentence by which each passage was found, as `why` of its metadata; costs time."""
    timeout_s: float = Field(default=60, gt=0)
    """For an answer. A server that is busy is asked again, as its `Retry-After` says, for as long."""

    model_config = ConfigDict(extra="forbid")

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
        asked = {name: getattr(self, name) for name in _ASKED} | {"limit": self.k if k is None else k}
        further = {name: getattr(self, name) for name in _FURTHER}
        given = {name: value for name, value in further.items() if value is not None and value != []}
        return {"query": query} | asked | given | self.options


def _pause_s(answer: httpx.Response, until: float) -> float | None:
    """How long to wait before the server is asked again; None where its answer stands."""
    said = answer.headers.get("retry-after", "")
    if answer.status_code not in _BUSY or not said.isdecimal():
        return None
    pause_s = max(int(said), _LEAST_PAUSE_S) * random.uniform(1, 1.25)  # not all clients at the same moment
    return pause_s if time.monotonic() + pause_s < until else None


def _documents(answer: httpx.Response) -> list[Document]:
    if answer.is_error:
        raise ServerError(f"The search was answered with {answer.status_code}: {_told(answer)}")
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


def _told(answer: httpx.Response) -> str:
    """What the problem details say, or the beginning of whatever else answered."""
    try:
        return str(answer.json()["detail"])[:_MAX_TOLD]
    except (ValueError, KeyError, TypeError):
        return answer.text[:_MAX_TOLD]


def _unreached(url: str, error: httpx.HTTPError) -> ServerError:
    return ServerError(f"No gircse-search answers at {url} ({error}). Start one with `gircse up`, or name another url.")
