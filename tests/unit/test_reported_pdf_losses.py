"""Losses of text that users of other PDF readers reported: what a person sees stands in the text, in its order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import reportlab
from pdf_samples import annotated, drawn, raw_pdf, stream
from reportlab.pdfgen.canvas import Canvas

from app.types.texts import ExtractedText
from ingest.readers.document import read_document

HELVETICA = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
FONTS = Path(reportlab.__file__).parent / "fonts"


def read(data: bytes) -> ExtractedText:
    return read_document(data, uri="a.pdf")


def at(text: str, x: int, y: int = 700, size: int = 12) -> bytes:
    return b"BT /F1 %d Tf 1 0 0 1 %d %d Tm (%s) Tj ET\n" % (size, x, y, text.encode("cp1252"))


def page(content: bytes, *more: bytes, font: bytes = HELVETICA) -> bytes:
    """A page with this content in the font F1; `more` are objects from number 6 on."""
    return raw_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
            stream(content),
            font,
            *more,
        ]
    )


def lettered(letters: str, content: Callable[[Callable[[str], bytes]], bytes], *, is_down: bool = False) -> bytes:
    """A page in a font whose codes stand for `letters`. `content` gets a function that writes a text in these codes.

    Its glyphs are those of another script: only their places count.
    """
    codes = {letter: 36 + number for number, letter in enumerate(dict.fromkeys(letters))}
    mapped = b" ".join(
        b"<%04x><%s>" % (code, letter.encode("utf-16-be").hex().encode()) for letter, code in codes.items()
    )
    names = b"begincmap 1 begincodespacerange <0000><FFFF> endcodespacerange %d beginbfchar %s endbfchar endcmap" % (
        len(codes),
        mapped,
    )
    program = (FONTS / "Vera.ttf").read_bytes()
    return page(
        content(lambda text: b"<" + b"".join(b"%04x" % codes[letter] for letter in text) + b">"),
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/V/CIDSystemInfo"
        b"<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/CIDToGIDMap/Identity/FontDescriptor 7 0 R/DW 1000>>",
        b"<</Type/FontDescriptor/FontName/V/Flags 4/FontBBox[-183 -236 1287 928]/ItalicAngle 0/Ascent 880/Descent -120"
        b"/CapHeight 928/StemV 80/FontFile2 8 0 R>>",
        stream(program, b"/Length1 %d" % len(program)),
        stream(names),
        font=b"<</Type/Font/Subtype/Type0/BaseFont/V/Encoding/Identity-%s/DescendantFonts[6 0 R]/ToUnicode 9 0 R>>"
        % (b"V" if is_down else b"H"),
    )


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (at("safeguarded", 60) + at("4", 128, 705, 7) + at("and more", 140), "safeguarded⁴ and more"),
        (at("About 10", 60) + at("-6", 107, 705, 7) + at("metres", 120), "About 10⁻⁶ metres"),
        (b"BT /F1 12 Tf 60 700 Td (25 m) Tj /F1 7 Tf 5 Ts (2) Tj ET", "25 m²"),
        (at("shown", 60) + at("1,2", 95, 705, 7), "shown¹,²"),
        (at("CO", 60) + at("2", 78, 697, 7), "CO2"),
        (at("The 2", 60) + at("nd", 91, 705, 7), "The 2nd"),
        (b"BT /F1 12 Tf 60 700 Td (No) Tj /F1 7 Tf (12) Tj ET", "No12"),
    ],
    ids=["note", "power", "rise", "two notes", "below", "ordinal", "small"],
)
def test_raised_numbers_are_not_glued_to_their_word(content: bytes, shown: str) -> None:
    assert read(page(content)).text == shown


def test_a_large_first_letter_belongs_to_its_word() -> None:
    initial = b"BT /F1 42 Tf 60 672 Td (%s) Tj ET"
    for letter, rest, word in (("O", "nce upon", "Once"), ("A", "ll of them", "All"), ("A", "town of old", "A town")):
        content = initial % letter.encode() + at(rest, 95, 694) + at("and so on", 95, 680)
        assert read(page(content)).text.startswith(word)
    assert "S is" in read(page(at("Let", 60) + at("S", 84, size=24) + at(" is", 101))).text  # a large sign in a line


COLUMNS = ("いつもおせわに", "なっております", "よろしくおねがい")


def test_vertical_writing_is_read_from_the_top_in_columns_from_the_right() -> None:
    def strings(code: Callable[[str], bytes]) -> bytes:
        return b"".join(
            b"BT /F1 20 Tf 1 0 0 1 %d 700 Tm %s Tj ET\n" % (500 - 30 * number, code(column))
            for number, column in enumerate(COLUMNS)
        )

    def single(code: Callable[[str], bytes]) -> bytes:
        return b"".join(
            b"BT /F1 20 Tf 1 0 0 1 %d %d Tm %s Tj ET\n" % (500 - 30 * number, 700 - 22 * row, code(letter))
            for number, column in enumerate(COLUMNS)
            for row, letter in enumerate(column)
        )

    for draw, is_down in ((strings, True), (single, True), (single, False)):
        assert "".join(read(lettered("".join(COLUMNS), draw, is_down=is_down)).text.split()) == "".join(COLUMNS)


def test_signs_below_each_other_in_a_table_are_no_vertical_writing() -> None:
    def cells(code: Callable[[str], bytes]) -> bytes:
        return b"".join(
            b"BT /F1 20 Tf 1 0 0 1 %d %d Tm %s Tj ET\n" % (100 + 60 * column, 700 - 22 * row, code("月日"[column % 2]))
            for column in range(4)
            for row in range(5)
        )

    assert read(lettered("月日", cells)).text.replace("\n", "") == "月 日 月 日" * 5


def in_hebrew(*lines: str) -> bytes:
    """Lines as a program draws them: letters from left to right as they are seen."""
    codes = "".join(dict.fromkeys("".join(lines)))
    return lettered(
        codes,
        lambda code: b"".join(
            b"BT /F1 14 Tf 1 0 0 1 60 %d Tm %s Tj ET\n" % (700 - 20 * number, code(line))
            for number, line in enumerate(lines)
        ),
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ("!םלוע hello world םולש", "שלום hello world עולם!"),
        ("הדות Microsoft Office 365 שמתשמ ינא", "אני משתמש Microsoft Office 365 תודה"),
        ("He said לודג םלוע םולש to all.", "He said שלום עולם גדול to all."),
        ("12/05/2024 ךיראת", "תאריך 12/05/2024"),
    ],
)
def test_words_of_two_directions_in_one_line(seen: str, said: str) -> None:
    assert read(in_hebrew(seen)).text == said


def test_lines_from_the_right_keep_their_order() -> None:
    seen = ("הרושב םילימ דועו 25 רפסמ םע טסקט והז", "Python 3 Java 4 הלימה תא תללוכ היינשה הרושה", ".ףוס")
    assert [line.split()[0] for line in seen] == ["הרושב", "Python", ".ףוס"]
    text = read(in_hebrew(*seen)).text
    assert text.index("זהו") < text.index("השורה") < text.index("Python") < text.index("סוף")


def test_letters_of_a_ligature_from_the_right_keep_their_order() -> None:
    names = b"begincmap 1 begincodespacerange <00><FF> endcodespacerange 4 beginbfchar "
    names += b"<61><0645> <62><06440627> <63><0633> <64><062E> endbfchar endcmap"
    font = HELVETICA.replace(b">>", b"/ToUnicode 6 0 R>>")
    assert read(page(at("abcd", 60), stream(names), font=font)).text == "خسلام"


def test_texts_of_annotations_in_rich_form_alone() -> None:
    rich = b'/RC(<?xml version="1.0"?><body><p>Is this</p><p>right?</p></body>)'
    note = b"<</Type/Annot/Subtype/Text/Rect[50 300 70 320]/T(Ann)%s>>" % rich
    written = b"<</Type/Annot/Subtype/FreeText/Rect[50 200 250 260]/DA(/F1 12 Tf)%s>>" % rich
    field = (
        b"<</Type/Annot/Subtype/Widget/FT/Tx/T(n)/Ff 33554432/Rect[160 140 300 160]/DA(/F1 12 Tf)/RV(<p>Rich value)>>"
    )
    text = " ".join(read(annotated(note, written, field)).text.split())
    assert text == "Name of the applicant: Is this right? Rich value Comment by Ann: Is this right?"


def test_comments_of_stamps_and_files_and_the_files_of_a_page() -> None:
    look = stream(
        b"BT /F1 12 Tf 4 6 Td (Received in May) Tj ET",
        b"/Type/XObject/Subtype/Form/BBox[0 0 260 20]/Resources<</Font<</F1 4 0 R>>>>",
    )
    stamp = b"<</Type/Annot/Subtype/Stamp/Rect[40 200 300 220]/F 4/Contents(%s)/AP<</N 7 0 R>>>>"
    for said, beside in ((b"Seen by the board", ["Comment: Seen by the board"]), (b"Received in May", [])):
        assert read(annotated(stamp % said, look)).text.split("\n\n")[1:] == beside
    file = (
        b"<</Type/Annot/Subtype/FileAttachment/Rect[40 300 60 320]/Contents(The figures)"
        b"/FS<</Type/Filespec/F(figures.csv)/EF<</F 7 0 R>>>>>>"
    )
    found = read(annotated(file, b"<</Type/EmbeddedFile/Length 9>>stream\nCity,Rome\nendstream"))
    assert found.text.endswith("Comment: The figures")
    assert found.metadata["skipped_attachments"] == 1
    assert str(found.metadata["skipped"]).startswith("figures.csv: ")


def test_a_hyphen_before_a_note_is_no_part_of_the_note() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(60, 700, "They printed all of the docu-")
        canvas.setFont("Helvetica", 7)
        canvas.drawString(60, 690, "1")
        canvas.setFont("Helvetica", 10)
        canvas.drawString(64, 686, "The note.")

    assert "docu- ¹The note." in read(drawn(draw)).text
