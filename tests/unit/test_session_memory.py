"""What the server keeps for sessions of pages, whose ids, number and values clients choose."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ui import session_memory
from ui.app import Site, mount_pages
from ui.gradio_guard import MAX_SESSION_CHARACTERS
from ui.session_memory import KEPT_STATES, MAX_UNREAD


@pytest.fixture
def site() -> gr.Blocks:
    with gr.Blocks(analytics_enabled=False) as site:
        word, said = gr.Textbox(), gr.Textbox()
        gr.Button().click(lambda word: gr.update(value=word * 2, visible=True), word, said)
    site.queue(api_open=False)
    return site


@pytest.fixture
def client(site: gr.Blocks) -> Iterator[TestClient]:
    with TestClient(mount_pages(FastAPI(), Site(site, {}))) as client:
        yield client


def join(client: TestClient, session: str, word: str = "ferry") -> int:
    body = {"data": [word], "fn_index": 0, "session_hash": session}
    return client.post("/gradio_api/queue/join", json=body).status_code


def answer(client: TestClient, session: str) -> str:
    return client.get("/gradio_api/queue/data", params={"session_hash": session}).text


def states_of(client: TestClient) -> Any:
    (mounted,) = [each.app for each in client.app.routes if hasattr(getattr(each, "app", None), "state_holder")]  # type: ignore[attr-defined]
    return mounted.state_holder


def test_a_session_keeps_no_configuration_and_no_values(client: TestClient) -> None:
    session = uuid.uuid4().hex
    for word in ("ferry", "boat"):  # the second call finds the state of the first
        assert join(client, session, word) == 200
        assert word * 2 in answer(client, session)
    assert states_of(client)[session].config_values == {}


def test_the_latest_sessions_are_kept(client: TestClient) -> None:
    assert states_of(client).capacity == KEPT_STATES


def test_what_no_page_sends_is_not_kept(client: TestClient, site: gr.Blocks) -> None:
    assert join(client, "x" * MAX_SESSION_CHARACTERS) == 200
    kept = set(site._queue.pending_event_ids_session)
    assert join(client, "x" * (MAX_SESSION_CHARACTERS + 1)) == 404
    assert join(client, "long", "x" * 5_000_000) == 413
    assert client.post("/gradio_api/queue/join", content="[" * 100_000).status_code == 404
    assert set(site._queue.pending_event_ids_session) == kept


def test_results_that_nobody_reads_end_the_session(client: TestClient, site: gr.Blocks) -> None:
    session = uuid.uuid4().hex
    assert join(client, session) == 200
    answer(client, session)
    unread = site._queue.pending_messages_per_session[session]
    while unread.qsize() <= MAX_UNREAD:
        unread.put_nowait(gr.__version__)  # type: ignore[arg-type]  # any message
    assert join(client, session) == 400
    assert join(client, "another") == 200


def test_ids_of_events_are_kept_for_the_latest_sessions(
    client: TestClient, site: gr.Blocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_memory, "KEPT_EVENT_IDS", 3)
    for number in range(6):
        assert join(client, f"session {number}") == 200
    assert len(site._queue.pending_event_ids_session) == 3
