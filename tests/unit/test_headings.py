from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types.file_names import shown_title
from app.types.texts import ROW, Mark, Span
from ingest.headings import MOST_CHARACTERS, HeadingPath, context_of
from ingest.text_headings import MarkdownHeadings


def paragraphs(text: str) -> list[Span]:
    return [Span(found.group(), *found.span()) for found in re.finditer(r".+(?:\n.+)*", text)]


def placed(*parts: str) -> list[tuple[str, tuple[str, ...]]]:
    path, markdown = HeadingPath(), MarkdownHeadings()
    return [
        (span.text, span.headings)
        for part in parts
        for span in path.place(part, paragraphs(part), markdown.marks(part, 0))
    ]


def test_a_span_stands_under_the_headings_above_it() -> None:
    text = "Before.\n\n# Algeria\n\nOne.\n\n## Climate ##\n\nTwo.\n\n### Rain\n\nThree.\n\n## People\n\nFour."
    assert placed(text) == [
        ("Before.", ()),
        ("# Algeria", ()),
        ("One.", ("Algeria",)),
        ("## Climate ##", ("Algeria",)),
        ("Two.", ("Algeria", "Climate")),
        ("### Rain", ("Algeria", "Climate")),
        ("Three.", ("Algeria", "Climate", "Rain")),
        ("## People", ("Algeria",)),
        ("Four.", ("Algeria", "People")),
    ]


def test_headings_hold_in_the_parts_that_follow() -> None:
    assert placed("# A\n\nOne.\n\n## B", "Two.\n\n# C\n\nThree.") == [
        ("# A", ()),
        ("One.", ("A",)),
        ("## B", ("A",)),
        ("Two.", ("A", "B")),
        ("# C", ()),
        ("Three.", ("C",)),
    ]


@pytest.mark.parametrize(
    "text", ["```\n# no heading\n```\n\nOne.", "#nothing\n\nOne.", "    # code\n\nOne.", "#\n\nOne."]
)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert placed(text)[-1] == ("One.", ())


def test_a_heading_in_html_needs_a_word() -> None:
    assert MarkdownHeadings().marks("<h2>Climate</h2>\n\n<h2> - </h2>\n", 0) == (Mark(0, 16, 2),)


@pytest.mark.timeout(60)  # quadratic matching takes minutes
@pytest.mark.parametrize("line", ["<h1>" + "</h1>" * 60_000 + "x", "<h1>" + "a" * 100_000 + "</h1>" * 60_000])
def test_a_long_line_of_markup_takes_linear_time(line: str) -> None:
    assert all(mark.end <= len(line) for mark in MarkdownHeadings().marks(line, 0))


def test_a_fence_that_begins_in_one_part_ends_in_the_next() -> None:
    assert placed("~~~\n# no\n", "# no\n~~~\n\n# Yes\n\nOne.")[-1] == ("One.", ("Yes",))


def test_headings_of_other_formats_have_no_signs_and_rows_are_none() -> None:
    part = "C#\n\nOne.\n\na: 1\n\nTwo."
    marks = [Mark(0, 2, 2), Mark(part.index("a:"), part.index("a:") + 4, ROW)]
    found = HeadingPath().place(part, paragraphs(part), marks)
    assert [(span.text, span.headings) for span in found] == [
        ("C#", ()),
        ("One.", ("C#",)),
        ("a: 1", ("C#",)),
        ("Two.", ("C#",)),
    ]


@given(parts=st.lists(st.lists(st.sampled_from(["# A", "## B", "text", "```", ""]), max_size=12), max_size=4))
def test_levels_rise_whatever_the_text(parts: list[list[str]]) -> None:
    levels = {"A": 1, "B": 2}
    for _, headings in placed(*("\n".join(lines) for lines in parts)):
        found = [levels[each] for each in headings]
        assert found == sorted(set(found))


@pytest.mark.parametrize(
    ("title", "uri", "shown"),
    [
        ("A title", "upload://a.txt", "A title"),
        ("upload://survey.txt", "upload://survey.txt", "survey"),
        ("", "file:///x/My%20notes.md", "My notes"),
        ("", "https://example.org/", "example.org"),
        ("", "https://example.org/a/b.html?c=d", "b"),
        ("", "", ""),
    ],
)
def test_what_is_shown_as_a_title_is_never_a_place(title: str, uri: str, shown: str) -> None:
    assert shown_title(title, uri) == shown


def test_a_context_is_short_and_says_nothing_twice() -> None:
    assert context_of("Algeria", ("Algeria", "Climate")) == "Algeria › Climate"
    assert context_of("", ()) == ""
    assert context_of(" A \n title ", ("One", "Two", "Three")) == "A title › Two › Three"
    assert len(context_of("W" * 1000, ("H" * 1000, "I" * 1000))) == 3 * MOST_CHARACTERS + 2 * len(" › ")
