"""Bad input at every interface gives one clear message that says what to do, and never harms what is good beside it."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gircse_program import GIRCSE, Answer, Gircse, Server
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

pytestmark = pytest.mark.timeout(900)  # the first test waits for the sample library

OTHER_MODEL = Path(__file__).parents[1] / "golden" / "reference" / "tiny-qwen2"
LONG_INSTRUCTION = "Identify the topic. " * 500
GOOD = {
    "cat.txt": "The cat sleeps on the sofa.",
    "bank.md": "# Bank\n\nThe bank raised interest rates.",
    "tide.html": "<p>The tide comes in twice a day.</p>",
    # What a file is, its content decides.
    "not-a.pdf": "hello, I am no PDF",
    "not-a.xlsx": "hello, I am no workbook",
}


def pdf_of(text: str) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(72, 720, text)
    canvas.save()
    return buffer.getvalue()


def locked_pdf() -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption("password", strength=128))
    canvas.drawString(72, 720, "A secret.")
    canvas.save()
    return buffer.getvalue()


# Name of a file that cannot be read → its bytes, and what its report says: the error and what to do.
BROKEN: dict[str, tuple[bytes, str, str]] = {
    "empty.txt": (b"", "empty", "Check that"),
    "blank.txt": (b" \n\t\n ", "empty", "Check that"),
    "picture.txt": (b"\x89PNG\r\n\x1a\n" + os.urandom(64), "picture is damaged", "save it again"),
    "nothing.pdf": (b"", "empty", "Check that"),
    "locked.pdf": (locked_pdf(), "password", "Save a copy without one"),
    "truncated.pdf": (pdf_of("A page that was cut off.")[:-200], "truncated", "Fetch it again"),
    "damaged.docx": (b"PK\x03\x04 and then nothing", "damaged", "again"),
    "photo.jpg": (b"\xff\xd8\xff\xe0", "picture is damaged", "save it again"),
}


@pytest.fixture
def mixed_folder(tmp_path: Path) -> Path:
    """Good and broken files side by side, with a folder that is named like a file."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name, text in GOOD.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "page.pdf").write_bytes(pdf_of("A page about lighthouses."))
    (folder / "nul.txt").write_bytes(b"Before the NUL\x00 and after it.")
    for name, (data, *_) in BROKEN.items():
        (folder / name).write_bytes(data)
    (folder / "junk.bin").write_bytes(bytes(range(256)) * 64)
    (folder / "folder.pdf").mkdir()
    (folder / "film.mp4").write_bytes(b"\x00\x00\x00\x18ftypmp42")
    return folder


def test_broken_files_are_reported_one_by_one_and_the_good_ones_found(
    mixed_folder: Path, sample_gircse: Gircse, sample_server: Server
) -> None:
    command = sample_gircse.call("ingest", str(mixed_folder), "--collection", "mixed")
    assert "7 added or updated (7 chunks), 0 unchanged, 0 failed, " in command.stdout
    assert re.search(r"junk\.bin +This file cannot be read: ", command.stderr)
    rows = [line for line in command.stderr.splitlines() if line.startswith("unreadable ")]
    reports = {Path(row.split(maxsplit=2)[1]).name: row for row in rows}
    assert reports.keys() == BROKEN.keys()
    documents = sample_server.ask("/api/v1/documents?collection=mixed&state=failed").body
    errors = {Path(each["uri"]).name: each["error"] for each in documents}
    assert errors.keys() == BROKEN.keys()
    for name, (_, error, advice) in BROKEN.items():
        for told in (reports[name], errors[name]):
            assert error in told, name
            assert advice in told, name
    assert "photo.jpg" in command.stderr

    hits = sample_server.search("a cat", collection="mixed", limit=100)["hits"]
    assert {Path(hit["document"]["uri"]).name for hit in hits} == {*GOOD, "page.pdf", "nul.txt"}
    texts = {Path(hit["document"]["uri"]).name: hit["chunk"]["text"] for hit in hits}
    assert texts["nul.txt"] == "Before the NUL and after it."


def without_permission(path: Path) -> None:
    path.write_text("closed", encoding="utf-8")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")


@pytest.mark.skipif(os.name != "posix", reason="permissions and pipes of POSIX")
@pytest.mark.parametrize(("make", "told"), [(without_permission, "Permission denied"), (os.mkfifo, "regular file")])
def test_unreadable_file_is_reported_and_the_rest_ingested(
    make: Callable[[Path], None], told: str, tmp_path: Path, sample_gircse: Gircse, sample_server: Server
) -> None:
    good, unreadable = tmp_path / "cat.txt", tmp_path / "closed.txt"
    good.write_text(GOOD["cat.txt"], encoding="utf-8")
    make(unreadable)
    result = sample_gircse.call("ingest", str(good), str(unreadable), "--collection", "closed", code=1)
    assert "1 added or updated (1 chunks), 0 unchanged, 1 failed." in result.stdout
    assert told in result.stderr


def test_a_megabyte_on_one_line_is_searchable(tmp_path: Path, sample_gircse: Gircse, sample_server: Server) -> None:
    noise = random.Random(0).randbytes(250_000).hex()  # as data inside a text: half a megabyte without a space
    (tmp_path / "line.txt").write_text(f"{noise} volcanoes erupt in Iceland {noise[::-1]}", encoding="utf-8")
    sample_gircse.call("ingest", str(tmp_path / "line.txt"), "--collection", "long")
    (hit, *_) = sample_server.search("volcanoes in Iceland", collection="long", limit=1, explain=False)["hits"]
    assert "volcanoes erupt in Iceland" in hit["chunk"]["text"]


def refused(answer: Answer, status: int, *told: str) -> None:
    assert answer.status == status, answer
    for part in told:
        assert part in answer.body["detail"]


BAD_QUESTIONS: dict[str, tuple[Any, int, str]] = {
    "empty query": ({"query": ""}, 422, "write what you are looking for"),
    "whitespace query": ({"query": " \n\t\u00a0"}, 422, "write what you are looking for"),
    "query with NUL": ({"query": "a\x00b"}, 422, "remove it"),
    "query with a lone surrogate": (b'{"query": "a \\ud800 b", "collection": "sample"}', 422, "surrogate"),
    "long instruction": ({"query": "cat", "instruction": LONG_INSTRUCTION}, 422, "Shorten it"),
    "instruction with NUL": ({"query": "cat", "instruction": "a\x00b"}, 422, "remove it"),
    "unknown collection": ({"query": "cat", "collection": "nowhere"}, 404, "gircse ingest PATH --collection nowhere"),
    "filter with NUL": ({"query": "cat", "filters": {"a": "\x00"}}, 422, "remove it"),
    "no JSON": (b"query=cat", 422, "JSON"),
    "bytes that are no UTF-8": (b'{"query": "\xff\xfe", "collection": "sample"}', 400, "Send JSON in UTF-8"),
}


@pytest.mark.parametrize(("question", "status", "told"), BAD_QUESTIONS.values(), ids=BAD_QUESTIONS)
def test_bad_question_over_http_is_refused_with_advice(
    question: Any, status: int, told: str, sample_server: Server
) -> None:
    body = question if isinstance(question, bytes) else {"collection": "sample", **question}
    refused(sample_server.ask("/api/v1/search", body), status, told)
    assert len(sample_server.search("cat", collection="sample", limit=1, steps=1)["hits"]) == 1


BAD_COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "empty query": (["search", ""], 1, "write what you are looking for"),
    "whitespace query": (["search", " \t"], 1, "write what you are looking for"),
    "long instruction": (["search", "cat", "-c", "sample", "-i", LONG_INSTRUCTION], 1, "Shorten it"),
    "unknown collection": (["search", "cat", "-c", "nowhere"], 1, "gircse ingest PATH --collection nowhere"),
    "query with NUL": (["search", "a\x00b"], 2, "remove it"),
    "ingestion of nothing": (["ingest", "/no/such/file.txt", "-c", "sample"], 1, "no such file"),
    "bad name of a collection": (["ingest", __file__, "-c", "A b"], 1, "a-z"),
}


@pytest.mark.parametrize(("arguments", "code", "told"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_bad_command_is_refused_with_advice(
    arguments: list[str], code: int, told: str, sample_gircse: Gircse, sample_server: Server
) -> None:
    shown = sample_gircse.call(*arguments, code=code).stderr
    assert told in " ".join(re.sub("[│╭╮╰╯─]", " ", shown).split())


@pytest.mark.skipif(os.name != "posix", reason="elsewhere arguments are Unicode already")
def test_argument_that_is_no_unicode_is_refused(gircse_factory: Callable[..., Gircse]) -> None:
    command = [*map(os.fsencode, GIRCSE), b"search", b"caf\xe9"]
    result = subprocess.run(command, env=gircse_factory().environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "not valid Unicode" in result.stderr
    assert "Traceback" not in result.stderr


BAD_TEXTS: dict[str, tuple[Any, str]] = {
    "lone surrogate": (b'{"collection": "sample", "text": "a \\udfff b"}', "surrogate"),
    "NUL in the title": ({"text": "a text", "title": "a\x00b"}, "remove it"),
    "NUL in the metadata": ({"text": "a text", "metadata": {"key": "\x00"}}, "remove it"),
}


@pytest.mark.parametrize(("text", "told"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_bad_text_over_http_is_refused(text: Any, told: str, sample_server: Server) -> None:
    body = text if isinstance(text, bytes) else {"collection": "sample", **text}
    refused(sample_server.ask("/api/v1/documents", body), 422, told)


def test_empty_text_over_http_is_reported_on_the_document(sample_server: Server) -> None:
    assert sample_server.ask("/api/v1/collections", {"name": "texts"}).status == 201
    posted = sample_server.ask("/api/v1/documents", {"collection": "texts", "text": "  "})
    if posted.status == 202:
        sample_server.wait_until_idle("texts")
        document = sample_server.ask(f"/api/v1/documents/{posted.body['document']['id']}").body
        assert document["state"] == "failed"
        assert "empty" in document["error"]
    else:
        refused(posted, 422, "empty")


def test_collection_with_too_long_an_instruction_is_not_made(sample_server: Server) -> None:
    new = {"name": "talkative", "document_instruction": LONG_INSTRUCTION}
    refused(sample_server.ask("/api/v1/collections", new), 422, "Shorten it")
    assert "talkative" not in {each["name"] for each in sample_server.ask("/api/v1/collections").body}


@pytest.mark.long  # test_worker and test_embedders have it with small models
def test_collection_of_another_model_is_neither_searched_nor_written(
    tmp_path: Path, gircse_factory: Callable[..., Gircse]
) -> None:
    note = tmp_path / "note.txt"
    note.write_text(GOOD["cat.txt"], encoding="utf-8")
    right, wrong = gircse_factory(), gircse_factory(settings={"GIRCSE_MODEL": str(OTHER_MODEL)})
    right.call("ingest", str(note))
    note.write_text("The dog barks at the moon.", encoding="utf-8")
    for arguments in (["search", "cat"], ["ingest", str(note)]):
        told = wrong.call(*arguments, code=1).stderr
        assert "another model" in told
        assert "GIRCSE_MODEL" in told
    (hit,) = json.loads(right.call("search", "cat", "--json").stdout)["hits"]
    assert hit["chunk"]["text"] == GOOD["cat.txt"]
    assert "1 added or updated" in right.call("ingest", str(note)).stdout
