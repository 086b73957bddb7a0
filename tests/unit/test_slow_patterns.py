"""Patterns on texts without a limit: in quadratic time each of these would take hours."""

from __future__ import annotations

import pytest

from app.errors import DocumentError
from ingest.readers.document import read_document
from ingest.readers.hyphens import Hyphens
from ingest.recurring.imap import _LISTED
from ingest.text_headings import MarkdownHeadings

LONG = 2_000_000


def test_a_sign_of_a_heading_before_spaces_alone() -> None:
    assert MarkdownHeadings().marks("#" + " " * LONG + "\x0b", 0) == ()
    assert len(MarkdownHeadings().marks("# A" + " " * LONG + "b", 0)) == 1


def test_a_word_of_a_million_letters_before_a_line() -> None:
    assert Hyphens().join("a" * LONG, "next") == "a" * LONG + " next"
    assert Hyphens().join("a" * LONG + " wonder-", "ful") == "a" * LONG + " wonderful"


def test_signs_of_subtitles_that_never_end() -> None:
    for sign in ("<v ", "<v" + " " * 100_000 + "\t", "<a ", "{\\a"):
        cues = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{sign * (LONG // len(sign))}\nwords\n"
        assert "words" in read_document(cues.encode(), uri="a.vtt").text
    cues = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v.loud Ada>Hello <b>all</b> {\\an8}there\n"
    assert read_document(cues.encode(), uri="a.vtt").text == "Ada: Hello all there"


def test_a_folder_of_a_mailbox_whose_separator_never_ends() -> None:
    assert _LISTED.fullmatch(b'(x) "' + b"\\a" * LONG) is None
    assert _LISTED.fullmatch(b'(x) "\\\\" "a"') is not None


@pytest.mark.parametrize(
    "text", ['["' + 'a\\"' * 500_000, '["' + 'a\\"' * 500_000 + "\\", "/* " * 500_000, "/*x*/[" + ", " * 500_000]
)
def test_strings_and_comments_of_json_that_never_end(text: str) -> None:
    with pytest.raises(DocumentError):
        read_document(text.encode(), uri="a.json")
