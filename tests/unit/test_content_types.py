"""What a file is, by its content, its name and what its sender says; and what is read of the kinds that are new."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from outlook_files import compound_file, outlook_message
from sample_files import message, pdf, samples, word_file, workbook, zip_of

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers import SUFFIXES, detect
from ingest.readers.document import _FORMATS, _WRAPPERS, read_document
from ingest.readers.media_types import CODE, DOCX, MANUAL, PICTURES, XLSX

MAIL = message("Paris and Köln.")


def kind_of(data: bytes, uri: str = "upload", declared: str = "") -> str:
    return detect(io.BytesIO(data), uri=uri, declared=declared)


def read(data: bytes, uri: str) -> ExtractedText:
    return read_document(data, uri=uri)


@pytest.mark.parametrize("name", [name for name in samples() if name.startswith("a.")])
def test_what_has_a_signature_needs_no_suffix(name):
    data, expected = samples()[name], kind_of(samples()[name], name)
    signed = (
        b"%PDF",
        b"PK",
        b"\x89PNG",
        b"\xff\xd8",
        b"II*",
        b"MM",
        b"RIFF",
        b"\xd0\xcf",
    )
    if data.startswith(signed):
        assert kind_of(data, "README") == kind_of(data, "other.txt") == kind_of(data, declared="text/html") == expected


@pytest.mark.parametrize(
    ("data", "uri", "expected"),
    [
        (MAIL, "letter.pdf", "message/rfc822"),
        (MAIL, "letter.docx", "message/rfc822"),
        (b"From ada@x Tue Mar  5 10:00:00 2024\nFrom: ada@x\n\nHello\n", "INBOX", "application/mbox"),
        (b"<!DOCTYPE html><p>Hello", "export.xls", "text/html"),
        (b"a,b\n1,2\n", "export.xlsx", "text/csv"),
        (b"Just words.", "paper.pdf", "text/plain"),
        (b"Just words.", "README", "text/plain"),
        (b"all:\n\tgcc x.c\n", "Makefile", "text/plain"),
        (b"Just words.", "notes.xyz", "text/plain"),
        ("Grüße aus Köln".encode("cp1252"), "NEWS", "text/plain"),
        ("今日は良い天気ですね。".encode("shift_jis") * 5, "NEWS", "text/plain"),
        ("Hello".encode("utf-16"), "NEWS", "text/plain"),
        (b"#!/usr/bin/env python3\nprint(1)\n", "tool", "text/x-python"),
        (b"#!/bin/sh\nls\n", "tool", "text/x-shell"),
        (b".TH LS 1\n.SH NAME\nls\n", "ls.1", "text/troff"),
        (b"Mar 5 10:00:00 host kernel: up\n", "syslog.1", "text/plain"),
        (b'<?xml version="1.0"?><a>b</a>', "feed", "application/xml"),
        (zip_of({"a.txt": "x"}), "a.docx", "application/zip"),
        (word_file(), "a.zip", DOCX),
        (word_file(), "a.docm", DOCX),
        (workbook({"S": [["x"]]}), "a.docx", XLSX),
        (pdf("Hello"), "a.txt", "application/pdf"),
        (b"\n\n" + pdf("Hello"), "a.pdf", "application/pdf"),
        (outlook_message("S", body="B"), "mail", "application/vnd.ms-outlook"),
    ],
)
def test_content_decides(data, uri, expected):
    assert kind_of(data, uri) == expected


OF_OTHER_KINDS = {
    "HTML": b"<!DOCTYPE html><title>Error</title><p>Three larks",
    "XML": b'<?xml version="1.0"?><report><row>Three larks</row></report>',
    "JSON": b'{"birds": ["Three larks"]}',
    "CSV": b"bird,count\nThree larks,3\n",
    "text": b"Dear Ada,\n\nThree larks sang: twice.\n",
    "Markdown": b"# Birds\n\n- Three larks\n",
    "a mail": MAIL.replace(b"Paris", b"Three larks"),
    "a calendar": b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Three larks\nEND:VEVENT\nEND:VCALENDAR\n",
    "a notebook": b'{"cells": [{"cell_type": "markdown", "source": ["Three larks"]}]}',
}
STRUCTURED = (
    *("json", "jsonl", "ipynb", "xml", "svg", "plist", "webarchive", "eml", "mhtml", "mbox", "1", "tar", "ics", "po"),
    "srt",
)


@pytest.mark.parametrize("suffix", STRUCTURED)
@pytest.mark.parametrize("kind", OF_OTHER_KINDS)
def test_a_text_of_another_kind_than_its_suffix_is_read(kind: str, suffix: str) -> None:
    assert "Three larks" in read(OF_OTHER_KINDS[kind], f"a.{suffix}").text


@pytest.mark.parametrize(("suffix", "text"), [("xml", "<a>Three larks</a>"), ("json", '["Three larks"]')])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_a_mark_is_found_in_every_encoding(encoding: str, suffix: str, text: str) -> None:
    found = read(f"\n {text}".encode(encoding), f"a.{suffix}").text
    assert found.endswith("Three larks")  # without the marks of its format


def test_what_the_sender_declares_counts_more_than_the_suffix():
    assert kind_of(b"<p>Hello", "https://x.org/page.php", "text/html; charset=KOI8-R") == "text/html; charset=koi8-r"
    assert kind_of(b"# Head", "notes.md", "application/octet-stream") == "text/markdown"
    assert kind_of(b"Hello", "notes.md", "text/plain") == "text/plain"
    assert kind_of(b"a,b\n1,2\n", "a.csv", "application/vnd.ms-excel") == "text/csv"


@pytest.mark.parametrize(
    ("data", "uri", "reason"),
    [
        (b"MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff\x00\x00", "tool.exe", "it is a program"),
        (b"\x7fELF\x02\x01\x01\x00", "tool", "it is a program"),
        (b"GIF89a\x01\x00\x01\x00", "x.txt", "it is a GIF image; save it as PNG"),
        (b"%!PS-Adobe-3.0\n", "x.ps", "it is PostScript; save it as PDF"),
        (b"\x00\x00\x00\x18ftypheic" + bytes(99), "photo.heic", "a HEIC image; save it as JPEG, PNG or PDF"),
        (b"\x00\x00\x00\x18ftypmif1" + bytes(99), "photo.jpg", "a HEIC image; save it as JPEG, PNG or PDF"),
        (b"\x00\x00\x00\x1cftypavif" + bytes(99), "photo", "an AVIF image; save it as JPEG, PNG or PDF"),
        (b"\x00\x00\x00\x20ftypisom" + bytes(99), "film.mp4", "it is audio or video"),
        (b"Rar!\x1a\x07\x01\x00", "old.rar", "it is a RAR archive; pack its files as ZIP"),
        (b"SQLite format 3\x00\x10\x00", "x.db", "it is a database"),
        (bytes(range(256)) * 10, "x.dat", "it holds no text"),
        (bytes(range(256)) * 10, "x.txt", "it holds no text"),
        (compound_file({"EncryptedPackage": b"x"}), "a.docx", "protected by a password"),
        (compound_file({"Other": b"x"}), "a", "unknown program"),
    ],
)
def test_what_cannot_be_read_says_so_in_one_line(data, uri, reason):
    with pytest.raises(DocumentError, match=reason) as caught:
        kind_of(data, uri)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 120


def test_every_format_has_one_reader_and_every_reader_a_suffix():
    assert set(SUFFIXES.values()) == {*_FORMATS, *_WRAPPERS}
    assert set(PICTURES) <= set(_FORMATS)


class TestNotebooks:
    def test_cells_results_and_headings_in_their_order(self):
        found = read(samples()["a.ipynb"], "a.ipynb")
        assert found.text.split("\n\n") == [
            "# Of cities",
            "Two of them.",
            "for city in cities:\n    print(city)",
            "Paris\nKöln",
        ]
        assert (found.title, found.metadata) == ("Of cities", {"language": "python"})

    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            ({"output_type": "error", "ename": "ValueError", "evalue": "SEEN"}, "ValueError: SEEN"),
            ({"output_type": "execute_result", "data": {"text/plain": ["SEEN"], "image/png": "x"}}, "SEEN"),
            ({"output_type": "display_data", "data": {"text/html": "<b>SE</b>EN"}}, "SEEN"),
            ({"output_type": "pyout", "text": ["SEEN"]}, "SEEN"),
        ],
    )
    def test_results_of_every_kind(self, output, shown):
        cell = {"cell_type": "code", "source": "x", "outputs": [output]}
        assert read(json.dumps({"cells": [cell]}).encode(), "a.ipynb").text == f"x\n\n{shown}"

    def test_the_third_version(self):
        cells = [{"cell_type": "heading", "level": 2, "source": "Head"}, {"cell_type": "code", "input": ["y = 1"]}]
        assert read(json.dumps({"worksheets": [{"cells": cells}]}).encode(), "a.ipynb").text == "Head\n\ny = 1"

    def test_a_damaged_notebook_is_refused(self):
        with pytest.raises(DocumentError, match="notebook"):
            read(b"{", "a.ipynb")

    @pytest.mark.parametrize("value", [{"head": "Three larks"}, ["Three larks"], "Three larks"])
    def test_other_json_is_read_as_json(self, value):
        data = json.dumps(value).encode()
        assert read(data, "a.ipynb").text == read(data, "a.json").text


class TestOutlook:
    def test_people_body_and_attachments(self):
        data = outlook_message(
            "Über uns", body="Hello.", attachments={"t.csv": b"a,b\n1,2\n", "x.bin": bytes(range(256))}
        )
        found = read(data, "a.msg")
        assert found.text.split("\n\n") == [
            "# Über uns",
            'From: "Ada" <ada@example.org>\nTo: Bob <bob@example.org>',
            "Hello.",
            "# t.csv",
            "a: 1; b: 2",
        ]
        assert found.title == "Über uns"
        assert (found.metadata["attachments"], found.metadata["skipped_attachments"]) == (1, 1)

    def test_html_where_there_is_no_plain_text(self):
        assert read(outlook_message("S", html=b"<p>Only <b>HTML</b></p>"), "a.msg").text.endswith("Only HTML")

    @pytest.mark.parametrize(("code_page", "text"), [(950, "格式測試"), (874, "ทดสอบ"), (1251, "Привет")])
    def test_code_pages_of_windows(self, code_page, text):
        data = outlook_message("S", html=f"<p>{text}</p>".encode(f"cp{code_page}"), code_page=code_page)
        assert read(data, "a.msg").text.endswith(text)

    def test_encoded_words_that_a_program_kept(self):
        assert read(outlook_message("=?iso-8859-1?Q?Gr=FC=DFe?=", body="B"), "a.msg").title == "Grüße"

    def test_a_damaged_one_is_refused(self):
        with pytest.raises(DocumentError):
            read(outlook_message("S", body="B")[:700], "a.msg")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "1\n00:00:01,000 --> 00:00:02,500\n<i>Hello</i> there\nyou.\n\n2\n00:00:03,000 --> 00:00:04,000\nBye.\n",
            "Hello there you.\n\nBye.",
        ),
        (
            "WEBVTT - Title\n\nNOTE nothing\n\nintro\n00:01.000 --> 00:02.000 align:start\n<v Ada>Hi &amp; bye",
            "Ada: Hi & bye",
        ),
        (
            "1\n00:00:01,000 --> 00:00:02,000\nto the\n\n2\n00:00:02,000 --> 00:00:03,000\nto the harbour\n",
            "to the\nharbour",
        ),
        ("No times at all.", "No times at all."),
    ],
)
def test_subtitles_are_what_is_said(source, text):
    assert read(source.encode(), "a.vtt").text == text


class TestManuals:
    def test_headings_fonts_and_titles(self):
        found = read(samples()["a.1"], "cities.1")
        assert found.text.split("\n\n") == [
            "NAME",
            "cities - list cities",
            "SYNOPSIS",
            "cities [options]",
            "DESCRIPTION",
            "Lists cities as Paris by their rivers.",
        ]
        assert found.title == "cities(1)"
        assert [mark.level for mark in found.marks] == [1, 1, 1]

    @pytest.mark.parametrize(
        ("source", "text"),
        [
            (".TP\n.B \\-v\nSay more.\n", "-v Say more."),
            (".nf\n  kept\n    as it is\n.fi\n", "  kept\n    as it is"),
            (".PP\nOne\n.PP\nTwo \\(em \\[u20AC]5 \\fIit\\fP\n", "One\n\nTwo — €5 it"),
            ('.BR ls (1),\n.\\" a comment\nthen \\&.dot\n', "ls(1), then .dot"),
            (".Nm ls\n.Op Fl l Ar file\n.Nd list files\n", "ls -l file — list files"),
        ],
    )
    def test_requests_and_escapes(self, source, text):
        found = read(f".TH X 1\n.SH S\n{source}".encode(), "x.1")
        assert found.text.partition("\n\n")[2] == text


def test_the_documentation_lists_every_suffix_and_no_other():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "ingest-a-folder.md").read_text(encoding="utf-8")
    table = page.partition("| format | files | extracted |\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    listed = {name for _, files, _ in rows for name in files.split(", ")}
    in_words = {"1 to 9", "some 30 languages", "and any text without a known suffix"}
    known = {suffix.removeprefix(".") for suffix, kind in SUFFIXES.items() if kind not in (*CODE, MANUAL)}
    assert known <= listed
    assert {f".{name}" for name in listed - in_words} <= set(SUFFIXES)
    assert all(what for _, _, what in rows)
