"""What a person sees on the pages of a PDF is in its text, in the order in which it is read, and once."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pdf_samples import annotated, drawn, letter_by_letter, lines, nameless, raw_pdf, scan, stream, table, two_columns
from PIL import Image
from pypdfium2 import PdfDocument
from reportlab.pdfgen.canvas import Canvas
from sample_files import pdf

from app.errors import DocumentError
from app.types.pages import PageWords
from app.types.texts import ExtractedText
from ingest.readers import recognized_lines
from ingest.readers.document import page_of, read_document
from ingest.readers.hyphens import Hyphens
from ingest.readers.limits import DEFAULT_LIMITS
from ingest.readers.pdf_fields import with_values
from ingest.readers.pdf_words import PageWord

PROSE = (
    "The harbour office keeps a record of every vessel that",
    "enters the port, and sends a copy to the ministry on the",
    "first day of each month, so that the fees can be set for",
    "the coming year by those who have to pay for the quays.",
    "Nobody remembers who began it, or why it was kept up so",
    "long after the last of the sailing ships had been sold.",
)
OTHER = (
    "Bread is made of four things, and time is one of these;",
    "the others are flour, water and a little salt, which are",
    "mixed in a bowl until they hold together, and left until",
    "the dough has doubled, which takes a night in the cellar",
    "and half of that in a warm kitchen, as all bakers know",
    "who have ever had to wait for it in a cold winter night.",
)


def read(data: bytes, uri: str = "a.pdf") -> ExtractedText:
    return read_document(data, uri=uri)


def text_of(data: bytes) -> str:
    return read(data).text


def flat(text: str) -> str:
    return " ".join(text.split())


FIELD = b"<</Type/Annot/Subtype/Widget/Rect[40 %d 300 %d]/F 4/P 3 0 R%s>>"


def field(entries: bytes, *, bottom: int = 300) -> bytes:
    return FIELD % (bottom, bottom + 18, entries)


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        pytest.param(field(b"/FT/Tx/T(name)/V(Ada Lovelace)"), "Ada Lovelace", id="text"),
        pytest.param(field(b"/FT/Tx/T(n)/V<FEFF00C40072007A00740065>"), "Ärzte", id="text in UTF-16"),
        pytest.param(field(b"/FT/Tx/Ff 4096/T(n)/V(First line\\rSecond line)"), "First line Second line", id="lines"),
        pytest.param(field(b"/FT/Tx/Ff 16777216/MaxLen 8/T(n)/V(AB123456)"), "AB123456", id="boxes"),
        pytest.param(
            field(b"/FT/Ch/Ff 131072/T(c)/Opt[[(de)(Germany)][(fr)(France)]]/V(fr)"),
            "France",
            id="a list to choose from",
        ),
        pytest.param(field(b"/FT/Ch/Ff 131072/T(c)/Opt[(North)(South)]/V(South)"), "South", id="a list without labels"),
        pytest.param(field(b"/FT/Ch/T(c)/Opt[(North)(South)]/V(South)"), "North South", id="an open list"),
        pytest.param(
            b"<</Type/Annot/Subtype/FreeText/Rect[40 200 300 230]/F 4/DA(/F1 12 Tf)/Contents(Approved by the mayor)>>",
            "Approved by the mayor",
            id="free text",
        ),
        pytest.param(
            b"<</Type/Annot/Subtype/FreeText/Rect[40 200 300 230]/DA(/F1 12 Tf)"
            b"/Contents<FEFF00DC00620065007200200031>>>",
            "Über 1",
            id="free text in UTF-16",
        ),
    ],
)
def test_values_of_forms_and_text_written_onto_the_page(annotation: bytes, wanted: str) -> None:
    for data in (annotated(annotation), annotated(annotation, form=b"/NeedAppearances true")):
        text = flat(text_of(data))
        assert text.startswith("Name of the applicant:")
        assert re.findall(rf"\b{wanted}\b", text) == [wanted]


def test_a_value_that_its_field_cuts_is_read_whole() -> None:
    look = stream(
        b"BT /F1 12 Tf 4 6 Td (Ada Lov) Tj ET",
        b"/Type/XObject/Subtype/Form/BBox[0 0 260 20]/Resources<</Font<</F1 4 0 R>>>>",
    )
    value = field(b"/FT/Tx/T(n)/V(Ada Lovelace)/AP<</N 7 0 R>>")
    assert flat(text_of(annotated(value, look))) == "Name of the applicant: Ada Lovelace"


@pytest.mark.parametrize("kind", [b"Text", b"Highlight", b"StrikeOut", b"Square"])
def test_comments_follow_their_page_with_their_authors(kind: bytes) -> None:
    comment = b"<</Type/Annot/Subtype/%s/Rect[40 200 60 220]/F 4/T(Ann)/Contents(Is this\\rright?)>>" % kind
    unsigned = comment.replace(b"/T(Ann)", b"").replace(b"Is this", b"Surely")
    assert text_of(annotated(comment, unsigned)).split("\n\n") == [
        *("Name of the applicant:", "Comment by Ann: Is this right?", "Comment: Surely right?"),
    ]
    assert "Ann" not in text_of(annotated(comment.replace(b"/F 4", b"/F 2")))  # hidden


def test_a_damaged_page_does_not_stop_the_others() -> None:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 400]/Contents 5 0 R/Resources<</Font<</F1 4 0 R>>>>>>"
    whole = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R 6 0 R 7 0 R]/Count 3>>",
        page,
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        stream(b"BT /F1 12 Tf 40 350 Td (A whole page.) Tj ET"),
        b"null",
        page,
    ]
    found = read(raw_pdf(whole))
    assert found.text.split() == ["A", "whole", "page."] * 2
    assert len(found.page_starts) == 3
    assert found.metadata["unread_pages"] == "2"
    whole[2] = whole[6] = b"null"
    with pytest.raises(DocumentError, match=r"Page 1 of this PDF cannot be drawn"):
        read(raw_pdf(whole))


def test_embedded_files_are_counted_and_named() -> None:
    document = PdfDocument(drawn(lines("A page with a file in it")))
    document.new_attachment("invoice.xml").set_data(b"<invoice/>")
    buffer = io.BytesIO()
    document.save(buffer)
    found = read(buffer.getvalue())
    assert found.metadata["skipped_attachments"] == 1
    assert str(found.metadata["skipped"]).startswith("invoice.xml: ")


def test_the_look_of_an_annotation_counts_where_it_has_one() -> None:
    look = stream(
        b"BT /F1 12 Tf 4 6 Td (Received in May) Tj ET",
        b"/Type/XObject/Subtype/Form/BBox[0 0 260 20]/Resources<</Font<</F1 4 0 R>>>>",
    )
    stamp = b"<</Type/Annot/Subtype/Stamp/Rect[40 200 300 220]/F 4/AP<</N 7 0 R>>>>"
    assert flat(text_of(annotated(stamp, look))) == "Name of the applicant: Received in May"
    value = field(b"/FT/Tx/T(n)/V(Received in May)/AP<</N 7 0 R>>")
    assert flat(text_of(annotated(value, look))) == "Name of the applicant: Received in May"


def test_hidden_values_and_passwords_stay_out() -> None:
    hidden = field(b"/FT/Tx/T(n)/V(hidden)").replace(b"/F 4", b"/F 2")
    password = field(b"/FT/Tx/Ff 8192/T(p)/V(secret)", bottom=200)
    assert flat(text_of(annotated(hidden, password))).strip("* ") == "Name of the applicant:"


@pytest.mark.parametrize(
    "draw",
    [
        letter_by_letter("The harbour office keeps a record of fees"),
        letter_by_letter("The harbour office keeps a record of fees", order=lambda number: (number % 3, number)),
        letter_by_letter("The harbour office keeps a record of fees", order=lambda number: -number),
        letter_by_letter("The harbour office keeps a record of fees", apart=3),
        letter_by_letter("The harbour office keeps a record of fees", apart=1.5),
    ],
    ids=["in order", "every third", "from the end", "far apart", "apart"],
)
def test_letters_that_are_set_singly_are_words(draw: object) -> None:
    assert flat(text_of(drawn(draw))) == "The harbour office keeps a record of fees"


def twice(dx: float, dy: float, *, by_word: bool = False):
    def draw(canvas: Canvas) -> None:
        text = "Bold little letters all tell"
        at = 60.0
        for part in text.split(" ") if by_word else [text]:
            for shift in (0.0, 1.0):
                canvas.drawString(at + shift * dx, 700 + shift * dy, part)
            at += canvas.stringWidth(part + " ", "Helvetica", 12)

    return draw


@pytest.mark.parametrize(
    "draw",
    [twice(0.3, 0), twice(0.4, -0.4), twice(0, 0), twice(0.3, 0, by_word=True)],
    ids=["aside", "aside and below", "exactly", "word by word"],
)
def test_what_is_drawn_twice_to_look_bold_is_said_once(draw: object) -> None:
    assert flat(text_of(drawn(draw))) == "Bold little letters all tell"


def test_what_is_said_twice_is_said_twice() -> None:
    said = "far far away the bookkeeper said no no no"
    assert flat(text_of(drawn(lines(said, said)))) == f"{said} {said}"


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("It was a well-", "known fact", "well-known"),
        ("It raised the self-", "esteem of all", "self-esteem"),
        ("It was an inter-", "national treaty", "international"),
        ("It was non-", "Euclidean of course", "non-Euclidean"),
        ("It was from 1990-", "1995 in the south", "1990-1995"),
        ("The state-of-the-", "art was shown", "state-of-the-art"),
        ("They com-", "pile it again", "compile"),
        ("Die Donaudampf-", "schifffahrt fuhr", "Donaudampfschifffahrt"),
        ("It was a low-", "cost carrier", "low-cost"),
    ],
)
def test_hyphens_at_line_ends(before: str, after: str, joined: str) -> None:
    text = flat(text_of(drawn(lines(PROSE[0], f"{PROSE[1][: 55 - len(before)]} {before}", f"{after} {PROSE[2][:40]}"))))
    assert re.search(rf"\b{joined}\b", text), text


def test_a_document_says_itself_whether_a_word_has_a_hyphen() -> None:
    hyphens = Hyphens()
    assert hyphens.join("the mixed-", "mode engine") == "the mixed-mode engine"
    hyphens.note("A mixedmode engine is a mixedmode engine.")
    assert hyphens.join("the mixed-", "mode engine") == "the mixedmode engine"
    assert hyphens.join("the inter\u00ad", "national treaty") == "the international treaty"


CELLS = (
    ("Town", "People", "Since"),
    ("Rome", "2,800,000", "753 BC"),
    ("Bern", "133,000", "1191"),
    ("Oslo", "709,000", "1040"),
)


@pytest.mark.parametrize("step", [14, 20, 40])
@pytest.mark.parametrize("by_column", [True, False])
def test_cells_stay_in_their_row_whenever_they_are_drawn(by_column: bool, step: float) -> None:
    found = text_of(drawn(table(CELLS, by_column=by_column, step=step)))
    assert [line.split() for line in found.split("\n") if line] == [" ".join(row).split() for row in CELLS]


def test_cells_of_several_lines_are_read_row_by_row() -> None:
    cells = [
        ("Fees of the quay, which all who land their goods", "These are set anew each year by the council of"),
        ("have to pay in advance, in coin or by a bill", "the town, and by nobody else, so the law has it"),
    ]

    def draw(canvas: Canvas) -> None:
        for column in range(2):
            for row in range(4):
                for number in range(2):
                    canvas.drawString(
                        40 + 280 * column,
                        700 - 50 * row - 13 * number,
                        f"{row}{'ab'[column]} {cells[number][column][:36]}",
                    )

    found = re.findall(r"\d[ab]", text_of(drawn(draw)))
    assert found == [each for row in range(4) for each in (f"{row}a", f"{row}a", f"{row}b", f"{row}b")]


@pytest.mark.parametrize("row_by_row", [True, False])
@pytest.mark.parametrize("count", [3, 6])
def test_columns_are_read_one_after_the_other(row_by_row: bool, count: int) -> None:
    left, right = ([line[:42] for line in side[:count]] for side in (PROSE, OTHER))
    text = flat(text_of(drawn(two_columns(left, right, row_by_row=row_by_row))))
    assert text == flat(" ".join([*left, *right]))


def test_three_columns_below_a_title_and_above_a_line_over_all() -> None:
    sides = [[f"{name}{number} goes on and on and" for number in range(5)] for name in "abc"]

    def draw(canvas: Canvas) -> None:
        canvas.drawString(
            60, 800, "A title over all three of the columns that follow it on this page, as of newspapers"
        )
        for number in range(5):
            for column in range(3):
                canvas.drawString(60 + 165 * column, 760 - 14 * number, sides[column][number])
        canvas.drawString(
            60, 640, "A line that runs over all three of them, too, from the left margin to the right one."
        )

    found = re.findall(r"title|[abc]\d|runs", text_of(drawn(draw)))
    assert found == ["title", *(f"{name}{number}" for name in "abc" for number in range(5)), "runs"]


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_pages_and_lines_may_be_turned(degrees: int) -> None:
    def draw(canvas: Canvas) -> None:
        lines(*PROSE[:3])(canvas)
        canvas.saveState()
        canvas.translate(30, 200)
        canvas.rotate(90)
        canvas.drawString(0, 0, "A note in the margin that runs up the page")
        canvas.restoreState()

    data = drawn(draw).replace(b"/Rotate 0", b"/Rotate %d" % degrees)
    text = flat(text_of(data))
    assert flat(" ".join(PROSE[:3])) in text
    assert "A note in the margin that runs up the page" in text


@pytest.mark.parametrize("before", [b"", b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", b"x" * 3_000])
@pytest.mark.parametrize("behind", [b"", b"\0" * 10_000, b"<!-- served in 3 ms -->\n" * 500, b"\n" * 200_000])
def test_what_stands_before_or_behind_the_file_counts_for_nothing(before: bytes, behind: bytes) -> None:
    assert text_of(before + pdf("The tide comes in.") + behind) == "The tide comes in."


def test_a_file_that_is_cut_short_is_refused() -> None:
    whole = pdf("The tide comes in.")
    for cut in (whole[:-40], whole[: len(whole) // 2], whole + b"\n12 0 obj\n<</Length 10>>", b"%PDF-1.4 nothing"):
        with pytest.raises(DocumentError, match="truncated"):
            read(cut)


class TestSeenOnly:
    """What is to be seen and not to be read."""

    NAMELESS = ("The harbour office keeps a record", "of every vessel that enters the port")

    def test_letters_that_the_embedded_font_knows_need_no_recognition(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recognized_lines, "find_spec", lambda name: None)
        found = read(nameless(*self.NAMELESS, has_glyph_names=True))
        assert flat(found.text) == " ".join(self.NAMELESS)
        assert "unread_pages" not in found.metadata

    @pytest.mark.xdist_group("recognition")
    def test_letters_without_names_are_recognised(self) -> None:
        found = read(nameless(*self.NAMELESS))
        assert flat(found.text) == " ".join(self.NAMELESS)
        assert found.metadata["recognized_pages"] == 1

    @pytest.mark.xdist_group("recognition")
    @pytest.mark.parametrize("stamp", ["Downloaded from the county archive on 3 May 2024 by reader 4711", "Copy 7", ""])
    def test_a_stamp_does_not_keep_a_scan_from_being_recognised(self, stamp: str) -> None:
        found = read(scan("The council resolved to", "dredge the channel"[:18], stamp=stamp))
        assert "The council resolved to dredge the channel" in flat(found.text)
        assert flat(found.text).endswith(stamp)
        assert flat(found.text).count("council") == 1

    def test_a_scan_with_its_text_over_it_is_not_recognised_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recognized_lines, "find_spec", lambda name: None)
        said = "The council resolved in May to\ndredge the channel before July"
        found = read(scan(*said.split("\n"), layer=said))
        assert flat(found.text) == flat(said)
        assert "unread_pages" not in found.metadata

    @pytest.mark.parametrize(
        "data",
        [
            nameless(*NAMELESS, named="A line below that can be read."),
            scan("The council resolved to", "dredge the channel", stamp="A line below that can be read."),
            scan("The council resolved to", stamp="A line below that can be read."),
        ],
        ids=["font", "scan", "scan of one line"],
    )
    def test_without_the_extra_people_are_told_which_pages(self, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recognized_lines, "find_spec", lambda name: None)
        found = read(data)
        assert (flat(found.text), found.metadata["unread_pages"]) == ("A line below that can be read.", "1")


@pytest.mark.parametrize(
    ("stamp", "size", "turned"),
    [
        ("arXiv:2004.04906v3  [cs.CL]  30 Sep 2020", 20, True),
        ("arXiv:1706.03762v7 [cs.CL] 2 Aug 2023", 26, False),
        ("https://doi.org/10.1000/182", 30, False),
        ("Preprint: not peer reviewed", 24, True),
        ("2024", 40, False),
    ],
)
def test_stamps_name_no_document(stamp: str, size: int, turned: bool) -> None:
    def draw(canvas: Canvas, *, with_title: bool = True) -> None:
        canvas.setFont("Helvetica", size)
        if turned:
            canvas.saveState()
            canvas.translate(30, 200)
            canvas.rotate(90)
            canvas.drawString(0, 0, stamp)
            canvas.restoreState()
        else:
            canvas.drawString(30, 800, stamp)
        canvas.setFont("Helvetica", 16)
        if with_title:
            canvas.drawString(60, 740, "Dense Passages for Everybody")
        canvas.setFont("Helvetica", 11)
        lines(*PROSE, top=700)(canvas)

    found = read(drawn(draw))
    assert found.title == "Dense Passages for Everybody"
    assert flat(found.text).count("2004" if "2004" in stamp else stamp.split()[0]) == 1
    assert stamp not in read(drawn(lambda canvas: draw(canvas, with_title=False))).title


def big(text: str, size: float = 30, top: float = 800) -> Callable[[Canvas], None]:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", size)
        canvas.drawString(60, top, text)
        canvas.setFont("Helvetica", 11)

    return draw


def page(*drawings: Callable[[Canvas], None]) -> Callable[[Canvas], None]:
    def draw(canvas: Canvas) -> None:
        for each in drawings:
            each(canvas)

    return draw


@pytest.mark.parametrize(
    "annotation",
    [
        field(b"/FT/Tx/T(n)/V(Ada Lovelace)/AP<</N 7 0 R>>"),
        b"<</Type/Annot/Subtype/Stamp/Rect[40 300 300 380]/F 4/AP<</N 7 0 R>>>>",
        b"<</Type/Annot/Subtype/FreeText/Rect[40 360 300 390]/F 4/Contents(Ada Lovelace)/AP<</N 7 0 R>>>>",
    ],
    ids=["field", "stamp", "text"],
)
def test_what_annotations_show_names_no_document(annotation: bytes) -> None:
    look = stream(
        b"BT /F1 40 Tf 4 6 Td (Ada Lovelace) Tj ET",
        b"/Type/XObject/Subtype/Form/BBox[0 0 260 50]/Resources<</Font<</F1 4 0 R>>>>",
    )
    whole = annotated(annotation, look)
    assert "Ada Lovelace" in flat(text_of(whole))
    assert read(whole).title == "Name of the applicant:"
    alone = whole.replace(stream(b"BT /F1 12 Tf 40 350 Td (Name of the applicant:) Tj ET"), stream(b""))
    assert read(alone).title == "a"  # the name of the file


MARKS = ["DRAFT", "xiv", "Page 3 of 9", "- 3 -"]


@pytest.mark.parametrize("header", ["ACME Limited", "Volume 3 of the Annals", *MARKS])
def test_running_headers_page_numbers_and_marks_are_no_titles(header: str) -> None:
    texts = [big(header), big("Dense Passages for Everybody", size=16, top=740), lines(*PROSE, top=700)]
    untitled = [big(header), lines(*PROSE, top=700)]
    later = page(big(re.sub(r"\d", "4", header)), lines(*PROSE, top=650))
    other = page(lines(*PROSE, top=650))
    assert read(drawn(page(*texts), later)).title == "Dense Passages for Everybody"
    assert read(drawn(page(*texts), other, later)).title == "Dense Passages for Everybody"  # odd pages have a header
    assert read(drawn(page(*untitled), later)).title == (PROSE[0] if header in MARKS else header)


@pytest.mark.parametrize("title", ["Invoice 4711", "Chapter 1", "Safety data sheet"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_large_title_that_each_page_repeats_is_better_than_its_first_line(title: str, count: int) -> None:
    def numbered(number: int, *text: str) -> Callable[[Canvas], None]:
        return page(big(re.sub("1$", str(number), title)), lines(*text, top=700))

    pages = [numbered(number, *PROSE[number % 2 :]) for number in range(1, count + 1)]
    copies = [numbered(1, *PROSE)] * count
    small = [page(lines("ACME Limited", *PROSE[number:], top=800)) for number in range(2)]
    assert read(drawn(*pages)).title == title
    assert read(drawn(*copies)).title == title
    assert read(drawn(*small)).title == PROSE[0]


def test_a_title_that_later_pages_repeat_in_small_letters_stays_the_title() -> None:
    header = big("Dense Passages for Everybody", size=8)
    first = page(big("Dense Passages for Everybody", size=20), lines(*PROSE, top=700))
    assert read(drawn(first, page(header, lines(*PROSE, top=700)))).title == "Dense Passages for Everybody"


def test_a_title_comes_from_properties_and_outline_where_no_text_is_large() -> None:
    def outlined(*names: str, title: str = "") -> Callable[[Canvas], None]:
        def draw(canvas: Canvas) -> None:
            lines(*PROSE)(canvas)
            canvas.setTitle(title)
            for name in names:
                canvas.bookmarkPage(name)
                canvas.addOutlineEntry(name, name, level=0)

        return draw

    assert read(drawn(outlined("Of cities"))).title == "Of cities"
    assert read(drawn(outlined("Of cities", "Of rivers"))).title == PROSE[0]
    assert read(drawn(outlined("Of cities", title="Of all"))).title == "Of all"
    contents = page(big("Contents"), outlined("Of cities"))
    assert read(drawn(contents)).title == "Of cities"


def test_the_page_view_has_the_words_of_the_text_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    left, right = ([line[:42] for line in side] for side in (PROSE, OTHER))
    path.write_bytes(drawn(two_columns(left, right, row_by_row=True), lines("Not this page")))
    found = page_of(path, "application/pdf", 1, 0, DEFAULT_LIMITS)
    assert isinstance(found, PageWords)
    assert [word.text for word in found.words] == " ".join([*left, *right]).split()
    assert all(0 <= word.left < word.right <= 1 and 0 <= word.top < word.bottom <= 1 for word in found.words)
    first, last = found.words[0], found.words[-1]
    assert first.left < 0.1 < 0.5 < last.left
    assert first.top < last.top


def test_the_picture_of_a_page_shows_values_of_fields(tmp_path: Path) -> None:
    def ink(data: bytes) -> int:
        path = tmp_path / "a.pdf"
        path.write_bytes(data)
        image = page_of(path, "application/pdf", 1, 640, DEFAULT_LIMITS)
        assert isinstance(image, bytes)
        field = Image.open(io.BytesIO(image)).convert("L").crop((64, 128, 480, 160))
        return sum(value < 100 for value in field.tobytes())

    empty, filled = (annotated(field(b"/FT/Tx/T(n)%s" % value)) for value in (b"", b"/V(Ada Lovelace)"))
    assert ink(filled) > ink(empty) + 50


def test_a_page_of_very_many_pieces_takes_no_square_of_time() -> None:
    def pieces(count: int) -> bytes:
        content = b"BT /F1 1 Tf " + b"".join(
            b"1 0 0 1 %d %d Tm (a%d) Tj " % (number * 37 % 590, number * 101 % 790, number) for number in range(count)
        )
        return raw_pdf(
            [
                b"<</Type/Catalog/Pages 2 0 R>>",
                b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
                b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R/Resources<</Font<</F1 4 0 R>>>>>>",
                b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
                stream(content + b"ET"),
            ]
        )

    def spent(count: int) -> float:
        started = time.process_time()
        assert len(set(read(pieces(count)).text.split())) > count // 20
        return time.process_time() - started

    spent(100)
    assert spent(20_000) < 60 * max(spent(2_000), 0.05)


def test_pages_far_from_the_corner_of_the_sheet() -> None:
    data = pdf("The tide comes in.").replace(
        b"/MediaBox [ 0 0 595.2756 841.8898 ]", b"/MediaBox [ 60 700 595.27 841.8 ]"
    )
    assert text_of(data) == "The tide comes in."


def test_letters_that_pdfium_loses_while_it_draws_annotations_are_kept():
    """It did so with the fonts of forms by Scribus: the page without annotations still has its letters."""

    def word(text: str, left: float, unsure: int = 0) -> PageWord:
        return PageWord(text, left, 10, left + 50, 22, 12, 0, unsure, True)

    own = [word("Membership", 10), word("number", 70)]
    lost = [word("\ufffd" * len(old.text), old.left, len(old.text)) for old in own]
    assert [shown.text for shown in with_values(own, [*lost, word("42", 200)], [])] == ["Membership", "number"]
    assert [shown.text for shown in with_values(own, [*own, word("42", 200)], [])][-1] == "42"
