"""Every text of the pages is in every language file, and a request gets the language that it asks for."""

from __future__ import annotations

import ast
import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter
from typing import Any

import pypdfium2 as pdfium
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from office_files import paragraph, word
from other_office_samples import binary_cell, binary_workbook, cell, excel_97, old_word, open_document, record, wide
from outlook_files import compound_file
from sample_files import pdf, samples, unzipped, with_part, workbook, zip_of
from seen_html import Seen
from test_embedded_objects import tree_of
from test_shown_files import with_file

from app.api.problems import add_problem_handlers
from app.errors import DocumentError, UnknownCollectionError, UnknownLensError
from app.types.access import ApiKey, Principal, Role, WebSession
from app.types.account_view import AccountView
from app.types.left_out import left_out
from app.types.metadata_keys import TECHNICAL_KEYS
from app.types.quotas import QuotaUse
from ingest.readers import legacy_office
from ingest.readers.compound_files import compound_file as large_compound_file
from ingest.readers.document import _FORMATS, read_document
from ingest.readers.kinds import KINDS
from scripts.make_texts import CORE, ROOT, find_faults, find_messages, find_texts, messages_of_python, texts_of_python
from ui.account_page import account_drawer
from ui.core_messages import MAX_CHARS, translate_message, translate_note
from ui.fair_queue import FairQueue
from ui.gradio_guard import GradioGuard, QueueSessions
from ui.language import (
    COOKIE,
    ENGLISH,
    _,
    choose_language,
    html,
    languages,
    moment,
    ngettext,
    number,
    read_catalog,
    speaking,
)
from ui.login_page import login_drawer
from ui.page_language import LanguageOfRequest, Translated, translate_problem
from ui.render.text import shown_key

UI = ROOT / "ui"


@pytest.mark.parametrize("language", [each for each in languages() if each != ENGLISH])
def test_a_language_has_every_text_with_its_placeholders_and_no_other(language: str) -> None:
    faults = find_faults(language, UI)
    assert not faults, "\n".join(faults)


def test_a_new_text_an_unused_one_and_another_placeholder_are_faults(tmp_path: Path) -> None:
    code = 'html("<p>[[A text that nobody translated]]</p>")\n_("A name for it")\n'
    (tmp_path / "page.py").write_text(code)
    faults = "\n".join(find_faults("de", tmp_path))
    assert "not in de.po: 'A text that nobody translated'; run scripts/make_texts.py" in faults
    assert "'Variety' is not in the code" in faults
    assert "'A name for it'" not in faults


def test_texts_of_python_are_found_where_they_are_shown() -> None:
    code = """_("one")\nlater("two")\nngettext("{count} hit", "{count} hits", 2)"""
    code += """\nX = "<b>[[three]]</b> [[four {}]]"\nf("five")"""
    assert set(texts_of_python(code)) == {"one", "two", ("{count} hit", "{count} hits"), "three", "four {}"}
    assert ("Copied", "ui/assets/page.js") in set(find_texts(UI))


def test_templates_have_no_text_beside_the_marked_ones() -> None:
    found = []
    for path in sorted((UI / "render").glob("*.py")):
        code = "".join(re.findall(r"[\"'](?:[^\"'\\\n])*[\"']", path.read_text(encoding="utf-8")))
        code = re.sub(r"\[\[.+?\]\]", "", code.replace('""', "").replace("''", ""))
        found += [f"{path.name}: {text}" for text in re.findall(r"</?(?:p|h2|h3|summary|th)>([A-Z][a-z ]+)<", code)]
    assert not found, "mark these as [[text]], then run scripts/make_texts.py"


def test_an_attribute_has_its_text_and_its_value_in_one_message() -> None:
    parted = re.compile(r'[a-z-]+="[^"]*(?:\]\] \{|\} \[\[)[^"]*"')
    found = [
        f"{path.name}: {each}"
        for path in sorted(UI.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for each in parted.findall(node.value)
    ]
    assert not found, "other languages order words differently: write [[Undo {name}]]"


@pytest.mark.parametrize(
    ("headers", "default", "expected"),
    [
        ({}, "auto", "en"),
        ({"accept-language": "de-AT,de;q=0.9,en;q=0.8"}, "auto", "de"),
        ({"accept-language": "en-GB,en;q=0.9,de;q=0.8"}, "auto", "en"),
        ({"accept-language": "fr,zh;q=0.9"}, "auto", "en"),
        ({"accept-language": "de;q=0, en;q=0.1"}, "auto", "en"),
        ({"accept-language": "de"}, "en", "en"),
        ({"accept-language": "en"}, "de", "de"),
        ({"accept-language": "en", "cookie": f"other=1; {COOKIE}=de"}, "en", "de"),
        ({"accept-language": "de", "cookie": f"{COOKIE}=../../etc/passwd"}, "auto", "de"),
        ({"accept-language": ";;;q=x,,*", "cookie": '"'}, "auto", "en"),
    ],
)
def test_the_switch_goes_before_the_default_and_that_before_the_browser(
    headers: dict[str, str], default: str, expected: str
) -> None:
    assert choose_language(headers, default) == expected


def test_texts_numbers_and_dates_follow_the_language() -> None:
    at = datetime(2026, 11, 23, 21, 5)
    shown = (_("Search"), number(1234), number(0.5, 3), moment(at))
    assert shown == ("Search", "1,234", "0.500", "2026-11-23 21:05")
    with speaking("de"):
        assert (_("Search"), number(1234), number(0.5, 3), moment(at)) == (
            "Suchen",
            "1.234",
            "0,500",
            "23.11.26, 21:05",
        )
        assert ngettext("{count} passage", "{count} passages", 1) == "{count} Textstelle"
        assert html("<b>[[Close]]</b> {}").format("<i>") == "<b>Schließen</b> &lt;i&gt;"
    assert _("Search") == "Search"


def test_messages_of_the_core_are_found_in_its_code() -> None:
    code = """
_MEND = "Save it again, please."
def read(name):
    there = f"There are: {', '.join(name.known)}." if name else "There is nothing."
    raise InputError(f"No {name!r} of {len(name)} here. {there} {_MEND}")
OTHER_REASONS = ((b"BM no text of a person", "it is a picture; save it otherwise"),)
def _time_reason(limits):
    return f"It took {limits.seconds:g} seconds and {limits.seconds:g} more."
def other():
    return log(f"Nothing that anybody sees: {there}")
"""
    assert set(messages_of_python(code)) == {
        "No “{name}” of {name2} here. {there} {mend}",
        "There are: {known}.",
        "There is nothing.",
        "Save it again, please.",
        "It took {seconds} seconds and {seconds2} more.",
        "it is a picture; save it otherwise",
    }


def test_every_message_of_the_core_is_recognised_with_what_is_filled_in() -> None:
    catalog = read_catalog("de")
    for text, _path in find_messages(ROOT):
        values = {name: f"value{place}" for place, (_literal, name, *_) in enumerate(Formatter().parse(text)) if name}
        said = text.format(**values).replace("“", "'").replace("”", "'")
        with speaking("de"):
            assert translate_message(said) == str(catalog.get(text).string).format(**values)
        assert translate_message(said) == said


def test_a_reason_within_a_message_is_translated_and_what_nobody_wrote_stays() -> None:
    with speaking("de"):
        said = translate_message(str(UnknownCollectionError("it's", ["letters", "recipes"])))
        assert said.startswith("Eine Sammlung „it's“ gibt es nicht. Es gibt: letters, recipes. `gircse ingest")
        assert "Es gibt noch keine Linsen." in translate_message(str(UnknownLensError("x", [])))
        for own in ("", "Eigene Worte.", "No collection named", "x" * 10_000, "{} {name} %s"):
            assert translate_message(own) == own


def test_long_texts_are_looked_at_in_linear_time() -> None:
    """A pattern that goes back and forth in such a text would take days."""
    hostile = ("{name} may store " + "a, . “' and holds; this has . Delete documents, or ask " * MAX_CHARS)[:MAX_CHARS]
    with speaking("de"):
        assert translate_message(hostile) == hostile


def test_login_and_account_speak_german() -> None:
    now = datetime(2026, 11, 23, 21, 5, tzinfo=UTC)
    sessions = [
        WebSession("h", "ada", "c", now, now, id=each, used_at=now, address="10.0.0.1", browser="Firefox on Linux")
        for each in ("one", "two")
    ]
    quotas = [QuotaUse("bytes", 5, None), QuotaUse("documents", 1234, 5000), QuotaUse("requests", 1, None)]

    def shown() -> list[Seen]:
        me = Principal("ada", Role.EDITOR, collections=("team-*",), session_id="one")
        key = ApiKey("k", "ada", "10.0.0.2", "h", Role.READER, now)
        full = AccountView(
            me, sessions, quotas, [key], has_password=True, new_key="gk_1", error="The current password is wrong."
        )
        return [
            Seen(login_drawer(sign_in="Example")("/", "Name or password is wrong.")),
            Seen(login_drawer()("/", "", name="10.0.0.3", is_changed=True)),
            Seen(account_drawer()(full)),
            Seen(account_drawer()(AccountView(me, [], []))),
        ]

    names = {"gircse", "search", "Name", "admin", "10.0.0.1", "team-*", "Authorization: Bearer …"}
    english = [set(seen.texts) for seen in shown()]
    with speaking("de"):
        german = shown()
    for before, seen in zip(english, german, strict=True):
        left = {text for text in before & set(seen.texts) if re.search(r"[a-z]{2}", text) and "{" not in text} - names
        assert not left
        assert seen.of("html")[0]["lang"] == "de"
    assert "Name oder Passwort ist falsch." in german[0].text
    assert "Firefox auf Linux" in german[2].text
    assert "1.234" in german[2].text


def test_problems_are_told_in_the_language_that_is_asked_for() -> None:
    api = FastAPI()
    add_problem_handlers(api)

    @api.get("/")
    def fail() -> None:
        raise UnknownCollectionError("x", [])

    api.add_middleware(Translated, media_type="application/problem+json", rewrite=translate_problem)
    api.add_middleware(LanguageOfRequest, default="auto")
    with TestClient(api) as client:
        plain = client.get("/").json()
        german = client.get("/", headers={"accept-language": "de"}).json()
        assert client.head("/", headers={"accept-language": "de"}).status_code == 405
    assert plain["detail"].startswith("No collection named 'x'. There are no collections yet.")
    assert german["detail"].startswith("Eine Sammlung „x“ gibt es nicht. Es gibt noch keine Sammlungen.")
    assert {**german, "detail": ""} == {**plain, "detail": ""}


def refusing_client() -> TestClient:
    async def never(*_: Any) -> None:
        raise AssertionError("reached Gradio")

    queue = FairQueue(lambda: None, owner_of=str)
    guard = GradioGuard(never, pages=["/"], sessions=QueueSessions(), queue=queue)
    return TestClient(LanguageOfRequest(guard, default="auto"))


def test_an_unknown_path_is_refused_in_the_language_that_is_asked_for() -> None:
    client = refusing_client()
    plain, german = (client.get("/nowhere", headers={"accept-language": each}) for each in ("en", "de"))
    assert plain.status_code == german.status_code == 404
    assert plain.json()["detail"].startswith("There is no page, file or action at this path.")
    assert german.json()["detail"].startswith("Unter diesem Pfad gibt es keine Seite")


@pytest.mark.parametrize(
    ("method", "path", "accept", "media_type"),
    [
        ("GET", "/nowhere", "text/html", "text/html; charset=utf-8"),
        ("GET", "/nowhere", "application/json", "application/problem+json"),
        ("POST", "/nowhere", "text/html", "application/problem+json"),
        ("POST", "/gradio_api/cancel", "*/*", "application/problem+json"),  # a body without a session
    ],
)
def test_no_cache_keeps_a_refusal_and_each_says_what_it_depends_on(
    method: str, path: str, accept: str, media_type: str
) -> None:
    refused = refusing_client().request(method, path, headers={"accept": accept})
    assert (refused.status_code, refused.headers["content-type"]) == (404, media_type)
    assert refused.headers["cache-control"] == "no-store"
    assert {each.strip().lower() for each in refused.headers["vary"].split(",")} == {
        "accept",
        "accept-language",
        "cookie",
    }


def test_every_module_whose_messages_are_translated_is_there() -> None:
    assert [name for name in CORE if not (ROOT / name).exists()] == []


def _names_of_formats() -> set[str]:
    """Every constant that the readers pass on as the name of a format."""
    names = {name for name, _ in _FORMATS.values()}
    for path in ROOT.glob("ingest/readers/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called, given = ast.unparse(node.func), [*node.args, *(each.value for each in node.keywords)]
            texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if called in ("damaged", "too_deep", "_damaged", "_protected", "_Panics", "Members"):
                names.update(texts[:1])
            elif called in ("_parsed", "_parse"):
                names.update(text for text in texts if " " in text)
            elif called == "check_package":
                names.update(text for text in texts if "/" not in text and "." not in text)
    return names


def test_every_name_of_a_format_has_a_translation() -> None:
    names = _names_of_formats()
    assert {"zip archive", "Excel workbook", "JSON", "message"} <= names
    assert names <= set(KINDS)
    catalog = read_catalog("de")
    assert [name for name in KINDS if not catalog.get(name)] == []


REFUSED = {
    "a.txt": b"",
    "b.txt": b" ",
    "a.json": b'{"a": ',
    "b.json": b"[" * 100_000,
    "a.ipynb": b"[]",
    "a.zip": zip_of({"a.txt": "", "b.rar": b"Rar!\x1a\x07" + bytes(20)}),
    "a.rar": b"Rar!\x1a\x07" + bytes(20),
    "a.gif": b"GIF89a" + bytes(20),
    "a.ps": b"%!PS-Adobe",
    "a.xls": bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600),
    "b.xls": excel_97([["x"]], ["General"], head_more=record(0x002F, bytes(54))),
    "a.xlsb": b"PK\x03\x04 no",
    "a.xlsx": zip_of({"[Content_Types].xml": "spreadsheetml", "xl/workbook.xml": "<"}),
    "a.doc": bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600),
    "a.ole": compound_file({"Unknown": b"x"}),
    "a.odt": zip_of({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": "<a/>"}),
    "b.odt": zip_of(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": "",
            "META-INF/manifest.xml": "<a><encryption-data/></a>",
        }
    ),
    "a.docx": zip_of(
        {"[Content_Types].xml": "wordprocessingml", "word/document.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"}
    ),
    "a.pdf": b"%PDF-1.7\n",
    "b.pdf": pdf("x", password="y"),
    "a.png": b"\x89PNG\r\n\x1a\n" + bytes(20),
    "a.epub": zip_of({"mimetype": "application/epub+zip", "META-INF/container.xml": "<a/>"}),
    "a.eml": b"\n\n",
    "a.mbox": b"From me to you.",
    "a.bin": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_file_says_why_in_german(name: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read_document(REFUSED[name], uri=name)
    english = str(refused.value)
    with speaking("de"):
        german = translate_message(english)
    assert german != english
    left = re.sub(r"\([A-Z][A-Za-z]*(?:: [^)]*)?.*?\)|GIRCSE_\w+|pip install \S+", "", german)  # errors of libraries
    assert not re.findall(r"\b(?:This|the|is|it|and|of|file|archive|Save|workbook|document)\b", left)


def with_attachment() -> bytes:
    buffer = io.BytesIO()
    document = pdfium.PdfDocument(pdf("Before"))
    document.new_attachment("invoice.xml").set_data(b"<invoice/>")
    document.save(buffer)
    return buffer.getvalue()


COUNTS = {"embedded": 2, "lists": 3, "numbers": 4}
EMBEDDED = '<w:object><o:OLEObject xmlns:o="o" ProgID="{}" r:id="e"/></w:object>'
LEFT_OUT = {
    "a.jsonl": b'{"a": 1}\n' + b"bad\n" * 8,
    "a.zip": zip_of({"a.txt": "x", "b.exe": b"MZ\x90" + bytes(9), "c.docx": b"PK\x03\x04"}),
    "b.zip": zip_of({"a.jsonl": b'{"a": 1}\nbad\n'}),
    "a.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": "code", "source": "x", "outputs": [{"output_type": "stream", "text": "word " * 5_000}]}
            ]
        }
    ).encode(),
    "a.docx": word(paragraph("Before") + EMBEDDED.format("Excel.Sheet.12")),
    "b.docx": word(paragraph("Before") + EMBEDDED.format("")),
    "c.docx": zip_of(unzipped(samples()["a.docx"]) | {"word/styles.xml": b"<"}),
    "a.xlsx": with_file(workbook({"S": [["Before"]]}), "xl/worksheets/sheet1.xml", "a.bin", b"no file"),
    "b.xlsx": with_part(
        workbook({"S": [["Before", 1]]}), "xl/worksheets/sheet1.xml", lambda xml: xml.replace(b"<v>1</v>", b"<f></f>")
    ),
    "a.xlsb": binary_workbook({0: [binary_cell(6, 0, wide("Before")), binary_cell(7, 1, b"\x09\0\0\0")]}),
    "a.ods": open_document(
        "spreadsheet",
        f"<table:table table:name='T'><table:table-row table:number-rows-repeated='2000'>{cell('x')}</table:table-row>"
        "</table:table>",
    ),
    "a.doc": large_compound_file(
        {"ObjectPool": {"_1": {"Equation Native": b"x"}}} | dict(tree_of(old_word("Before\r")))
    ),
    "a.pdf": with_attachment(),
}


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_what_a_document_leaves_out_is_told_in_german(name: str) -> None:
    _check_german(left_out(read_document(LEFT_OUT[name], uri=name).metadata))


def test_what_an_old_document_and_the_model_leave_out_is_told_in_german() -> None:
    notes = legacy_office._notes(
        ["ObjectPool/_1: Could not be read: 1 part. Embedded objects that are not read: 1."], **COUNTS
    )
    _check_german(left_out(notes))
    where = "Characters 3–9, page 2: the model has no tokens for them"
    _check_german(left_out({"skipped_passages": 1, "skipped": where, "unread_pages": "2, 5–7"}))
    with speaking("de"):
        assert translate_note(where) == "Zeichen 3–9, Seite 2: das Modell hat dafür keine Token"


def test_every_metadata_key_of_the_readers_that_a_page_shows_has_a_name() -> None:
    front = "---\nauthor: Ada\ntags: [tides, moon]\nlanguage: en\n---\n# Tides\n\nThe moon pulls.\n"
    files = {**samples(), "front.md": front.encode()}
    keys = {key for name, data in files.items() for key in read_document(data, uri=name).metadata} - TECHNICAL_KEYS
    assert keys >= {"author", "from", "to", "tags"}
    with speaking("de"):
        assert [key for key in sorted(keys) if shown_key(key, 40) == key] == []


def _check_german(notes: list[str]) -> None:
    assert notes
    with speaking("de"):
        german = [translate_note(note) for note in notes]
    for note, translated in zip(notes, german, strict=True):
        assert translated != note
        left = re.sub(r"\([^)]*\)", "", translated)  # errors of libraries and names
        assert not re.findall(r"\b(?:This|the|is|are|it|and|And|of|file|Line|Cell|read|more|not)\b", left)


def test_every_note_of_the_readers_is_one_that_is_translated() -> None:
    for path in ROOT.glob("ingest/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("left_out.append"):
                assert path.name in ("opc.py", "shown_files.py"), f"{path}: use Package.note"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Skipped":
                assert ast.literal_eval(node.args[0]) in KINDS if isinstance(node.args[0], ast.Constant) else True
