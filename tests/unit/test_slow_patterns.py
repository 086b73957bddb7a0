"""Patterns on texts without a limit: in quadratic time each of these would take hours."""

from __future__ import annotations

from ingest.readers.hyphens import Hyphens
from ingest.text_headings import MarkdownHeadings

LONG = 2_000_000


def test_a_sign_of_a_heading_before_spaces_alone() -> None:
    assert MarkdownHeadings().marks("#" + " " * LONG + "\x0b", 0) == ()
    assert len(MarkdownHeadings().marks("# A" + " " * LONG + "b", 0)) == 1


def test_a_word_of_a_million_letters_before_a_line() -> None:
    assert Hyphens().join("a" * LONG, "next") == "a" * LONG + " next"
    assert Hyphens().join("a" * LONG + " wonder-", "ful") == "a" * LONG + " wonderful"
