"""Office files within Office files: a page shows a picture of them, so their text is read."""

from __future__ import annotations

import pytest
from office_files import OFFICE, paragraph, show, word
from other_office_samples import binary_cell, binary_workbook, excel_97, old_word, open_document, p, powerpoint_97, wide
from outlook_files import compound_file
from sample_files import message, unzipped, with_part, workbook, zip_of

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.document import read_document
from ingest.readers.limits import ReadLimits, check_length
from ingest.readers.opc import Package
from ingest.readers.shown_files import ShownFiles, fitted

TABLE = workbook({"S": [["City", "Land"], ["Rome", "Italy"]]})
OLD_TABLE = excel_97([["City", "Land"], ["Rome", "Italy"]], ["General"])
TEXT = with_part(
    word(paragraph("Rome is old.")),
    "[Content_Types].xml",
    lambda xml: xml.replace(b"/>", b"><wordprocessingml/></Types>"),
)
OBJECT = '<w:p><w:r><w:object><o:OLEObject xmlns:o="o" ProgID="Excel.Sheet.12" r:id="e"/></w:object></w:r></w:p>'
BINARY_SHEET = "xl/worksheets/sheet1.bin"
FRAME = '<p:graphicFrame><a:graphic><a:graphicData><p:oleObj r:id="e"/></a:graphicData></a:graphic></p:graphicFrame>'


def with_file(host: bytes, part: str, name: str, data: bytes) -> bytes:
    """`host` with `data` as the file `name`, to which `part` links."""
    files = unzipped(host)
    folder, _, last = part.rpartition("/")
    rels = f"{folder}/_rels/{last}.rels"
    empty = b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"></Relationships>'
    link = f'<Relationship Id="e" Type="{OFFICE}/package" Target="/embeddings/{name}"/></Relationships>'
    files[rels] = files.get(rels, empty).replace(b"</Relationships>", link.encode())
    return zip_of(files | {f"embeddings/{name}": data})


def hosts(name: str, data: bytes) -> dict[str, bytes]:
    frame = f'<draw:frame><draw:object-ole xlink:href="./{name}"/></draw:frame>'
    return {
        "a.odt": zip_of(unzipped(open_document("text", p("Before") + p(frame))) | {name: data}),
        "a.docx": with_file(word(paragraph("Before") + OBJECT), "word/document.xml", name, data),
        "a.pptx": with_file(show(FRAME), "ppt/slides/slide1.xml", name, data),
        "a.xlsx": with_file(workbook({"S": [["Before"]]}), "xl/worksheets/sheet1.xml", name, data),
        "a.xlsb": with_file(binary_workbook({0: [binary_cell(6, 0, wide("Before"))]}), BINARY_SHEET, name, data),
    }


def read(data: bytes, uri: str, limits: ReadLimits | None = None) -> ExtractedText:
    return read_document(data, uri=uri, limits=limits or ReadLimits())


@pytest.mark.parametrize("host", ["a.docx", "a.pptx", "a.xlsx", "a.xlsb", "a.odt"])
@pytest.mark.parametrize(
    ("name", "data", "last"),
    [
        pytest.param("a.xlsx", TABLE, "City: Rome; Land: Italy", id="workbook"),
        pytest.param("a.bin", OLD_TABLE, "City: Rome; Land: Italy", id="old workbook"),
        pytest.param("a.docx", TEXT, "Rome is old.", id="document"),
        pytest.param("a.bin", compound_file({"Package": TEXT}), "Rome is old.", id="document in a compound file"),
        pytest.param("a.bin", old_word("Rome is old.\r"), "Rome is old.", id="old document"),
    ],
)
def test_embedded_office_files_are_read(host: str, name: str, data: bytes, last: str) -> None:
    found = read(hosts(name, data)[host], host)
    assert found.text.split("\n\n")[-1] == last
    assert "skipped" not in found.metadata


@pytest.mark.parametrize("host", ["a.docx", "a.xlsx", "a.xlsb", "a.odt"])
@pytest.mark.parametrize("data", [b"", b"no file", compound_file({"Equation Native": b"x"}), b"<p>a page</p>"])
def test_other_embedded_files_are_counted(host: str, data: bytes) -> None:
    found = read(hosts("a.bin", data)[host], host)
    assert found.text.split("\n\n")[-1] == "Before"
    assert found.metadata["skipped_parts"] == 1


WITHIN = b"><wordprocessingml/></Types>"


def docx_with(name: str, data: bytes) -> bytes:
    """A Word document with a file, which is recognised as one where it is embedded itself."""
    whole = hosts(name, data)["a.docx"]
    return with_part(whole, "[Content_Types].xml", lambda xml: xml.replace(b"/>", WITHIN))


@pytest.mark.parametrize("host", ["a.docx", "a.pptx", "a.xlsx", "a.xlsb", "a.odt"])
def test_what_embedded_files_leave_out_is_told(host: str) -> None:
    found = read(hosts("a.docx", docx_with("b.bin", b"no file"))[host], host)
    assert found.text.endswith("Before")
    assert found.metadata["skipped_parts"] == 1
    assert "a.docx: Could not be read: 1 part." in str(found.metadata["skipped"])
    assert "An embedded file is not read" in str(found.metadata["skipped"])


@pytest.mark.parametrize("host", ["a.docx", "a.pptx", "a.xlsx", "a.xlsb", "a.odt"])
def test_an_embedded_file_too_long_beside_others_is_left_out(host: str) -> None:
    rows = workbook({"S": [["City", "Land"], *[["Rome", "Italy"]] * 50]})
    length = len(read(hosts("a.xlsx", rows)[host], host).text)
    files = unzipped(hosts("a.xlsx", rows)[host])
    shown_twice: dict[str, tuple[str, bytes | None]] = {
        "a.docx": ("word/document.xml", OBJECT.encode()),
        "a.pptx": ("ppt/slides/slide1.xml", FRAME.encode()),
        "a.odt": ("content.xml", b'<draw:frame><draw:object-ole xlink:href="./a.xlsx"/></draw:frame>'),
        "a.xlsx": ("xl/worksheets/_rels/sheet1.xml.rels", None),
        "a.xlsb": ("xl/worksheets/_rels/sheet1.bin.rels", None),
    }
    part, shown = shown_twice[host]
    if shown is None:
        begin = files[part].rindex(b'<Relationship Id="e"')
        shown = files[part][begin : files[part].index(b"/>", begin) + 2]
        files[part] = files[part].replace(shown, shown + shown.replace(b'Id="e"', b'Id="f"'))
    else:
        assert shown in files[part]
        files[part] = files[part].replace(shown, shown * 2)
    assert read(zip_of(files), host).text.count("Rome") == 100
    found = read(zip_of(files), host, ReadLimits(max_characters=length + 100))
    assert found.text.count("Rome") == 50
    assert found.metadata["skipped_parts"] == 1


def test_no_more_of_embedded_files_is_parsed_than_the_text_may_hold() -> None:
    files = {f"a{number}.xlsx": workbook({"S": [[f"City {number}"], *[["Rome"]] * 50]}) for number in range(9)}
    allowed: list[int] = []

    def read_member(data: bytes, *, uri: str, media_type: str | None, limits: ReadLimits) -> ExtractedText:
        allowed.append(limits.max_characters)
        return read_document(data, uri=uri, media_type=media_type, limits=limits)

    package = Package(zip_of(files))
    shown = ShownFiles(ReadLimits(max_characters=3_000), read_member).within(package, 3_000)
    texts = [text for text in map(shown.text, files) if text is not None]
    assert 1 < len(texts) < 9
    assert sum(map(len, texts)) <= 3_000
    assert allowed[: len(texts) + 1] == [3_000 - sum(map(len, texts[:number])) for number in range(len(texts) + 1)]
    assert max(allowed[len(texts) :]) == 3_000 - sum(map(len, texts))


def test_files_in_files_end_at_the_limits_and_are_told() -> None:
    inner = TEXT
    for _ in range(5):
        inner = docx_with("a.docx", inner)
    found = read(inner, "a.docx")
    assert "Rome" not in found.text
    assert found.metadata["skipped_parts"] == 1
    assert "Rome" in read(inner, "a.docx", ReadLimits(max_nesting=5)).text


LONG = workbook({"S": [["City", "Land"], *[["Rome", "Italy"]] * 50]})


@pytest.mark.parametrize("host", ["a.docx", "a.pptx", "a.xlsx", "a.xlsb", "a.odt"])
def test_embedded_text_that_exceeds_the_limit_with_its_host_is_left_out(host: str) -> None:
    data = hosts("a.xlsx", LONG)[host]
    whole = read(data, host)
    length = len(whole.text)
    assert read(data, host, ReadLimits(max_characters=length + 10)).text == whole.text
    if host != "a.pptx":  # which has no text of its own
        found = read(data, host, ReadLimits(max_characters=length - 1))
        assert found.text.endswith("Before")
        assert found.metadata["skipped_parts"] == 1
        with pytest.raises(DocumentError, match="longer than 5 characters"):
            read(data, host, ReadLimits(max_characters=5))


def test_a_host_of_nothing_but_a_file_that_is_too_long_says_so() -> None:
    old = powerpoint_97(("", ""), objects={0: OLD_TABLE})
    for data, uri in ((hosts("a.xlsx", TABLE)["a.pptx"], "a.pptx"), (old, "a.ppt")):
        assert "Rome" in read(data, uri).text
        with pytest.raises(DocumentError, match="longer than 10 characters"):
            read(data, uri, ReadLimits(max_characters=10))


def test_of_several_embedded_files_those_that_fit_are_kept() -> None:
    data = with_file(hosts("a.xlsx", LONG)["a.docx"], "word/document.xml", "b.xlsx", TABLE)
    data = with_part(data, "word/_rels/document.xml.rels", lambda xml: xml.replace(b'Id="e"', b'Id="f"', 1))
    both = OBJECT.replace('"e"', '"f"') + OBJECT
    data = with_part(data, "word/document.xml", lambda xml: xml.replace(OBJECT.encode(), both.encode()))
    limits = ReadLimits(max_characters=len(read(data, "a.docx").text) - 1)
    found = read(data, "a.docx", limits)
    assert found.text.count("Rome") == 1
    assert read(data, "a.docx").text.count("Rome") == 51


def test_a_file_too_long_for_what_was_left_is_read_where_more_is_left() -> None:
    def read_member(data: bytes, *, uri: str, media_type: str | None, limits: ReadLimits) -> ExtractedText:
        check_length(len(data), limits)
        return ExtractedText(data.decode(), "", "text/plain", {})

    files = ShownFiles(ReadLimits(max_characters=100), read_member)
    package = Package(zip_of({"long.txt": b"l" * 95, "short.txt": b"s" * 30}))

    def attempt(characters: int) -> ExtractedText:
        files.within(package, characters)
        text = "o" * 15 + "".join(filter(None, map(files.text, ("long.txt", "short.txt"))))
        check_length(len(text), ReadLimits(max_characters=100))
        return ExtractedText(text, "", "text/plain", {})

    assert fitted(attempt, files, ReadLimits(max_characters=100)).text == "o" * 15 + "s" * 30


def test_an_attachment_too_long_beside_its_message_is_left_out() -> None:
    mail = message(
        "Paris.", attachments={"a.csv": b"City,Land\n" + b"Rome,Italy\n" * 50, "b.csv": b"City,Land\nRome,Italy\n"}
    )
    length = len(read(mail, "a.eml").text)
    found = read(mail, "a.eml", ReadLimits(max_characters=length - 100))
    assert "Paris." in found.text
    assert found.text.count("Rome") == 1
    assert found.metadata["skipped_attachments"] == 1
    assert "too long" in str(found.metadata["skipped"])
