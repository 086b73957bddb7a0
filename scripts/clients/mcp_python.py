"""The Python client of the Model Context Protocol, over HTTP."""

# /// script
# dependencies = ["mcp"]
# ///

import asyncio
from collections.abc import Awaitable, Callable

from mcp import Client
from reporting import APPLICATION, QUERY, checked_hits, run_calls


def over_http(ask: Callable[[Client], Awaitable[str]]) -> Callable[[], str]:
    async def call() -> str:
        async with Client(f"{APPLICATION}/mcp") as client:
            return await ask(client)

    return lambda: asyncio.run(call())


async def list_tools(client: Client) -> str:
    names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"search", "fetch_document", "list_collections"} <= names, names
    return f"{len(names)} tools"


async def search(client: Client) -> str:
    answer = await client.call_tool("search", {"query": QUERY, "collection": "letters"})
    assert not answer.is_error, answer.content
    return checked_hits([hit["text"] for hit in answer.structured_content["hits"]])


async def refuse(client: Client) -> str:
    answer = await client.call_tool("search", {"query": QUERY, "collection": "none"})
    assert answer.is_error
    return "an error message"


run_calls(
    "mcp",
    {
        "list_tools": over_http(list_tools),
        "call_tool search": over_http(search),
        "call_tool search in an unknown collection": over_http(refuse),
    },
)
