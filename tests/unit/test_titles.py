"""How documents are titled, and the headings of texts that are written with signs."""

from __future__ import annotations

import pytest

from app.types.texts import ExtractedText, Span
from ingest.headings import HeadingPath
from ingest.readers.document import read_document
from ingest.titles import choose_title


def read(text: str, uri: str) -> ExtractedText:
    return read_document(text.encode(), uri=uri)


def headings(found: ExtractedText) -> list[tuple[int, str]]:
    return [(mark.level, found.text[mark.start : mark.end]) for mark in found.marks]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("```sh\n# install\n```\n\n# Real title\n", "Real title"),
        ("~~~~\n```\n# no\n~~~\n# no\n~~~~\n# Real title", "Real title"),
        ("    # indented code\n\n# Real title", "Real title"),
        ("<!-- # no\n# no -->\n# Real title", "Real title"),
        ("# Table of Contents\n\n- x\n\n# Real title", "Real title"),
        ("# Title Slide\n\n## Real title", "Real title"),
        ("Real title\n==========\n\ntext", "Real title"),
        ("Real title\n---\n\ntext", "Real title"),
        ("---\ntitle: Real title\ntags: [a]\n---\n\n# Other", "Real title"),
        ('---\nlayout: post\ntitle: "Real: title" # why\n---\ntext', "Real: title"),
        ("---\ntitle: >-\n  Real\n  title\n---\ntext", "Real title"),
        ('+++\ntitle = "Real title"\n+++\n# Other', "Real title"),
        ("---\ntags: [a]\n---\n# Real title", "Real title"),
        ("Title: Real title\nDate: 2024-01-01\n\ntext", "Real title"),
        ("# ![](logo.png)\n\n# Real title", "Real title"),
        ("# [![build](a.svg)](b) [Real](c) **title** {#top}\n", "build Real title"),
        ("# The `title` of *this*\n", "The title of this"),
        ("# 2 * 3 * 4 of `a\n", "2 * 3 * 4 of `a"),
        ("# List<String> and __init__\n", "List<String> and __init__"),
        ('<h1 align="center"><a href="x">Real title</a></h1>\n\n## Other', "Real title"),
        ("```\n<h1>no</h1>\n```\n# Real title", "Real title"),
        ("| a |\n---\n\nNo heading.", "file"),
    ],
)
def test_markdown(text, title):
    assert read(text, "file.md").title == title


@pytest.mark.parametrize(
    ("uri", "text", "title"),
    [
        ("file.rst", "=====\nTitle\n=====\n\ntext", "Title"),
        ("file.rst", "Title\n~~~~~\n\ntext", "Title"),
        ("file.rst", "Contents\n========\n\nTitle\n=====\n", "Title"),
        ("file.adoc", "= Title\n\n== Part\n", "Title"),
        ("file.adoc", "----\n= no\n----\n\n== Title\n", "Title"),
        ("file.org", "#+TITLE: Title\n\n* Part\n", "Title"),
        ("file.org", "#+begin_src\n* no\n#+end_src\n* Title\n", "Title"),
        ("README", "Words.", "README"),
        ("file.txt", "# No heading", "file"),
        ("a.html", "<title>Title</title><h1>Table of Contents</h1><p>x", "Title"),
        ("a.html", "<title>Untitled Document</title><h2>Title</h2><p>x", "Title"),
    ],
)
def test_other_texts(uri, text, title):
    assert read(text, uri).title == title


def test_a_heading_that_is_a_paragraph_is_cut_at_a_word():
    long = "word " * 80
    title = read(f"# {long}\n\ntext", "file.md").title
    assert title.endswith("word …")
    assert len(title) <= 120
    assert read(f"# {long}\n\n# Short\n", "file.md").title == "Short"


@pytest.mark.parametrize(
    "nothing", ["Table of Contents", "CONTENTS", "Title Slide", "Slide 1", "Inhaltsverzeichnis", "—"]
)
def test_what_says_nothing_is_no_title(nothing):
    assert choose_title([nothing, "Title"]) == "Title"
    assert choose_title([f"{nothing} of the harbour"]) == f"{nothing} of the harbour"


def test_headings_of_restructured_text_have_levels_and_stand_above_what_follows():
    text = "====\nBook\n====\n\nPart\n====\n\nChapter\n-------\n\nWords.\n\nOther\n=====\n\n::\n\n  no\n  ==\n"
    found = read(text, "a.rst")
    assert headings(found) == [
        (1, "====\nBook\n===="),
        (2, "Part\n===="),
        (3, "Chapter\n-------"),
        (2, "Other\n====="),
    ]
    at = text.index("Words.")
    (span,) = HeadingPath().place(text, [Span("Words.", at, at + 6)], found.marks)
    assert span.headings == ("Book", "Part", "Chapter")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Para one\nline two\n---\n", []),
        ("- item\n---\n", []),
        ("Title\n=\n", []),
        ("# One\n## Two\nText\n\nThree\n===\n", [(1, "# One"), (2, "## Two"), (1, "Three\n===")]),
    ],
)
def test_underlined_headings_of_markdown(text, found):
    assert headings(read(text + "\nwords", "a.md")) == found
