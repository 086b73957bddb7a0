"""A program of test_added_option.py: adds an option to the search, then uses it by every interface. Prints JSON."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

MODULE = "app.types.search"
BEFORE = "    among: frozenset[str] | None = None  #"
OPTION = '    tone: Annotated[str | None, Field(max_length=9, description="The wanted tone.")] = None\n'


class _WithOption(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        source = Path(self.path).read_text(encoding="utf-8")
        assert source.count(BEFORE) == 1
        return compile(source.replace(BEFORE, OPTION + BEFORE), self.path, "exec")


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == MODULE else None
        if spec is not None:
            loader: Loader = _WithOption(name, str(spec.origin))
            spec.loader = loader
        return spec


sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]

from app.types.search import SEARCH_OPTIONS  # noqa: E402, I001

import json  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402

import anyio  # noqa: E402
import gradio as gr  # noqa: E402
from api_application import api_of  # noqa: E402
from conftest import ToyServices  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from mcp import Client  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from app.agents.server import Ability  # noqa: E402
from app.cli import app as command_line  # noqa: E402
from app.commands import search as search_command  # noqa: E402
from app.errors import InputError  # noqa: E402
from app.collections.own_searches import RecordedSearches  # noqa: E402
from app.search.questions import request_of  # noqa: E402
from app.testing import ToyEmbedder  # noqa: E402
from app.types.access import Principal, Role  # noqa: E402
from app.types.searches import question_of  # noqa: E402
from app.wiring.agents import server_for  # noqa: E402
from embedder import GircseRetriever  # noqa: E402
from ui.search_fields import PARAMETERS, for_script  # noqa: E402
from ui.search_handlers import SearchHandlers  # noqa: E402
from ui.search_links import search_address  # noqa: E402
from ui.search_page import _build_further_options, _restored  # noqa: E402

FIELDS = {
    "query": "cat",
    "instruction": "",
    "steps": 2,
    "mode": "hybrid",
    "collection": "library",
    "limit": 3,
    "choices": "",
}


class Interfaces:
    """What each says of the option, and with which value the search service was asked."""

    def __init__(self, application: ToyServices) -> None:
        self.services = application.services
        self.asked: list[Any] = []
        search = self.services.search.search

        def record(request: Any, **options: Any) -> Any:
            self.asked.append(request.tone)
            return search(request, **options)

        self.services.search.search = record  # type: ignore[method-assign]
        self.client = TestClient(api_of(self.services))

    def rest(self) -> dict[str, Any]:
        schema = self.client.get("/openapi.json").json()["components"]["schemas"]["SearchQuestion"]
        assert self.client.post("/api/v1/search", json={"query": "cat", "tone": "warm"}).status_code == 200
        refused = self.client.post("/api/v1/search", json={"query": "cat", "tone": "x" * 10})
        return {
            "rest schema": schema["properties"]["tone"],
            "rest": self.asked[-1],
            "rest refuses": [refused.status_code, "tone" in refused.text],
        }

    async def agents(self) -> dict[str, Any]:
        async with Client(
            server_for(self.services, principal=Principal("mcp", Role.READER), allowed=[Ability.SEARCH])
        ) as client:
            tool = next(each for each in (await client.list_tools()).tools if each.name == "search")
            answer = await client.call_tool("search", {"query": "cat", "collection": "library", "tone": "warm"})
            assert not answer.is_error, answer.content
        return {"agents schema": tool.input_schema["properties"]["tone"], "agents": self.asked[-1]}

    def command(self) -> dict[str, Any]:
        @contextmanager
        def open_services(*settings: Any, **options: Any) -> Iterator[Any]:
            yield self.services

        search_command.open_services = open_services  # type: ignore[assignment]
        run = CliRunner().invoke
        done = run(command_line, ["search", "cat", "--tone", "warm", "--local"])
        assert done.exit_code == 0, done.output
        refused = run(command_line, ["search", "cat", "--tone", "x" * 10, "--local"])
        return {
            "help": run(command_line, ["search", "--help"]).output,
            "command": self.asked[-1],
            "command refuses": refused.output,
        }

    def saved(self) -> dict[str, Any]:
        catalog = self.services.catalog
        own = RecordedSearches(catalog.searches, owner=lambda: "operator", history_limit=2)
        own.save("cats", question_of(request_of({"query": "cat", "collection": "library", "tone": "warm"}, catalog)))
        kept = own.find("cats").request
        again: Any = request_of(kept, catalog)
        return {"saved": kept, "saved again": again.tone, "address": search_address(catalog, kept)}

    def page(self) -> dict[str, Any]:
        handlers = SearchHandlers(
            search_service=self.services.search,
            catalog=self.services.catalog,
            lens_indexes=self.services.lens_indexes,
            own_searches=RecordedSearches(self.services.catalog.searches, owner=lambda: "operator", history_limit=0),
            max_steps=20,
        )
        asked: Any = handlers.request(FIELDS | {"tone": "warm"})
        with gr.Blocks():
            field: Any = _build_further_options()["tone"]
        try:
            refused = str(handlers.request(FIELDS | {"tone": "x" * 10}))
        except InputError as error:
            refused = str(error)
        return {
            "page": asked.tone,
            "page refuses": refused,
            "field": [field.label, field.info],
            "script": for_script(PARAMETERS)["tone"],
            "restored": _restored(SEARCH_OPTIONS["tone"], "warm"),
        }

    def retriever(self) -> dict[str, Any]:
        question = GircseRetriever(options={"tone": "warm"})._question("cat", None)
        assert self.client.post("/api/v1/search", json=question).status_code == 200
        return {"retriever": self.asked[-1]}


def main() -> None:
    with ExitStack() as opened:
        application = ToyServices(Path(sys.argv[1]), opened, embedder=ToyEmbedder())
        application.add("The cat sleeps.")
        seen = Interfaces(application)
        found = seen.rest() | anyio.run(seen.agents) | seen.command() | seen.saved() | seen.page() | seen.retriever()
    print(json.dumps(found))


main()
