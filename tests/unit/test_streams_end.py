"""A stream of events ends with the key or session that it was asked for with, and with what they may do."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from access_application import open_controlled_web
from patience import PATIENCE_S
from served import served

from app.access.accounts import Accounts
from app.api import watched_streams
from app.testing import ToyEmbedder
from app.types.access import Role
from app.types.documents import Source

PASSWORD = "a password of tests"


@dataclass(frozen=True)
class Application:
    toy: Any
    accounts: Accounts
    url: str


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[Application]:
    with ExitStack() as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched_streams, "POLL_S", 0.1)
        toy = toy_services_class(tmp_path_factory.mktemp("streams"), opened, embedder=ToyEmbedder())
        toy.add("A ferry.", collection="own")
        accounts = Accounts(toy.services.catalog.access)
        accounts.add_user("anna", role=Role.EDITOR, password=PASSWORD)
        url = opened.enter_context(served(opened.enter_context(open_controlled_web(toy))))
        yield Application(toy, accounts, url)


Headers = dict[str, str]
End = Callable[[Application, Headers], None]


def revoke(application: Application, headers: Headers) -> None:
    (key,) = [each for each in application.accounts.api_keys("anna") if each.revoked_at is None]
    application.accounts.ledger.revoke_key(key.id)


def log_out(application: Application, headers: Headers) -> None:
    httpx.post(f"{application.url}/logout", headers=headers, trust_env=False)


def take_collections(application: Application, headers: Headers) -> None:
    application.accounts.change_user("anna", collections=["other"])


def disable(application: Application, headers: Headers) -> None:
    application.accounts.change_user("anna", is_disabled=True)


@pytest.fixture
def headers(application: Application) -> Iterator[dict[str, Headers]]:
    application.accounts.change_user("anna", is_disabled=False, collections=["*"])
    _, shown = application.accounts.add_key("anna")
    answer = httpx.post(f"{application.url}/login", data={"name": "anna", "password": PASSWORD}, trust_env=False)
    cookie = answer.headers["set-cookie"].partition(";")[0]
    yield {"key": {"authorization": f"Bearer {shown}"}, "session": {"cookie": cookie}}
    for key in application.accounts.api_keys("anna"):
        application.accounts.ledger.revoke_key(key.id)


CASES: list[tuple[str, End]] = [
    ("key", revoke),
    ("session", log_out),
    ("key", take_collections),
    ("session", take_collections),
    ("key", disable),
    ("session", disable),
]


@pytest.mark.parametrize(("by", "end"), CASES)
@pytest.mark.parametrize("of", ["job", "page"])
def test_a_stream_ends_with(application: Application, headers: dict[str, Headers], by: str, end: End, of: str) -> None:
    with httpx.Client(base_url=application.url, headers=headers[by], trust_env=False, timeout=PATIENCE_S) as client:
        posted = client.post("/api/v1/documents", json={"collection": "own", "text": f"Text {uuid.uuid4()}."})
        path = f"/api/v1/jobs/{posted.json()['job']['id']}/events"
        if of == "page":
            session = f"session-{uuid.uuid4()}"
            path = f"/gradio_api/heartbeat/{session}"
        with client.stream("GET", path) as stream:
            assert stream.status_code == 200, path
            ends = threading.Event()

            def end_it() -> None:
                ends.set()
                end(application, headers[by])

            timer = threading.Timer(0.5, end_it)
            timer.start()
            for _ in stream.iter_bytes():
                pass
            assert ends.is_set(), "it ended by itself"
            timer.join()


@pytest.mark.parametrize(("by", "end"), CASES)
def test_a_body_that_took_long_is_not_used_after(
    application: Application, headers: dict[str, Headers], by: str, end: End
) -> None:
    """Else who was an admin when it began could add another one an hour later."""
    text = f"Text {uuid.uuid4()}."
    body = json.dumps({"collection": "own", "text": text}).encode()

    def slowly() -> Iterator[bytes]:
        yield b" " * 100_000  # more than is read before the request is authenticated
        time.sleep(3 * watched_streams.POLL_S)
        end(application, headers[by])
        time.sleep(3 * watched_streams.POLL_S)
        yield body

    sent = {**headers[by], "content-type": "application/json"}
    answer = httpx.post(
        f"{application.url}/api/v1/documents", content=slowly(), headers=sent, trust_env=False, timeout=PATIENCE_S
    )
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "Your rights changed while this request arrived. Send it again.",
    )
    assert text not in {each.title for each in application.toy.services.catalog.documents("own", limit=1_000)}


def test_a_body_that_took_long_is_used_while_it_is_allowed(
    application: Application, headers: dict[str, Headers]
) -> None:
    def slowly() -> Iterator[bytes]:
        yield b'{"collection": "own", ' + b" " * 100_000
        time.sleep(3 * watched_streams.POLL_S)
        yield b'"text": "A slow text."}'

    sent = {**headers["key"], "content-type": "application/json"}
    answer = httpx.post(
        f"{application.url}/api/v1/documents", content=slowly(), headers=sent, trust_env=False, timeout=PATIENCE_S
    )
    assert answer.status_code == 202


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_download_ends_with_the_rights(application: Application, headers: dict[str, Headers], is_ended: bool) -> None:
    services = application.toy.services
    data = b"A long line of a log.\n" * 1_000_000
    document, _ = services.library.add_document("own", Source("a.log", "a.log", "text/plain", data=data))
    path = f"/api/v1/documents/{document.id}/content"
    with (
        httpx.Client(base_url=application.url, headers=headers["key"], trust_env=False, timeout=PATIENCE_S) as client,
        client.stream("GET", path) as download,
    ):
        parts = download.iter_bytes()
        count = len(next(parts))
        if is_ended:
            revoke(application, headers["key"])
        time.sleep(10 * watched_streams.POLL_S)  # more than a connection buffers is left to be sent
        with pytest.raises(httpx.RemoteProtocolError) if is_ended else nullcontext():
            count += sum(map(len, parts))
    assert (count < len(data)) == is_ended


def test_a_stream_goes_on_while_it_is_allowed(application: Application, headers: dict[str, Headers]) -> None:
    with httpx.Client(base_url=application.url, headers=headers["key"], trust_env=False, timeout=PATIENCE_S) as client:
        posted = client.post("/api/v1/documents", json={"collection": "own", "text": "A stream goes on."})
        worker = threading.Timer(1.0, application.toy.work_off)
        worker.start()
        with client.stream("GET", f"/api/v1/jobs/{posted.json()['job']['id']}/events") as stream:
            states = [
                json.loads(line.removeprefix("data: "))["state"]
                for line in stream.iter_lines()
                if line.startswith("data: ")
            ]
        worker.join()
    assert (states[0], states[-1]) == ("queued", "done")
