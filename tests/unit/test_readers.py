"""Readers on files made here by the libraries that people write such files with."""

from __future__ import annotations

import codecs
import datetime
import io
import json
import random

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from hypothesis import given, settings
from hypothesis import strategies as st
from reportlab.pdfgen.canvas import Canvas
from sample_files import pdf, with_part, word_file, workbook

from app.errors import DocumentError
from app.types.texts import NAVIGATION, ROW, ExtractedText
from ingest.readers import SUFFIXES, ReadLimits, type_of_suffix
from ingest.readers.document import read_document

ENTITY = b'<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/hostname"><!ENTITY word "expanded">]>'


def with_entities(archive: bytes, part: str, word: bytes, by: bytes) -> bytes:
    def change(xml: bytes) -> bytes:
        assert word in xml
        declaration, end, rest = xml.rpartition(b"?>")
        return declaration + end + ENTITY + rest.replace(word, by)

    return with_part(archive, part, change)


def marked(found: ExtractedText) -> list[tuple[int, str]]:
    """Level and text of every heading and row."""
    return [(level, found.text[start:end]) for start, end, level in found.marks]


@pytest.mark.parametrize(
    ("uri", "media_type"),
    [
        ("notes.TXT", "text/plain"),
        ("file:///a/b%20c/page.htm", "text/html"),
        ("https://example.org/paper.pdf?download=1#page=2", "application/pdf"),
        (r"C:\docs\table.tsv", "text/tab-separated-values"),
        ("C# notes #2.md", "text/markdown"),
    ],
)
def test_media_type_follows_the_suffix(uri, media_type):
    assert type_of_suffix(uri) == media_type


@pytest.mark.parametrize("uri", ["tool.exe", "README", ".txt"])
def test_other_names_stand_for_no_media_type(uri):
    assert type_of_suffix(uri) == ""


def test_media_type_of_the_caller_counts_when_a_reader_knows_it():
    assert read_document(b"# Head", uri="upload", media_type="text/markdown; charset=utf-8").title == "Head"
    assert read_document(b"# Head", uri="a.txt", media_type="application/octet-stream").media_type == "text/plain"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_text_in_common_encodings(encoding):
    text = "Grüße aus München: schöne Häuser überall, und süße Äpfel für die Größeren."
    assert read_document(text.encode(encoding), uri="a.txt").text == text


def test_japanese_text_in_a_legacy_encoding():
    text = "今日は良い天気ですね。公園に行きましょう。明日も晴れるでしょう。"
    assert read_document(text.encode("shift_jis"), uri="a.txt").text == text


def test_damaged_utf8_keeps_its_letters():
    assert read_document("été à Orléans ".encode() * 3 + b"\xff", uri="a.txt").text == "été à Orléans " * 3 + "\ufffd"


def test_nul_and_lone_surrogates_become_storable():
    data = "one\0two\r\nthree\rfour \ud800 five".encode("utf-8", "surrogatepass")
    assert read_document(data, uri="a.txt").text == "onetwo\nthree\nfour \ufffd five"


@given(st.binary(min_size=1, max_size=300))
@settings(deadline=None)
def test_any_bytes_give_storable_text_or_a_reason(data):
    try:
        text = read_document(data, uri="a.txt").text
    except DocumentError:
        return
    assert "\0" not in text
    assert "\r" not in text
    assert text.encode("utf-8").decode("utf-8") == text


@pytest.mark.parametrize("size", [64, 1_000, 200_000])
def test_binary_junk_is_not_text(size):
    with pytest.raises(DocumentError, match=r"holds no text, and its format is unknown"):
        read_document(random.Random(size).randbytes(size), uri="junk.txt")


@pytest.mark.parametrize("data", [bytes(500), bytes(range(32)) * 8, codecs.BOM_UTF16_LE + bytes(500)])
def test_control_characters_are_not_text(data):
    with pytest.raises(DocumentError, match=r"control characters|no text"):
        read_document(data, uri="junk.txt")


@pytest.mark.parametrize("uri", [f"a{suffix}" for suffix in SUFFIXES])
def test_no_bytes_are_an_empty_document(uri):
    with pytest.raises(DocumentError, match="empty"):
        read_document(b"", uri=uri)


@pytest.mark.parametrize("uri", ["a.txt", "a.md", "a.csv", "a.html"])
def test_whitespace_is_an_empty_document(uri):
    with pytest.raises(DocumentError, match="empty"):
        read_document(b" \n\t ", uri=uri)


def test_title_falls_back_to_the_file_name():
    assert read_document(b"No heading here.", uri="file:///x/My%20notes.md").title == "My notes"
    assert read_document(b"Intro\n\n## The  plan ##\n", uri="a.md").title == "The plan"


ARTICLE = "".join(
    f"<p>Paragraph {n} speaks at some length of a matter of interest to its readers.</p>" for n in range(6)
)


def test_html_gives_main_text_title_and_metadata():
    page = f"""<html><head><title>The &amp; title</title><meta name="author" content="Ada Lovelace">
        <meta property="article:published_time" content="2020-05-01T10:00:00Z"></head>
        <body><nav><a href="/">Home</a></nav><article><h1>Heading</h1>{ARTICLE}</article>
        <script>alert("run")</script><footer>Imprint</footer></body></html>"""
    found = read_document(page.encode(), uri="a.html")
    assert found.title == "Heading"
    without = page.replace("<h1>Heading</h1>", "")
    assert read_document(without.encode(), uri="a.html").title == "The & title"
    assert found.metadata == {"author": "Ada Lovelace", "created": "2020-05-01"}
    assert "Paragraph 0 speaks" in found.text
    assert "readers.\n\nParagraph 5" in found.text
    assert marked(found) == [(NAVIGATION, "Home"), (1, "Heading"), (NAVIGATION, "Imprint")]
    assert not any(word in found.text for word in ("alert", "<p>"))


def test_long_values_are_cut_since_every_passage_is_stored_with_them():
    name = "A" * 1_000_000
    page = f'<meta name="author" content="{name}"><p>Some text.</p>'
    notebook = {"metadata": {"language_info": {"name": name}}, "cells": [{"cell_type": "code", "source": "x = 1"}]}
    message = f"From: {name}\nTo: b@x\nSubject: {name}\n\nSome text."
    rich = "{\\rtf1 {\\info{\\author " + name + "}} Some text.}"
    for data, uri in ((page, "a.html"), (json.dumps(notebook), "a.ipynb"), (message, "a.eml"), (rich, "a.rtf")):
        found = read_document(data.encode(), uri=uri)
        assert found.metadata, uri
        assert all(len(str(value)) <= 2_000 for value in (found.title, *found.metadata.values())), uri
    assert len(read_document(b"Some text.", uri=f"file:///{name}.txt").title) <= 2_000


def test_html_without_main_text_gives_its_whole_body():
    found = read_document(b"<footer>Open <b>daily</b><br>except on Sundays</footer><style>p{}</style>", uri="a.html")
    assert found.text == "Open daily\nexcept on Sundays"


def test_headings_of_pages_have_their_levels_where_they_stand():
    page = f"""<html><body><article><h1>Bread</h1>{ARTICLE}<h2>Of <i>rye</i></h2>{ARTICLE}<h4>Sour
        dough</h4>{ARTICLE}</article></body></html>"""
    found = read_document(page.encode(), uri="a.html")
    assert marked(found) == [(1, "Bread"), (2, "Of rye"), (4, "Sour dough")]


def test_markdown_tells_its_headings_and_none_in_code():
    found = read_document(b"# One\n\ntext\n\n```\n# no\n```\n\n## Two ##\n", uri="a.md")
    assert marked(found) == [(1, "# One"), (2, "## Two ##")]
    assert marked(read_document(b"# One\n", uri="a.txt")) == []


def test_word_styles_that_are_based_on_a_heading_are_headings():
    document = docx.Document()
    style = document.styles.add_style("Own", WD_STYLE_TYPE.PARAGRAPH)
    style.base_style = document.styles["Heading 2"]
    document.add_paragraph("A title", style="Title")
    document.add_paragraph("A part", style="Own")
    document.add_paragraph("Text.")
    buffer = io.BytesIO()
    document.save(buffer)
    found = read_document(buffer.getvalue(), uri="a.docx")
    assert marked(found) == [(1, "A title"), (2, "A part")]
    assert found.title == "A title"


def test_html_declares_its_encoding():
    page = "<html><head><meta charset=iso-8859-1></head><body><p>Grüße</p></body></html>"
    assert read_document(page.encode("latin-1"), uri="a.html").text == "Grüße"


def test_html_with_nothing_to_read_is_refused():
    for page in (b"<!-- nothing -->", b"<script>x = 1</script>"):
        with pytest.raises(DocumentError):
            read_document(page, uri="a.html")


def test_csv_rows_keep_their_headers():
    data = 'name;note\r\nAda;"says ""hi"",\r\nthen leaves"\r\n;;\r\nBob;\r\n;x;more\r\n'.encode("utf-8-sig")
    rows = read_document(data, uri="people.csv").text.split("\n\n")
    assert rows == ['name: Ada; note: says "hi", then leaves', "name: Bob", "note: x; Column 3: more"]


def test_csv_of_headers_alone_is_kept():
    assert read_document(b"city,country\n", uri="a.csv").text == "city; country"


def test_csv_cell_of_half_a_megabyte():
    text = read_document(b'id\tbody\n1\t"' + b"word " * 100_000 + b'"\n', uri="a.tsv").text
    assert text.startswith("id: 1; body: word word")


def test_xlsx_names_sheets_and_keeps_headers():
    rows: list[list[object]] = [["Name", "Born"], ["Ada", datetime.datetime(1815, 12, 10)], [None, None], ["Bob", 3.5]]
    found = read_document(workbook({"People": rows, "Empty": [], "Places": [["City"], ["Paris"]]}), uri="a.xlsx")
    assert found.text.split("\n\n") == [
        "Sheet People",
        "Name: Ada; Born: 1815-12-10",
        "Name: Bob; Born: 3.5",
        "Sheet Places",
        "City: Paris",
    ]
    assert marked(found) == [
        (1, "Sheet People"),
        (ROW, "Name: Ada; Born: 1815-12-10"),
        (ROW, "Name: Bob; Born: 3.5"),
        (1, "Sheet Places"),
        (ROW, "City: Paris"),
    ]


def test_repeated_headers_stop_at_the_character_limit():
    row: list[object] = [1, 2]
    data = workbook({"S": [["H" * 1_000, "n"], *[row] * 50]})
    with pytest.raises(DocumentError, match="longer than 20,000 characters"):
        read_document(data, uri="a.xlsx", limits=ReadLimits(max_characters=20_000))


def test_docx_in_reading_order_with_metadata():
    found = read_document(word_file(), uri="a.docx")
    assert found.text.split("\n\n") == [
        "Before the heading.",
        "Of cities",
        "City: Paris; Country: France",
        "After the table.",
    ]
    assert found.title == "Of cities"
    assert found.metadata == {"author": "Ada", "created": "2024-05-01", "modified": "2024-06-02", "pages": 1}
    assert marked(found) == [(1, "Of cities"), (ROW, "City: Paris; Country: France")]
    assert read_document(word_file(title="Named"), uri="a.docx").title == "Of cities"


@pytest.mark.parametrize(("uri", "data"), [("a.docx", word_file()), ("a.xlsx", workbook({"S": [["x"]]}))])
class TestBrokenOfficeFiles:
    def test_cut_short(self, uri, data):
        with pytest.raises(DocumentError, match="damaged or truncated"):
            read_document(data[: len(data) // 2], uri=uri)

    def test_protected_by_a_password(self, uri, data):
        with pytest.raises(DocumentError, match="password"):
            read_document(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + data, uri=uri)

    def test_part_that_is_no_xml(self, uri, data):
        part = {"a.docx": "word/document.xml", "a.xlsx": "xl/workbook.xml"}[uri]
        with pytest.raises(DocumentError, match="damaged"):
            read_document(with_part(data, part, lambda xml: xml[:300]), uri=uri)

    def test_expands_beyond_the_limit(self, uri, data):
        bomb = with_part(data, "docProps/app.xml", lambda xml: xml + b" " * 30_000_000)
        with pytest.raises(DocumentError, match=r"unpack to 3[01] MB; the limit is 2 MB"):
            read_document(bomb, uri=uri, limits=ReadLimits(max_expanded_bytes=2_000_000))


def test_docx_entities_are_refused():
    data = with_entities(word_file(), "word/document.xml", b"After the table.", b"After &word; &secret;.")
    with pytest.raises(DocumentError, match="declares entities"):
        read_document(data, uri="a.docx")


@pytest.mark.parametrize("part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
def test_xlsx_entities_are_refused(part):
    word = {"xl/workbook.xml": b"Planted", "xl/worksheets/sheet1.xml": b"cell"}[part]
    data = with_entities(workbook({"Planted": [["cell"]]}), part, word, b"&word;&secret;")
    with pytest.raises(DocumentError, match="damaged"):
        read_document(data, uri="a.xlsx")


def test_pdf_knows_its_pages_and_metadata():
    found = read_document(pdf("First page.", "", "Third page.", title="The title", author="Ada"), uri="a.pdf")
    assert found.title == "The title"
    assert found.metadata["pages"] == 3
    assert found.metadata["author"] == "Ada"
    assert found.metadata["created"] == "2000-01-01"
    assert len(found.page_starts) == 3
    assert found.text[found.page_starts[2] :] == "Third page."


def test_pdf_lines_become_paragraphs():
    page = "A paragraph that was wrapped where the pa-\nper ended, as every paragraph in print is\nin Paris.\nNext one."
    found = read_document(pdf(page), uri="scan.pdf")
    expected = "A paragraph that was wrapped where the paper ended, as every paragraph in print is in Paris.\nNext one."
    assert found.text == expected


def test_pdf_without_a_title_takes_its_first_line():
    assert (
        read_document(pdf("On wine\n\nText of the page that is much longer than the title."), uri="a.pdf").title
        == "On wine"
    )


def titled_pdf(*lines: tuple[float, str], title: str = "") -> bytes:
    """A page of lines, each in letters of a size."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, invariant=True)
    canvas.setTitle(title)
    for number, (size, line) in enumerate(lines):
        canvas.setFont("Helvetica", size)
        canvas.drawString(72, 720 - 30 * number, line)
    canvas.save()
    return buffer.getvalue()


BODY = [(11.0, "A line of the text, which is in small letters."), (11.0, "And another one, which is in them as well.")]


def test_pdf_takes_its_largest_line_for_its_title_before_its_properties():
    head = [(9.0, "Proceedings, 2024"), (18.0, "On the making"), (18.0, "of wine")]
    found = read_document(titled_pdf(*head, *BODY, title="Microsoft Word - draft7.doc"), uri="scan0001.pdf")
    assert found.title == "On the making of wine"
    assert read_document(titled_pdf(*BODY, title="Of its properties"), uri="a.pdf").title == "Of its properties"
    numbered = titled_pdf((18.0, "12"), *BODY, title="Of its properties")
    assert read_document(numbered, uri="a.pdf").title == "Of its properties"


@pytest.mark.parametrize(
    ("uri", "title"),
    [
        ("upload://survey.txt", "survey"),
        ("upload://C# notes #2.txt", "C# notes #2"),
        ("upload://folder/50%25%20of%20it.txt", "50% of it"),
        ("file:///x/50%25%20of%20it.txt", "50% of it"),
        ("text://0123456789abcdef", "Some words of a text without a name."),
        ("https://example.org/", "Some words of a text without a name."),
        ("https://example.org/paper.txt?v=2", "paper"),
    ],
)
def test_the_place_of_a_file_is_never_its_title(uri, title):
    found = read_document(b"\nSome words of a text without a name.\nMore.", uri=uri, media_type="text/plain")
    assert found.title.startswith(title)
    assert "://" not in found.title


def test_restructured_text_is_titled_by_its_first_heading():
    text = b"Some words before.\n\n====\nA b\n====\n\nTuning a ukulele\n================\n\nTune the strings."
    found = read_document(text, uri="upload://chords.rst")
    assert (found.title, found.text) == ("A b", text.decode())
    assert read_document(b"No heading\n\n- a list", uri="upload://chords.rst").title == "chords.rst"


def test_a_sheet_without_a_name_of_its_own_is_named_once():
    assert read_document(workbook({"Sheet1": [["City"], ["Paris"]]}), uri="a.xlsx").text.startswith("Sheet1\n")


def test_pdf_with_a_password_is_refused():
    with pytest.raises(DocumentError, match=r"password.*Save a copy without"):
        read_document(pdf("secret", password="open sesame"), uri="a.pdf")


def test_pdf_that_only_restricts_editing_is_read():
    assert read_document(pdf("readable", password="", owner="x"), uri="a.pdf").text == "readable"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.98])
def test_pdf_cut_short_is_refused(share):
    data = pdf("one", "two", "three")
    with pytest.raises(DocumentError, match="truncated"):
        read_document(data[: int(share * len(data))], uri="a.pdf")


def test_pdf_of_blank_pages_is_refused():
    with pytest.raises(DocumentError, match="2 pages: they are blank"):
        read_document(pdf("", ""), uri="a.pdf")


@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=30))
@settings(deadline=None)
def test_damaged_pdf_is_read_or_refused(changes):
    data = bytearray(pdf("one", "two", title="T"))
    for place, byte in changes:
        data[int(place * len(data))] = byte
    try:
        found = read_document(bytes(data), uri="a.pdf")
    except DocumentError:
        return
    assert found.text.strip()
    assert len(found.page_starts) == found.metadata["pages"]


def test_limits_name_themselves():
    with pytest.raises(DocumentError, match="3 pages; the limit is 2"):
        read_document(pdf("a", "b", "c"), uri="a.pdf", limits=ReadLimits(max_pages=2))
    with pytest.raises(DocumentError, match=r"2\.0 MB; the limit is 1\.0 MB"):
        read_document(b"x" * 2_000_000, uri="a.txt", limits=ReadLimits(max_bytes=1_000_000))
    with pytest.raises(DocumentError, match="longer than 10 characters"):
        read_document(b"more than ten", uri="a.txt", limits=ReadLimits(max_characters=10))


def test_megabyte_on_one_line():
    assert len(read_document(b"x" * 1_000_000, uri="a.txt").text) == 1_000_000
