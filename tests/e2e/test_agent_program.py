"""`gircse mcp` as an agent starts it: the real program over stdio, beside a running server; and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked import ForkedProgram
from gircse_program import GIRCSE, Gircse, Server
from mcp import Client, StdioServerParameters
from patience import PATIENCE_S

pytestmark = pytest.mark.timeout(900)  # the first test waits for the sample library


ROOT = str(Path(__file__).parents[2])


def started(gircse: Gircse, *options: str) -> Client:
    environment = gircse.environment | {"PYTHONPATH": ROOT}
    return Client(
        StdioServerParameters(command=GIRCSE[0], args=[*GIRCSE[1:], "mcp", *options], env=environment),
        read_timeout_seconds=120,
    )


async def test_agent_finds_what_the_command_line_finds(sample_gircse: Gircse, sample_server: Server) -> None:
    async with started(sample_gircse, "--allow", "search,fetch", "--collection", "sample") as client:
        tools = {each.name for each in (await client.list_tools()).tools}
        assert tools == {"search", "fetch_document", "list_collections", "list_lenses"}
        asked: dict[str, Any] = {"query": "an island with an active volcano", "collection": "sample", "limit": 3}
        answer = await client.call_tool("search", asked)
        assert not answer.is_error, answer.content
        found = answer.structured_content
        read = await client.call_tool("fetch_document", {"document_id": found["hits"][0]["document_id"]})
        hidden = await client.call_tool("search", {**asked, "collection": "library"})
    expected = sample_server.search("an island with an active volcano", collection="sample", limit=3)
    assert [hit["chunk_id"] for hit in found["hits"]] == [hit["chunk"]["id"] for hit in expected["hits"]]
    assert found["hits"][0]["text"] in read.structured_content["text"]
    assert hidden.is_error
    assert "There are: sample." in hidden.content[0].text


@pytest.fixture
def http_url(sample_gircse: Gircse, sample_server: Server, tmp_path: Path) -> Iterator[str]:
    with ForkedProgram(["mcp", "--http", "--port", "0"], environment=sample_gircse.environment) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        yield line.split()[1]
        program.terminate()
        assert program.wait(PATIENCE_S) == 143


async def test_agent_on_this_machine_may_ask_over_http(http_url: str) -> None:
    async with Client(http_url) as client:
        listed = await client.call_tool("list_collections", {})
    assert "sample" in {each["name"] for each in listed.structured_content["collections"]}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--allow", "search,delete"], "search, answer, refine, fetch, news"),
        (["--http", "--host", "0.0.0.0"], "GIRCSE_MCP=true"),
    ],
)
def test_what_would_open_more_than_reading_is_refused(options: list[str], told: str, tmp_path: Path) -> None:
    environment = Gircse(home=tmp_path / "home", settings={}).environment
    with (tmp_path / "stderr").open("w+") as stderr:
        with ForkedProgram(["mcp", *options], environment=environment, stderr=stderr) as program:
            assert program.wait(PATIENCE_S) in (1, 2)
        stderr.seek(0)
        assert told in stderr.read()
    assert not (tmp_path / "home").exists()
