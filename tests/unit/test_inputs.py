"""What an untrusted request may make Gradio do before a handler is asked: nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ui.gradio_guard import QueueSessions
from ui.inputs import check_inputs

FILE = {"meta": {"_type": "gradio.FileData"}}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A site with a handler of two plain fields, one of a file (ours take none), and one that is a script."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    with gr.Blocks(analytics_enabled=False) as site:
        words, number, files, said = gr.Textbox(), gr.Slider(1, 5), gr.File(file_count="multiple"), gr.Textbox()
        gr.Button().click(lambda *values: repr(values), [words, number], said)
        gr.Button().click(lambda paths: " ".join(Path(each).read_text() for each in paths), files, said)
        gr.Button().click(fn=None, js="() => 1", outputs=said)
    site.queue(api_open=False)
    check_inputs(site, sessions=QueueSessions())
    with TestClient(gr.mount_gradio_app(FastAPI(), site, path="/")) as client:
        yield client


def ask(client: TestClient, index: int, *data: Any) -> str:
    body = {"data": data, "fn_index": index, "session_hash": uuid.uuid4().hex}
    client.post("/gradio_api/queue/join", content=json.dumps(body), headers={"content-type": "application/json"})
    return client.get("/gradio_api/queue/data", params={"session_hash": body["session_hash"]}).text


def test_values_arrive_as_they_were_sent(client: TestClient) -> None:
    assert "('ferry', 'many')" in ask(client, 0, "ferry", "many")


@pytest.mark.parametrize("wrap", [lambda file: file, lambda file: [[file]], lambda file: {"deep": {"deeper": [file]}}])
def test_no_field_takes_in_a_file_of_the_server(client: TestClient, tmp_path: Path, wrap: Any) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    for index, rest in ((0, (3,)), (1, ())):
        assert "hunter2" not in ask(client, index, wrap({"path": str(secret), **FILE}), *rest)
    assert [each for each in (tmp_path / "uploads").rglob("*") if each.is_file()] == []


@pytest.mark.parametrize(
    ("index", "data"),
    [(0, ()), (0, ("ferry",)), (0, ("\ud800", 1)), (0, ({"a": 1}, 1)), (1, ([{"path": "a"}],)), (2, ())],
)
def test_what_cannot_be_read_is_refused_in_words(
    client: TestClient, capfd: pytest.CaptureFixture[str], index: int, data: tuple[Any, ...]
) -> None:
    answer = ask(client, index, *data)
    assert "Reload the page" in answer
    assert "Traceback" not in "".join(capfd.readouterr())


def test_an_index_that_does_not_exist_is_not_an_error_of_the_server(client: TestClient) -> None:
    body = {"data": [], "fn_index": 99, "session_hash": "x"}
    assert client.post("/gradio_api/queue/join", json=body).status_code == 400
