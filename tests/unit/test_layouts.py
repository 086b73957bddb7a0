"""How a text is laid out: kept beside it, read stretch by stretch, and shown with headings and tables."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_files import presentation, word_file, workbook

from app.documents.blobs import FolderBlobStore
from app.documents.layouts import is_whole_layout, layout_bytes, read_layout
from app.errors import DamagedFileError
from app.types.texts import ROW, Cell, ExtractedText, Mark, TextLayout, Word
from ingest.readers.document import read_document
from ui.render.structured_text import Marked, StructuredText

LAYOUT = TextLayout(
    [0, 40],
    [Mark(0, 9, 1), Mark(11, 30, ROW), Mark(32, 60, ROW)],
    [Cell(11, 17, 22, 0), Cell(24, 27, 30, 1), Cell(32, 38, 60, 0)],
    [Word(40, 45, 2, 100, 200, 300, 250, 99), Word(46, 60, 2, 310, 200, 500, 250, 88)],
)
ROWS = [["City", "Country", "Note"], ["Paris", "France", "On the Seine; old."], ["Köln", "Germany", ""]]
HTML = (
    "<html><body><article><h1>Of cities</h1><p>Both are old, and both lie on a river that is long.</p><table>"
    + "".join(
        "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>"
        for tag, row in zip(("th", "td", "td"), ROWS, strict=True)
    )
    + "</table><p>What follows the table is text again, and it says that the table is over.</p></article></body></html>"
)


def stored(layout: TextLayout, start: int = 0, end: int = 10**9) -> TextLayout:
    return read_layout(io.BytesIO(b"".join(layout_bytes(layout))), start, end)


def test_what_lies_in_a_stretch_or_reaches_into_it_is_read() -> None:
    assert stored(LAYOUT) == LAYOUT
    found = stored(LAYOUT, 25, 41)
    assert list(found.page_starts) == [0, 40]
    assert found.marks == LAYOUT.marks[1:]
    assert found.cells == LAYOUT.cells[1:]
    assert found.words == LAYOUT.words[:1]
    assert stored(LAYOUT, 61, 100) == TextLayout([0, 40], [], [], [])


@given(cut=st.integers(0, 400), flipped=st.integers(0, 10_000))
def test_a_file_that_is_cut_or_of_which_a_bit_is_flipped_is_not_whole(cut: int, flipped: int) -> None:
    data = b"".join(layout_bytes(LAYOUT))
    assert is_whole_layout(io.BytesIO(data))
    assert is_whole_layout(io.BytesIO(data[:cut])) is (cut >= len(data))
    altered = bytearray(data)
    altered[flipped % len(data)] ^= 1 << flipped % 8
    assert not is_whole_layout(io.BytesIO(bytes(altered)))


def of_the_first_version() -> bytes:
    data = b"".join(layout_bytes(LAYOUT))
    return b"gircse-1" + data[8:-32]


def test_a_layout_of_the_first_version_is_read(tmp_path: Path) -> None:
    blobs = FolderBlobStore(tmp_path)
    blobs.put_layout_bytes("a" * 64, [of_the_first_version()])
    assert blobs.layout("a" * 64, 0, 100) == LAYOUT
    blobs.put_layout_bytes("a" * 64, [of_the_first_version()[:-1]])
    with pytest.raises(DamagedFileError, match=r"\.layout.*doctor --rebuild"):
        blobs.layout("a" * 64, 0, 100)


def test_a_damaged_layout_is_told_and_neither_read_nor_exported(tmp_path: Path) -> None:
    blobs = FolderBlobStore(tmp_path)
    content_hash = blobs.put(b"The bytes.")
    blobs.put_text(content_hash, ["The text."])
    blobs.put_layout(content_hash, LAYOUT)
    assert blobs.is_text_sound(content_hash)
    path = tmp_path / f"{content_hash}.layout"
    data = path.read_bytes()
    path.write_bytes(data[:50] + bytes([data[50] ^ 4]) + data[51:])
    assert not blobs.is_text_sound(content_hash)
    for read in (lambda: blobs.layout(content_hash, 0, 100), lambda: blobs.get_layout(content_hash)):
        with pytest.raises(DamagedFileError, match=f"{path}.*doctor --rebuild"):
            read()


def test_it_stands_beside_the_text_and_goes_with_it(tmp_path: Path) -> None:
    blobs = FolderBlobStore(tmp_path)
    content_hash = blobs.put(b"The bytes.")
    assert blobs.layout(content_hash, 0, 10) == TextLayout()
    blobs.put_layout(content_hash, LAYOUT)
    assert blobs.layout(content_hash, 0, 100) == LAYOUT
    assert set(blobs.hashes()) == {content_hash}
    blobs.put_layout(content_hash, TextLayout())
    assert blobs.layout(content_hash, 0, 100) == TextLayout()
    blobs.put_layout(content_hash, LAYOUT)
    blobs.discard(content_hash, is_needed=lambda: False)
    assert list(tmp_path.iterdir()) == []


def table_of(found: ExtractedText) -> list[list[tuple[str, str]]]:
    """Names and values of the cells, row by row."""
    rows = [mark for mark in found.marks if mark.level == ROW]
    return [
        [
            (found.text[cell.start : cell.value], found.text[cell.value : cell.end])
            for cell in found.cells
            if row.start <= cell.start and cell.end <= row.end
        ]
        for row in rows
    ]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", "\n".join(";".join(f'"{cell}"' for cell in row) for row in ROWS).encode()),
        ("a.xlsx", workbook({"Cities": [list(row) for row in ROWS]})),
        ("a.docx", word_file(table=ROWS)),
        ("a.html", HTML.encode()),
        ("a.pptx", presentation(("Of cities", "Two"), table=ROWS)),
        (
            "a.json",
            b'[{"City": "Paris", "Country": "France", "Note": "On the Seine; old."}, {"City": "K\xc3\xb6ln", '
            b'"Country": "Germany"}]',
        ),
    ],
)
def test_cells_of_every_kind_of_table_are_known(name: str, data: bytes) -> None:
    assert table_of(read_document(data, uri=name)) == [
        [("City: ", "Paris"), ("Country: ", "France"), ("Note: ", "On the Seine; old.")],
        [("City: ", "Köln"), ("Country: ", "Germany")],
    ]


def test_a_long_row_of_several_paragraphs_keeps_each_value_once() -> None:
    long = " ".join(f"Sentence {number} of a long note stands here." for number in range(30))
    found = read_document(f'Name,Note,Last\nParis,"{long}",end\n'.encode(), uri="a.csv")
    (cells,) = table_of(found)
    assert len(cells) > 5
    assert " ".join(value for name, value in cells if name == "Note: ") == long
    assert [name for name, _ in cells if name != "Note: "] == ["Name: ", "Last: "]
    assert found.text.count("Name: Paris") > 3  # each paragraph says what it is about


def rendered(found: ExtractedText, passage: tuple[int, int], *, begin: int = 0) -> str:
    layout = TextLayout(found.page_starts, found.marks, found.cells, found.words)
    return str(StructuredText(found.text[begin:], begin, layout, Marked(*passage)).render(begin, len(found.text)))


def test_a_document_is_shown_with_its_headings_and_tables_and_the_row_of_the_passage() -> None:
    found = read_document(HTML.encode(), uri="a.html")
    row = next(mark for mark in found.marks if found.text[mark.start : mark.end].startswith("City: Köln"))
    html = rendered(found, (row.start, row.end))
    assert '<h3 class="text-heading">Of cities</h3>' in html
    assert '<th scope="col">City</th><th scope="col">Country</th><th scope="col">Note</th>' in html
    assert "<tr><td>Paris</td><td>France</td><td>On the Seine; old.</td></tr>" in html
    assert '<tr class="is-passage"><td><mark id="passage">Köln</mark></td><td><mark>Germany</mark></td>' in html
    assert html.index("Of cities") < html.index("Both are old") < html.index("<table>") < html.index("What follows")


def test_a_text_without_a_layout_is_shown_as_it_is() -> None:
    found = ExtractedText("One <b>line</b>.\n\nAnother.", "", "text/plain")
    assert rendered(found, (4, 8)) == 'One <mark id="passage">&lt;b&gt;</mark>line&lt;/b&gt;.\n\nAnother.'.replace(
        "&lt;b&gt;</mark>line", "&lt;b&gt;l</mark>ine"
    )


@given(st.data())
def test_any_layout_shows_every_letter_once(data: st.DataObject) -> None:
    text = data.draw(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=60))
    bounds = sorted(data.draw(st.lists(st.integers(0, 60), max_size=8, unique=True)))
    marks = [
        Mark(start, end, data.draw(st.integers(0, 6))) for start, end in zip(bounds[::2], bounds[1::2], strict=False)
    ]
    start, end = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))
    html = rendered(ExtractedText(text, "", "", marks=marks), (start, end))
    assert html.count('id="passage"') <= 1
    assert html.count("<mark") == html.count("</mark>")
