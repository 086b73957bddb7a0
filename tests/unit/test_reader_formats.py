"""JSON, XML, source code, slides, books, encodings, and tables whose every chunk shows its column names."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_files import CSV, PAGE, ROWS, book, message, presentation, samples, with_part, word_file, workbook

from app.errors import DocumentError
from app.testing import ToyEmbedder
from ingest.readers import SUFFIXES, ReadLimits, type_of_suffix
from ingest.readers.document import read_document
from ingest.splitter import TokenSplitter

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def paragraphs(data: bytes | str, uri: str) -> list[str]:
    return read_document(data.encode() if isinstance(data, str) else data, uri=uri).text.split("\n\n")


def leaves_of(value: object) -> Iterator[object]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves_of(inner)
    else:
        yield value


class TestJson:
    def test_records_keep_their_keys(self):
        assert paragraphs(
            '[{"city": "Paris", "at": {"x": 1.5}}, {"city": "Köln", "old": true, "note": null}]', "a.json"
        ) == [
            "city: Paris; at.x: 1.5",
            "city: Köln; old: true",
        ]

    def test_lists_in_records_are_told_by_their_path(self):
        value = {"title": "Orders", "tags": ["a", 2], "orders": [{"id": 1, "lines": [{"sku": "x"}, {"sku": "y"}]}]}
        assert paragraphs(json.dumps(value), "a.json") == [
            "title: Orders; tags: a, 2",
            "orders.id: 1",
            "orders.lines.sku: x",
            "orders.lines.sku: y",
        ]

    def test_title_of_an_object(self):
        assert read_document(b'{"title": "Of cities", "n": 1}', uri="a.json").title == "Of cities"
        assert read_document(b'["one", "two"]', uri="list.json").title == "list"

    def test_lines_are_records(self):
        assert paragraphs('\ufeff{"q": "one"}\n\n["two", 3]\n"four"\n', "a.jsonl") == ["q: one", "two", "3", "four"]

    @pytest.mark.parametrize("data", ['{"a": 1', "[1, 2,,]", '{"a": 1} b'])
    def test_broken_json_is_refused(self, data):
        with pytest.raises(DocumentError, match="JSON validator"):
            read_document(data.encode(), uri="a.json")

    def test_what_is_nested_too_deeply_is_refused_with_the_reason(self):
        with pytest.raises(DocumentError, match="JSON is nested too deeply"):
            read_document(b"[" * 100_000 + b"]" * 100_000, uri="a.json")

    @pytest.mark.parametrize("bad", [b'{"a": 2', b"not JSON at all", b'{"a": 2}}', b"[1, 2"])
    def test_broken_lines_are_reported_and_the_others_kept(self, bad):
        found = read_document(b'{"a": 1}\n\n' + bad + b'\n{"a": 3}\n' + bad + b"\n", uri="a.jsonl")
        assert found.text == "a: 1\n\na: 3"
        assert found.metadata["skipped_lines"] == 2
        assert [each.partition(":")[0] for each in str(found.metadata["skipped"]).splitlines()] == ["Line 3", "Line 5"]

    def test_a_file_without_a_good_line_is_refused(self):
        with pytest.raises(DocumentError, match=r"None of its lines can be read.*Line 1"):
            read_document(b"{no\n{no\n", uri="a.jsonl")

    @given(JSON_VALUES)
    @settings(deadline=None)
    def test_every_value_is_told(self, value):
        leaves = [leaf for leaf in leaves_of(value) if leaf is not None and str(leaf).replace("\0", "").strip()]
        data = json.dumps(value).encode()
        if not leaves:
            with pytest.raises(DocumentError, match="empty"):
                read_document(data, uri="a.json")
            return
        text = read_document(data, uri="a.json").text
        assert all(json.dumps(leaf) in text for leaf in leaves if not isinstance(leaf, str))


class TestXml:
    def test_records_and_prose(self):
        data = b"""<?xml version="1.0"?><lib xmlns="urn:x"><book id="1"><title>Of cities</title><year>1999</year></book>
            <text><p>Some <b>bold</b> prose.</p><p>More.</p></text><!-- no --></lib>"""
        assert paragraphs(data, "a.xml") == ["id: 1; title: Of cities; year: 1999", "Some bold prose.", "More."]
        assert read_document(data, uri="a.xml").title == "Of cities"

    @pytest.mark.parametrize("name", ["programlisting", "screen", "codeblock", "preformat", "eg"])
    @pytest.mark.parametrize("around", ["<s><p>So:</p>{}</s>", "<s>So:{}</s>", "<s><p>So:{}</p></s>"])
    def test_lines_of_listings(self, name, around):
        listing = f"<{name}>\n  if <b>x</b>:\n      run()\n\n  end  </{name}>"
        found = read_document(around.format(listing).encode(), uri="a.xml").text
        assert found == "So:\n\nif x:\n    run()\n\nend"

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "shift_jis"])
    def test_declared_encoding(self, encoding):
        word = "東京" if encoding == "shift_jis" else "Köln"
        data = f'<?xml version="1.0" encoding="{encoding}"?><a><b>{word}</b></a>'.encode(encoding)
        assert read_document(data, uri="a.xml").text == f"b: {word}"

    @pytest.mark.parametrize("entity", ['<!ENTITY x "&amp;y;">', '<!ENTITY x SYSTEM "file:///etc/hostname">'])
    def test_entities_are_refused(self, entity):
        with pytest.raises(DocumentError, match="entities"):
            read_document(f"<!DOCTYPE a [{entity}]><a>&x;</a>".encode(), uri="a.xml")

    def test_document_type_alone_is_no_entity(self):
        data = b'<!DOCTYPE html PUBLIC "-//W3C//DTD" "http://www.w3.org/x.dtd"><html><p>Read.</p></html>'
        assert read_document(data, uri="a.xml").text == "Read."

    @pytest.mark.parametrize("data", [b"<a><b></a>", b"<plain text", b"<a>" * 5_000, b"<a b=1/>"])
    def test_broken_xml_is_refused(self, data):
        with pytest.raises(DocumentError, match=r"XML is damaged.*save it again"):
            read_document(data, uri="a.xml")


@pytest.mark.parametrize(
    ("name", "language"),
    [("a.py", "python"), ("A.TS", "typescript"), ("x.h", "c"), ("x.yml", "yaml"), ("q.sql", "sql")],
)
def test_source_code_is_text_with_its_language(name, language):
    found = read_document(b"first = 1\n    second = 2\n", uri=f"file:///src/{name}")
    assert found.text == "first = 1\n    second = 2\n"
    assert found.metadata == {"language": language}
    assert found.title == name


def test_two_suffixes_count_together():
    assert type_of_suffix("backup.tar.gz") == type_of_suffix("x.tgz") == "application/x-tar"
    assert type_of_suffix("notes.gz") == "application/gzip"


class TestSlides:
    def test_every_slide_is_a_page(self):
        data = presentation(("Of cities", "Paris\nKöln"), ("Two", ""), table=ROWS, notes="Speak slowly.")
        found = read_document(data, uri="a.pptx")
        assert found.text.split("\n\n") == [
            "Of cities",
            "Paris\nKöln",
            "Two",
            "City: Paris; Country: France; Note: On the Seine.",
            "City: Köln; Country: Germany; Note: On the Rhine, and old.",
            "Notes: Speak slowly.",
        ]
        assert [found.text[start : start + 3] for start in found.page_starts] == ["Of ", "Two"]
        assert found.title == "Of cities"
        assert [(level, found.text[start:end]) for start, end, level in found.marks][:2] == [
            (1, "Of cities"),
            (1, "Two"),
        ]
        assert [level for _, _, level in found.marks] == [1, 1, 0, 0]
        assert found.metadata == {"author": "Ada", "created": "2024-05-01", "modified": "2024-06-02", "pages": 2}

    def test_pictures_alone_are_refused(self):
        with pytest.raises(DocumentError, match="no text"):
            read_document(presentation(("", "")), uri="a.pptx")

    def test_too_many_slides_are_refused(self):
        with pytest.raises(DocumentError, match="2 slides; the limit is 1"):
            read_document(presentation(("a", ""), ("b", "")), uri="a.pptx", limits=ReadLimits(max_pages=1))


class TestBooks:
    def test_chapters_in_reading_order(self):
        found = read_document(
            book("<h1>One</h1><p>First.</p>", "<p>Second<br/>line.</p>", title="My book"), uri="a.epub"
        )
        assert found.text.split("\n\n") == ["One", "First.", "Second\nline."]
        assert [(level, found.text[start:end]) for start, end, level in found.marks] == [(1, "One")]
        assert found.title == "My book"
        assert found.metadata == {"author": "Ada", "created": "1999-05", "modified": "2020-01-02"}

    def test_protected_book_is_refused(self):
        encryption = '<encryption><e xmlns="x"><CipherReference URI="OPS/text/c%200.xhtml"/></e></encryption>'
        with pytest.raises(DocumentError, match="protected against copying"):
            read_document(book("<p>One</p>", extra={"META-INF/encryption.xml": encryption}), uri="a.epub")

    def test_encrypted_fonts_do_no_harm(self):
        encryption = '<encryption><e xmlns="x"><CipherReference URI="OPS/font.otf"/></e></encryption>'
        assert paragraphs(book("<p>One</p>", extra={"META-INF/encryption.xml": encryption}), "a.epub") == ["One"]

    def test_book_without_a_package_is_refused(self):
        data = with_part(book("<p>One</p>"), "META-INF/container.xml", lambda xml: xml.replace(b"full-path", b"path"))
        with pytest.raises(DocumentError, match="names no package"):
            read_document(data, uri="a.epub")


@pytest.mark.parametrize("name", sorted(samples()))
def test_every_sample_is_read(name):
    found = read_document(samples()[name], uri=name)
    assert any(
        word in found.text for word in ("Paris", "path", "chapter", "天気", "page", "prose", "Of cities", "harbour")
    )


def test_dates_are_iso_8601():
    for data, uri in ((word_file(), "a.docx"), (workbook({"S": [["x"]]}), "a.xlsx"), (PAGE.encode(), "a.html")):
        metadata = read_document(data, uri=uri).metadata
        assert len(str(metadata["modified"])) == len("2024-06-02")
    assert read_document(PAGE.encode(), uri="a.html").metadata["author"] == "Ada"
    assert read_document(message(), uri="a.eml").metadata["date"] == "2024-05-01T10:00:00+02:00"


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".json", ".xml", ".py", ".html", ".md"])
@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_byte_order_mark_is_understood_and_left_out(suffix, mark):
    text = {".json": '{"word": "Köln"}', ".xml": "<a><word>Köln</word></a>"}.get(suffix, "<p>Köln</p>")
    encoding = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}[mark]
    found = read_document(mark + text.encode(encoding), uri=f"a{suffix}")
    assert "Köln" in found.text
    assert "\ufeff" not in found.text


def test_control_characters_in_a_page_cost_no_text():
    table = "<table><tr><th>a</th><th>b</th></tr><tr><td>Paris \x01 Köln</td><td>x</td></tr></table>"
    assert "a: Paris Köln; b: x" in read_document(table.encode(), uri="a.html").text


def test_tables_of_pages_keep_their_headers():
    assert "City: Paris; Country: France" in paragraphs(PAGE, "a.html")
    layout = "<table><tr><td>Menu</td><td>Body text of the page.</td></tr><tr><td>x</td><td>y</td></tr></table>"
    assert "Menu: x" not in read_document(layout.encode(), uri="a.html").text


class TestChunksOfTables:
    """With real chunks: whatever the table and however far down, a value stands behind the name of its column."""

    def chunks(self, data: bytes, uri: str) -> list[str]:
        return [span.text for span in TokenSplitter(ToyEmbedder())(read_document(data, uri=uri))]

    @pytest.mark.parametrize("uri", ["a.csv", "a.xlsx", "a.html", "a.docx"])
    def test_row_far_down_shows_its_column_names(self, uri):
        rows = [["City", "Country", "Founded"], *([f"city{n}", f"land{n}", f"year{n}"] for n in range(150))]
        markup = "".join(
            "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>"
            for row, tag in zip(rows, ["th", *["td"] * 150], strict=True)
        )
        data = {
            "a.csv": "\n".join(map(",".join, rows)).encode(),
            "a.xlsx": workbook({"S": [list(row) for row in rows]}),
            "a.html": f"<article><table>{markup}</table></article>".encode(),
            "a.docx": word_file(table=rows),
        }[uri]
        chunks = self.chunks(data, uri)
        assert len(chunks) > 5
        for n in (0, 77, 149):
            assert any(f"City: city{n}; Country: land{n}; Founded: year{n}" in chunk for chunk in chunks)

    def test_every_chunk_of_a_long_cell_shows_its_column_name(self):
        body = " ".join(f"Sentence {n} of the body is about as long as this." for n in range(100))
        chunks = self.chunks(f'id,body\n7,"{body}"\n'.encode(), "a.csv")
        assert len(chunks) > 5
        assert all("id: 7; body: Sentence" in chunk for chunk in chunks)

    def test_wide_rows_name_every_value(self):
        names = [f"column{n}" for n in range(60)]
        data = "\n".join([",".join(names), *(",".join(f"value{r}x{c}" for c in range(60)) for r in range(5))])
        chunks = self.chunks(data.encode(), "a.csv")
        for row in range(5):
            for column in range(60):
                assert any(f"column{column}: value{row}x{column}" in chunk for chunk in chunks)


def test_csv_sample_is_what_its_rows_say():
    assert paragraphs(CSV, "a.csv")[0] == "City: Paris; Country: France; Note: On the Seine."


def test_every_suffix_has_a_reader():
    for suffix in SUFFIXES:
        with pytest.raises(DocumentError, match="empty"):
            read_document(b"", uri=f"a{suffix}")
