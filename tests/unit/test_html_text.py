"""The text of HTML as a person sees it."""

from __future__ import annotations

import pytest
from sample_files import book

from app.errors import DocumentError
from app.types.documents import ChunkKind
from app.types.texts import NAVIGATION, ROW, ExtractedText
from ingest.readers.document import read_document
from ingest.structure import StructureSplitter


class WordCounter:
    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        at, offsets = 0, []
        for word in text.split():
            at = text.index(word, at)
            offsets.append((at, at + len(word)))
            at += len(word)
        return offsets


def read(page: str) -> ExtractedText:
    return read_document(page.encode(), uri="a.html")


def paragraphs(page: str) -> list[str]:
    return read(page).text.split("\n\n")


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<p>Aurora<br>Borealis", ["Aurora\nBorealis"]),
        ("<p>One<br><br>Two</p>", ["One", "Two"]),
        ("<ul><li>Aurora</li><li>Borealis</li></ul>", ["Aurora", "Borealis"]),
        ("<div>Aurora</div><div>Borealis</div>", ["Aurora", "Borealis"]),
        ("<div>Before<p>Within</p>after</div>", ["Before", "Within", "after"]),
        ("<p>un<b>believ</b>able <i>words</i>.</p>", ["unbelievable words."]),
        ("<dl><dt>Key</dt><dd>Value</dd></dl>", ["Key", "Value"]),
        ("<p>A\n  line of\n  source</p>", ["A line of source"]),
        ("<span style='display: block'>One</span><span style='display:block'>Two</span>", ["One", "Two"]),
        ("<p>soft&shy;ware and&nbsp;more</p>", ["software and more"]),
        ("<custom-part><p>One</p></custom-part><custom-part><p>Two</p></custom-part>", ["One", "Two"]),
    ],
)
def test_words_end_where_a_browser_ends_them(page, shown):
    assert paragraphs(page) == shown


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("North<br>quay", "North quay"),
        ("<ul><li>Aurora</li><li>Borealis</li></ul>", "Aurora, Borealis"),
        ("<p>deep water.</p><p>no cranes</p>", "deep water. no cranes"),
        ("<div>Corona</div><div>Draco</div>", "Corona, Draco"),
        ("x<sup>2</sup>", "x²"),
        ("2<sup>nd</sup>", "2nd"),
    ],
)
def test_lines_in_cells_are_not_glued(cell, value):
    assert f"A: {value}; B: 1" in read(f"<table><tr><th>A<th>B</tr><tr><td>{cell}<td>1</tr></table>").text


def test_merged_cells_of_a_table_count_for_every_row_that_they_cover():
    page = """<table><caption>Harbours</caption><thead><tr><th rowspan=2>Port</th><th colspan=2>Depth</th></tr>
        <tr><th>low</th><th>high</th></tr></thead><tbody><tr><td rowspan=2>East</td><td>3</td><td>5</td></tr>
        <tr><td>4</td><td>6</td></tr><tr><td>West</td><td colspan=2>unknown</td></tr></tbody></table>"""
    found = read(page)
    assert found.text.split("\n\n") == [
        "Harbours",
        "Port: East; Depth low: 3; Depth high: 5",
        "Port: East; Depth low: 4; Depth high: 6",
        "Port: West; Depth low: unknown",
    ]
    assert [mark.level for mark in found.marks] == [ROW] * 3


@pytest.mark.parametrize(
    "page",
    [
        "<main><h1>T</h1><div class=comment><p>SEEN first</p></div><div class=comment><p>SEEN last</p></div></main>",
        "<article><p>Text.</p><aside><p>SEEN: do not open the valve.</p></aside></article>",
        "<figure><img src=x><figcaption>SEEN below a picture</figcaption></figure>",
        "<form><label for=a>SEEN</label><input id=a value='SEEN too'></form>",
        "<form><select><option>No<option selected>SEEN</select></form>",
        "<form><textarea>SEEN\n  as typed</textarea><button>Send</button></form>",
        "<details><summary>More</summary><p>SEEN</p></details>",
        "<table role=presentation><tr><td>SEEN</td><td>Side</td></tr></table>",
        "<svg><title>no</title><text>SEEN</text></svg><p>x",
        "<div class='sidebar ad menu'>SEEN</div>",
        "<header><p>SEEN</p></header><p>x",
        "<p>" + "<div>" * 1500 + "SEEN",
    ],
)
def test_what_a_person_sees_is_in_the_text(page):
    assert "SEEN" in read(page).text


@pytest.mark.parametrize(
    "page",
    [
        "<p>x<script>HIDDEN</script>",
        "<p>x</p><div hidden>HIDDEN</div>",
        "<p>x</p><div style='display:none'>HIDDEN</div>",
        "<p>x</p><span style='visibility: hidden'>HIDDEN</span>",
        "<p>x</p><input type=hidden value=HIDDEN>",
        "<p>x</p><template><p>HIDDEN</p></template>",
        "<p>x</p><dialog>HIDDEN</dialog>",
        "<p>x</p><input type=password value=HIDDEN>",
        "<p>x<!-- HIDDEN --></p>",
    ],
)
def test_what_nobody_sees_is_not(page):
    assert "HIDDEN" not in read(page).text


@pytest.mark.parametrize("tag", ["pre", "textarea", "pre><code", "div style='white-space: pre'"])
def test_code_keeps_its_lines_and_indentation(tag):
    code = "def f():\n    if x:\n\n        return 1"
    assert code in read(f"<p>Before</p><{tag}>{code}</{tag.split()[0]}><p>After").text


def test_menus_and_footers_are_passages_of_their_own_kind():
    prose = "<p>The harbour committee met on the third of May to discuss dredging and tides.</p>" * 3
    found = read(f"<nav><a>Home</a> <a>Docs</a></nav><main>{prose}</main><footer><p>Imprint</p><p>Privacy</p></footer>")
    menus = [found.text[mark.start : mark.end] for mark in found.marks if mark.level == NAVIGATION]
    assert menus == ["Home Docs", "Imprint\nPrivacy"]
    spans = StructureSplitter(WordCounter(), max_tokens=100, overlap=0)(found)
    assert [span.text for span in spans if span.kind is ChunkKind.NAVIGATION] == menus
    assert [span.kind for span in spans].count(ChunkKind.PROSE) == len(spans) - 2


def test_a_page_that_is_a_menu_is_prose():
    found = read("<nav><ul><li><a>One</a></li><li><a>Two</a></li></ul></nav>")
    assert found.text == "One\nTwo"
    assert not found.marks


def test_the_footer_of_an_article_belongs_to_it():
    assert not read("<article><p>Text.</p><footer>By Ada</footer></article>").marks


def test_linked_data_gives_author_and_dates():
    page = """<script type="application/ld+json">{"@graph": [{"@type": "Article", "author": {"name": "Ada"},
        "datePublished": "2020-05-01T10:00:00Z"}]}</script><script type="application/ld+json">{broken</script><p>x"""
    assert read(page).metadata == {"author": "Ada", "created": "2020-05-01"}


def test_lines_of_the_source_are_no_paragraphs_of_a_book():
    chapter = "<p>It was a bright\ncold day in April,\nand the clocks were striking.</p><p>Second\nparagraph.</p>"
    found = read_document(book(chapter), uri="a.epub")
    assert found.text.split("\n\n") == [
        "It was a bright cold day in April, and the clocks were striking.",
        "Second paragraph.",
    ]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<doc><sec><title>T</title><p>one</p>LOOSE<p>two</p></sec></doc>", "T\n\none\n\nLOOSE\n\ntwo"),
        ("<r><x>one</x>LOOSE<y>two</y></r>", "r: one LOOSE two"),
        ("<d><p>un<b>believ</b>able, a <file>name</file>.</p></d>", "unbelievable, a name."),
        ("<d><note>See<ref>3</ref>below</note></d>", "note: See 3 below"),
        ("<d><p>H<sub>2</sub>O</p></d>", "H2O"),
    ],
)
def test_mixed_content_of_xml_keeps_its_words_apart(data, text):
    assert read_document(data.encode(), uri="a.xml").text == text


DEEP = 100_000


@pytest.mark.parametrize(
    ("opened", "closed", "shown"),
    [
        ("<div>" * DEEP, "</div>" * DEEP, "Before\n\nwithin\n\nafter"),
        ("<div>" * DEEP, "", "Before\n\nwithin after"),
        ("<ul><li>" * DEEP, "</li></ul>" * DEEP, "within"),
        ("<font size=2>" * DEEP, "", "within after"),
        ("<table><tr><td>" * 3_000, "</table>" * 3_000, "within"),
        ("<div>" * DEEP + "<script>hidden()</script><style>.hidden{}</style>", "", "within"),
        ("<p>a &amp; b &#233; <i>lin<b>e</b></i></p><div>" * 3_000, "", "a & b é line"),
        ("<p>one<div>" * 3_000, "", "one\n\none"),
    ],
    ids=["closed", "open", "lists", "inline", "tables", "scripts", "lines", "paragraphs"],
)
def test_what_lies_deep_is_read_and_what_comes_after(opened: str, closed: str, shown: str) -> None:
    found = read(f"<html><body><p>Before</p>{opened}within{closed} after</body></html>").text
    assert shown in found
    assert found.startswith("Before")
    assert found.endswith("after")
    assert "hidden" not in found


def test_what_cannot_be_flattened_is_refused_with_the_reason() -> None:
    with pytest.raises(DocumentError, match="nested too deeply"):
        read("<p>Before</p>" + "<object>" * 10_000 + "within")


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("<mi>x</mi><mo>=</mo><mfrac><mn>1</mn><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow></mfrac>", "x=1/(a+b)"),
        ("<msup><mi>e</mi><mn>2</mn></msup><msub><mi>x</mi><mi>i</mi></msub>", "e^2x_i"),
        ("<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><msqrt><mi>i</mi></msqrt>", "∑_i^n√(i)"),
        ("<semantics><mi>y</mi><annotation encoding='application/x-tex'>y</annotation></semantics>", "y"),
        ("<mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr><mtr><mtd>3</mtd><mtd>4</mtd></mtr></mtable>", "1, 2; 3, 4"),
        ("<mrow>" * 200 + "<mi>z</mi>" + "</mrow>" * 200, "z"),
    ],
)
def test_formulas_are_one_line_in_their_paragraph(formula, shown):
    assert read_document(f"<p>So <math>{formula}</math> holds.</p>".encode(), uri="a.html").text == f"So {shown} holds."
