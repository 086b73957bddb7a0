"""Commands ask the service of their home: what they print, who is let in, and when they do without it."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from api_application import api_of
from command_line import Run, run_command
from starlette.responses import JSONResponse
from test_startup import MODEL, PAGE, STORAGE, imported_by

from app.access.accounts import Accounts
from app.access.logins import Logins
from app.commands import service as service_module
from app.commands.announcing_server import AnnouncingServer
from app.commands.service import digests, find_service
from app.commands.wiring import open_catalog
from app.errors import UnavailableError
from app.runtime.service_socket import has_local_sockets, open_service_socket
from app.settings import Settings
from app.types.documents import Collection, DocumentState, JobKind, NewDocument
from embedder.model_info import DEFAULT_MODEL

pytestmark = pytest.mark.skipif(not has_local_sockets(), reason="this system has no sockets in folders")


class TellingServer(AnnouncingServer):
    has_told = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.has_told = True


@contextmanager
def serving(app: Any, home: Path, *, of_release: str = version("gircse-search")) -> Iterator[str]:
    """As `gircse up` does, with its address."""
    settings = digests(Settings(home=home))
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        open_service_socket(home, version=of_release, settings=settings) as opened,
    ):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = TellingServer(uvicorn.Config(app, log_config=None), url=url, open_page=False, for_commands=opened)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.has_told:  # else its address would stand in the output of a command
            assert thread.is_alive()
            thread.join(0.01)
        yield url
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path))
    monkeypatch.setenv("GIRCSE_MODEL", str(tmp_path / "no-model"))  # what loads a model here fails
    monkeypatch.setattr(service_module, "COMPARED", ("database_url",))

    return run_command


@pytest.fixture
def url(toy_services: Any, tmp_path: Path) -> Iterator[str]:
    toy_services.add("The cat sleeps on the sofa. It dreams of mice.")
    with serving(api_of(toy_services.services), tmp_path) as url:
        yield url


def test_a_search_prints_what_the_service_answers(run: Run, url: str) -> None:
    body = {"query": "cat on a sofa", "instruction": "Which animal?", "filters": {}, "mode": "dense", "limit": 3}
    by_http = httpx.post(f"{url}/api/v1/search", json=body).json()
    by_command = json.loads(
        run("search", "cat on a sofa", "-i", "Which animal?", "--mode", "dense", "-n", "3", "--json").stdout
    )
    for answer in (by_http, by_command):
        del answer["timings_ms"]
    assert by_command == by_http
    assert by_command["hits"][0]["chunk"]["text"].startswith("The cat sleeps")
    assert "The cat sleeps on the sofa." in run("search", "cat on a sofa").stdout


def test_words_and_vectors_come_from_the_service(run: Run, url: str) -> None:
    by_http = httpx.post(f"{url}/api/v1/refine", json={"text": "a cat", "steps": 2}).json()
    assert json.loads(run("refine", "a cat", "--steps", "2", "--json").stdout) == by_http
    assert json.loads(run("embed", "a cat", "--steps", "2").stdout) == by_http["vector"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "x", "-c", "other"), "No collection named 'other'"),
        (("search", "x", "--lens", "other"), "No lens named 'other'"),
        (("search", "x", "--limit", "0"), "limit must be 1 to 100, not 0."),
        (("search", "x", "--value", "cat"), "none, since the search has no values"),
        (("search", "x", "--steps", "999"), "steps must be"),
        (("refine", "x", "--boost", "\t"), "is empty"),
    ],
)
def test_what_the_service_refuses_is_one_line(run: Run, url: str, arguments: tuple[str, ...], told: str) -> None:
    result = run(*arguments, code=1)
    assert told in result.stderr
    assert result.stderr.startswith("gircse: ")
    assert len(result.stderr.splitlines()) == 1


def test_local_and_the_setting_do_without_the_service(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no-model" in run("refine", "a cat", "--local", code=1).stderr
    monkeypatch.setenv("GIRCSE_ASK_SERVICE", "false")
    assert "no-model" in run("refine", "a cat", code=1).stderr


def test_a_service_with_other_settings_is_not_asked(url: str, tmp_path: Path) -> None:
    assert find_service(Settings(home=tmp_path)) is not None
    assert find_service(Settings(home=tmp_path, model=DEFAULT_MODEL)) is not None
    assert find_service(Settings(home=tmp_path, model="another")) is None
    assert find_service(Settings(home=tmp_path, database_url="sqlite:////elsewhere.db")) is None
    assert find_service(Settings(home=tmp_path, port=1)) is not None


def test_a_service_of_another_release_is_not_asked(toy_services: Any, tmp_path: Path) -> None:
    with serving(api_of(toy_services.services), tmp_path, of_release="0.0.1"):
        assert find_service(Settings(home=tmp_path)) is None


def test_the_owner_needs_no_key_where_others_do(run: Run, toy_services: Any, tmp_path: Path) -> None:
    catalog = toy_services.services.catalog
    logins = Logins(Accounts(catalog.access, admin_secret="gs_a-secret-that-nobody-guesses"), catalog.access)
    toy_services.add("The cat sleeps.")
    with serving(api_of(toy_services.services, logins=logins), tmp_path) as url:
        assert httpx.post(f"{url}/api/v1/search", json={"query": "cat"}).status_code == 401
        assert json.loads(run("search", "cat", "--json").stdout)["hits"]
        assert httpx.post(f"{url}/api/v1/search", json={"query": "cat"}).status_code == 401


class Answering:
    """An application that answers with these, one after another, and counts."""

    def __init__(self, *answers: JSONResponse) -> None:
        self.answers = list(answers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            return
        await self.answers.pop(0)(scope, receive, send)


def test_a_busy_service_is_asked_again(tmp_path: Path) -> None:
    busy = JSONResponse({"detail": "Too much."}, 429, headers={"retry-after": "0"})
    app = Answering(busy, busy, JSONResponse({"is": "there"}))
    with serving(app, tmp_path):
        service = find_service(Settings(home=tmp_path))
        assert service is not None
        assert json.loads(service.get("/")) == {"is": "there"}
    assert app.answers == []


def test_the_names_of_collections_come_from_all_pages(tmp_path: Path) -> None:
    names = [str(number) for number in range(1500)]
    pages = [JSONResponse([{"name": name} for name in page]) for page in (names[:1000], names[1000:])]
    with serving(Answering(*pages), tmp_path):
        service = find_service(Settings(home=tmp_path))
        assert service is not None
        assert service.collection_names() == names


def test_a_service_that_fails_says_what_to_do(tmp_path: Path) -> None:
    with serving(Answering(JSONResponse(["what"], 500)), tmp_path):
        service = find_service(Settings(home=tmp_path))
        assert service is not None
        with pytest.raises(UnavailableError, match="--local"):
            service.get("/")
    with pytest.raises(UnavailableError, match="has just ended"):
        service.get("/")


def test_what_asks_the_service_imports_neither_model_nor_storage(url: str, tmp_path: Path) -> None:
    program = "import sys; from app.cli import main; sys.argv[0] = 'gircse'; main()"
    imported = imported_by(program, "search", "a cat", home=tmp_path)
    assert "rich" in imported
    assert not imported & (MODEL | PAGE | STORAGE | {"numpy"})


def test_what_was_found_is_printed_in_the_form_that_is_asked_for(run: Run, url: str) -> None:
    question = ("search", "cat on a sofa")
    as_csv = run(*question, "--format", "csv").stdout.splitlines()
    assert as_csv[0].startswith("rank,score,match,value,title,uri,")
    assert as_csv[1].startswith("1,")
    assert run(*question, "--format", "markdown").stdout.startswith("# cat on a sofa\n\nIn library, hybrid, ")
    assert json.loads(run(*question, "--format", "json").stdout)["hits"]
    assert json.loads(run(*question, "--format", "json", "--json").stdout)["hits"]
    assert "--json is the format json" in run(*question, "--format", "csv", "--json", code=2).stderr


def test_saved_searches_are_listed_asked_and_deleted(run: Run, same_catalog: None, url: str) -> None:
    request = {"query": "cat on a sofa", "collection": "library", "mode": "dense", "limit": 3}
    with open_catalog() as catalog:
        catalog.searches.save_search("operator", "cats", request)
        catalog.searches.save_search("anna", "hers", request)
        catalog.searches.record_search("operator", {**request, "instruction": "Which animal?"}, keep=5)
    assert run("saved", "list").stdout.splitlines()[1].split()[:6] == ["cats", "cat", "on", "a", "sofa", "library"]
    (line,) = run("saved", "list", "--json").stdout.splitlines()
    assert json.loads(line)["request"] == request
    by_http = httpx.post(f"{url}/api/v1/search", json=request).json()
    by_command = json.loads(run("saved", "run", "cats", "--json").stdout)
    for answer in (by_http, by_command):
        del answer["timings_ms"]
    assert by_command == by_http
    assert "no saved search 'hers'" in run("saved", "run", "hers", code=1).output
    run("saved", "delete", "cats")
    assert len(run("saved", "list").stdout.splitlines()) == 1
    assert "Which animal?" in run("history", "list").stdout
    assert run("history", "clear").stdout == "Deleted 1 searches.\n"
    assert run("history", "list", "--json").stdout == ""


@pytest.fixture
def same_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands open the one of the service."""
    monkeypatch.setenv("GIRCSE_DATABASE_URL", f"sqlite:///{tmp_path / 'catalog_test.db'}")


def test_a_saved_search_keeps_watch_and_tells_its_news(
    run: Run, same_catalog: None, url: str, toy_services: Any
) -> None:
    question = {"query": "grey heron", "collection": "library", "mode": "sparse"}
    toy_services.services.catalog.searches.save_search("operator", "herons", question)
    begun = run("saved", "watch", "herons", "--strength", "strong", "--webhook", "https://example.org/hook").stdout
    assert "'herons' now watches 'library'" in begun
    assert re.search(r"/feeds/[\w-]{32}\.atom", begun)
    assert "whsec_" in begun
    assert run("saved", "news").stdout.splitlines()[1].split() == ["herons", "library", "strong", "0"]
    (line,) = run("saved", "news", "--json").stdout.splitlines()
    told = json.loads(line)
    assert (told["name"], told["strength"], told["unseen"]) == ("herons", "strong", 0)
    assert told["feed"] in begun
    again = ("saved", "watch", "herons", "--strength", "strong", "--webhook", "https://example.org/hook", "--json")
    assert json.loads(run(*again).stdout) == told
    toy_services.add("A grey heron waits.")
    assert run("saved", "news").stdout.splitlines()[1].split() == ["herons", "library", "strong", "1"]
    (line,) = run("saved", "news", "herons", "--json").stdout.splitlines()
    assert (json.loads(line)["text"], json.loads(line)["match"]) == ("A grey heron waits.", "strong")
    assert "A grey heron waits." in run("saved", "news", "herons", "--seen").stdout
    assert run("saved", "news", "herons", "--json").stdout == ""
    assert len(run("saved", "news", "herons", "--all", "--json").stdout.splitlines()) == 1
    assert "webhook" in run("saved", "watch", "herons", "--webhook", "ftp://host", code=1).output
    assert "no longer a standing search" in run("saved", "unwatch", "herons").stdout
    assert "no standing search" in run("saved", "news", "herons", code=1).output


def test_sources_are_added_listed_run_and_deleted(run: Run, same_catalog: None, toy_services: Any) -> None:
    toy_services.services.library.ensure_collection("library")
    git = ("sources", "add", "git", "https://127.0.0.1:9/x.git", "-c", "library")
    assert "no credentials 'own'" in run(*git, "--credentials", "own", code=1).output
    added = run(*git, "--glob", "docs/", "--glob", "*.md", "--branch", "next", "--every", "60", "--remove").stdout
    assert "to 'library' as " in added
    (line,) = run("sources", "list", "-c", "library", "--json").stdout.splitlines()
    found = json.loads(line)
    assert (found["patterns"], found["branch"], found["every_minutes"]) == (["docs/", "*.md"], "next", 60)
    assert (found["kind"], found["removes"]) == ("git", True)
    assert "is due now" in run("sources", "run", found["id"]).stdout
    run("sources", "delete", found["id"])
    assert run("sources", "list", "-c", "library", "--json").stdout == ""
    assert "not an address of the kind git" in run("sources", "add", "git", "ext::sh", "-c", "library", code=1).output


def test_documents_wait_to_be_deleted_and_are_restored(run: Run) -> None:
    with open_catalog() as catalog:
        catalog.create_collection(Collection("library", "model-1", 3, "", 5, 200, 30, "library--1"))
        document, _ = catalog.submit("library", NewDocument("a.txt", "", "text/plain", "a" * 64, 10, {}))
        run("documents", "delete", document.id, "--delay", "60")
        (deletion,) = [job for job in catalog.jobs() if job.kind is JobKind.DELETE]
        assert deletion.not_before - deletion.created_at == timedelta(seconds=60)
        run("documents", "restore", document.id)
        assert catalog.document(document.id).state is DocumentState.QUEUED
    assert "no deletion to cancel" in run("documents", "restore", document.id, code=1).output
