"""GircseRetriever against a running server: LangChain's own suite, then what ours adds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_application import api_of
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from served import served

from app.testing import ToyEmbedder
from embedder import GircseRetriever, ServerError
from embedder.integrations import retriever

TEXTS = ("The cat sleeps on the sofa.", "A cat dreams of mice.", "The dog barks at the cat.", "Ferries are late.")


@pytest.fixture(scope="module")
def seen_headers() -> list[str | None]:
    return []


@pytest.fixture(scope="module")
def server_url(
    toy_services_class: Any, tmp_path_factory: pytest.TempPathFactory, seen_headers: list[str | None]
) -> Iterator[str]:
    with ExitStack() as opened:
        application = toy_services_class(tmp_path_factory.mktemp("application"), opened, embedder=ToyEmbedder())
        for text in TEXTS:
            application.add(text, metadata={"about": "cats" if "cat" in text else "ferries"})
        api = api_of(application.services)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                seen_headers.append(dict(scope["headers"]).get(b"authorization", b"").decode() or None)
            await api(scope, receive, send)

        with served(app) as url:
            yield url


class TestSuite(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _connect(self, server_url: str) -> None:
        self._url = server_url

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return GircseRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"url": self._url}

    @property
    def retriever_query_example(self) -> str:
        return "cat"


def test_passages_tell_where_they_stand(server_url: str) -> None:
    (found,) = GircseRetriever(url=server_url, k=1, explain=True).invoke("mice dreams")
    assert found.page_content == "A cat dreams of mice."
    assert found.id
    assert found.metadata == {
        "about": "cats",
        "document_id": found.metadata["document_id"],
        "title": "A cat dreams of mice.",
        "uri": "text://1",
        "score": pytest.approx(found.metadata["score"]),
        "start": 0,
        "end": len(found.page_content),
        "page": None,
        "why": found.page_content,
        "match": found.metadata["match"],
    }


def test_passages_of_different_documents(server_url: str) -> None:
    found = GircseRetriever(url=server_url, k=3, per_document=1).invoke("mice dreams")
    assert len({each.metadata["document_id"] for each in found}) == len(found) == 3


def test_passages_about_what_is_excluded_rank_lower(server_url: str) -> None:
    query = "A cat dreams or sleeps, not about mice"
    found = GircseRetriever(url=server_url, k=3).invoke(query)
    (lower,) = (each for each in found if each.metadata.get("excluded") == "mice")
    assert lower.id != found[0].id
    named = GircseRetriever(url=server_url, k=3, exclude=["mice"]).invoke("A cat dreams or sleeps")
    assert [each.id for each in named] == [each.id for each in found]
    written = GircseRetriever(url=server_url, k=3, detect_negation=False).invoke(query)
    assert written[0].id == lower.id
    assert not any("excluded" in each.metadata for each in written)


async def test_async_finds_the_same(server_url: str) -> None:
    retriever = GircseRetriever(url=server_url, filters={"about": "cats"}, mode="hybrid", k=10)
    found = await retriever.ainvoke("ferries")
    assert len(found) == 3
    assert found == retriever.invoke("ferries")
    assert len(await retriever.ainvoke("ferries", k=2)) == 2


def test_a_second_look_tells_what_moved(server_url: str) -> None:
    first = GircseRetriever(url=server_url, k=3, instruction="dreams").invoke("cat")
    again = GircseRetriever(url=server_url, k=3, instruction="dreams", rerank=3).invoke("cat")
    assert all("moved_from" not in found.metadata for found in first)
    assert sorted(found.metadata["moved_from"] for found in again) == [1, 2, 3]
    assert all(first[found.metadata["moved_from"] - 1].id == found.id for found in again)
    assert again[0].page_content == "A cat dreams of mice."
    assert all(0 <= found.metadata["rerank_score"] <= 1 for found in again)


def test_key_is_shown_and_never_printed(server_url: str, seen_headers: list[str | None]) -> None:
    retriever = GircseRetriever(url=server_url, api_key="marzipan-4711")
    retriever.invoke("cat")
    assert seen_headers[-1] == "Bearer marzipan-4711"
    assert "marzipan" not in repr(retriever)


async def test_what_is_wrong_is_told(server_url: str) -> None:
    with pytest.raises(ServerError, match="404: No collection named 'nope'"):
        GircseRetriever(url=server_url, collection="nope").invoke("cat")
    with pytest.raises(ServerError, match="gircse up"):
        GircseRetriever(url="http://127.0.0.1:9").invoke("cat")
    with pytest.raises(ServerError, match="gircse up"):
        await GircseRetriever(url="http://127.0.0.1:9").ainvoke("cat")
    with pytest.raises(ServerError, match="steps must be"):
        await GircseRetriever(url=server_url, steps=99).ainvoke("cat")


@pytest.fixture
def busy_url(server_url: str) -> Iterator[tuple[str, list[str]]]:
    """A server that is busy for the first three requests, and the paths that were asked for."""
    asked: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        asked.append(scope["path"])
        is_busy = len(asked) <= 3
        answer = (
            httpx.get(f"{server_url}/healthz")
            if is_busy
            else httpx.post(f"{server_url}/api/v1/search", json={"query": "cat", "limit": 4})
        )
        headers = [(b"retry-after", b"0")] if is_busy else []
        status = (429, 503, 429)[len(asked) - 1] if is_busy else 200
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.content})

    with served(app) as url:
        yield url, asked


def test_a_busy_server_is_asked_again(busy_url: tuple[str, list[str]]) -> None:
    url, asked = busy_url
    assert len(GircseRetriever(url=url).invoke("cat")) == 4
    assert len(asked) == 4


async def test_a_busy_server_is_asked_again_without_blocking(busy_url: tuple[str, list[str]]) -> None:
    url, asked = busy_url
    assert len(await GircseRetriever(url=url).ainvoke("cat")) == 4
    assert len(asked) == 4


def test_a_server_that_stays_busy_is_told(busy_url: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    url, asked = busy_url
    monkeypatch.setattr(retriever, "_LEAST_PAUSE_S", 100.0)  # more than the minute that is waited for an answer
    with pytest.raises(ServerError, match="429"):
        GircseRetriever(url=url).invoke("cat")
    assert len(asked) == 1


def test_wrong_fields_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="colection"):
        GircseRetriever(colection="letters")


def test_base_install_brings_what_the_retriever_needs() -> None:
    project = (Path(__file__).parents[2] / "embedder" / "pyproject.toml").read_text(encoding="utf-8")
    base = project.partition("dependencies = [")[2].partition("]\n")[0]
    assert '"httpx' in base
    assert '"langchain-core' in base
