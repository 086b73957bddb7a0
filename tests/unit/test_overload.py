"""Far more is asked of an embedding server than it can answer: each request is answered, and little of it waits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import httpx
import pytest
from embedding_server import server_process
from patience import PATIENCE_S
from tiny_models import save_tiny_model

MOST_WAITING = 16


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen2"))


@pytest.fixture(scope="module")
def url(model: str) -> Iterator[str]:
    with server_process(model, "--query-inputs", str(MOST_WAITING)) as url:
        yield url


async def waiting_texts(client: httpx.AsyncClient) -> float:
    told = (await client.get("/metrics")).text
    return sum(map(float, re.findall(r"^gircse_embedder_queue_texts\{.*\} (\S+)$", told, re.MULTILINE)))


@pytest.mark.parametrize(("clients", "requests"), [(24, 3), pytest.param(48, 5, marks=pytest.mark.long)])
async def test_every_request_is_answered_and_the_line_empties(
    url: str, model: str, clients: int, requests: int
) -> None:
    limits = httpx.Limits(max_connections=clients + 1)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, limits=limits, trust_env=False) as client:
        seen: list[float] = []

        async def ask(number: int) -> list[int]:
            statuses = []
            for turn in range(requests):
                texts = [f"{turn} {number} {text}" for text in range(3)]
                body = {"model": model, "input": texts, "input_type": "query", "steps": 64}
                answer = await client.post("/v1/embeddings", json=body)
                if answer.status_code == 429:
                    assert int(answer.headers["retry-after"]) >= 1
                    assert answer.json()["error"]["code"] == "overloaded"
                statuses.append(answer.status_code)
            return statuses

        async def watch() -> None:
            while True:
                seen.append(await waiting_texts(client))
                await asyncio.sleep(0.02)

        watching = asyncio.create_task(watch())
        statuses = [each for many in await asyncio.gather(*map(ask, range(clients))) for each in many]
        watching.cancel()
        assert len(statuses) == clients * requests
        assert set(statuses) == {200, 429}
        assert 0 < max(seen) <= MOST_WAITING
        assert await waiting_texts(client) == 0
        good = await client.post("/v1/embeddings", json={"model": model, "input": "and now", "input_type": "query"})
        assert good.status_code == 200
