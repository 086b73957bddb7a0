"""PDFs that are drawn as programs draw them: letter by letter, twice, cell by cell, without names for their letters."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fontTools.ttLib import TTFont
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfbase.ttfonts import TTFontFile
from reportlab.pdfgen.canvas import Canvas
from scan_samples import picture

SIZE = 12


def drawn(*pages: Callable[[Canvas], None], size: tuple[float, float] = (595, 842)) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=size, invariant=True)
    for draw in pages:
        canvas.setFont("Helvetica", SIZE)
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def lines(*texts: str, left: float = 60, top: float = 750, step: float = 14) -> Callable[[Canvas], None]:
    def draw(canvas: Canvas) -> None:
        for number, text in enumerate(texts):
            canvas.drawString(left, top - step * number, text)

    return draw


def letter_by_letter(
    text: str, *, order: Callable[[int], float] = float, apart: float = 0, left: float = 60
) -> Callable[[Canvas], None]:
    """Spaces are not drawn; `order` sorts the letters, `apart` is the room between them, in points."""

    def draw(canvas: Canvas) -> None:
        at, placed = left, []
        for letter in text:
            placed.append((at, letter))
            at += stringWidth(letter, "Helvetica", SIZE) + (apart if letter != " " else 2 * apart)
        for number in sorted(range(len(placed)), key=order):
            if placed[number][1] != " ":
                canvas.drawString(placed[number][0], 700, placed[number][1])

    return draw


def table(cells: Sequence[Sequence[str]], *, by_column: bool, step: float = 20) -> Callable[[Canvas], None]:
    def draw(canvas: Canvas) -> None:
        places = [(row, column) for row in range(len(cells)) for column in range(len(cells[0]))]
        for row, column in sorted(places, key=lambda place: place[::-1] if by_column else place):
            canvas.drawString(60 + 150 * column, 700 - step * row, cells[row][column])

    return draw


def two_columns(left: Sequence[str], right: Sequence[str], *, row_by_row: bool) -> Callable[[Canvas], None]:
    def draw(canvas: Canvas) -> None:
        placed = [(0, number, text) for number, text in enumerate(left)]
        placed += [(1, number, text) for number, text in enumerate(right)]
        for column, number, text in sorted(placed, key=lambda each: each[1::-1] if row_by_row else each):
            canvas.drawString(40 + 280 * column, 700 - 14 * number, text)

    return draw


def nameless(*texts: str, named: str = "", has_glyph_names: bool = False) -> bytes:
    """A font whose signs are numbers of glyphs, and which says nothing of the letters that these are: they are there to
    be seen alone. `named` is a line of a font that says it. With `has_glyph_names` the embedded file knows its letters.
    """
    path = _font()
    face = TTFontFile(str(path))
    program = path.read_bytes() if has_glyph_names else _without_names(path)
    glyphs = {char: face.charToGlyph[ord(char)] for text in texts for char in text}
    widths = b" ".join(b"%d[%d]" % (glyph, face.charWidths[ord(char)]) for char, glyph in glyphs.items())
    shown = b"BT /F1 16 Tf 24 TL 60 750 Td "
    for text in texts:
        shown += b"<" + "".join(f"{glyphs[char]:04x}" for char in text).encode() + b"> Tj T* "
    shown += b"ET BT /F2 12 Tf 60 40 Td (%s) Tj ET" % named.encode()
    return raw_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R"
            b"/Resources<</Font<</F1 5 0 R/F2 9 0 R>>>>>>",
            stream(shown),
            b"<</Type/Font/Subtype/Type0/BaseFont/Vera/Encoding/Identity-H/DescendantFonts[6 0 R]>>",
            b"<</Type/Font/Subtype/CIDFontType2/BaseFont/Vera/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"
            b"/Supplement 0>>/CIDToGIDMap/Identity/FontDescriptor 7 0 R/W[%s]>>" % widths,
            b"<</Type/FontDescriptor/FontName/Vera/Flags 4/FontBBox[-183 -236 1287 928]/ItalicAngle 0/Ascent 928"
            b"/Descent -236/CapHeight 928/StemV 80/FontFile2 8 0 R>>",
            stream(program, b"/Length1 %d" % len(program)),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        ]
    )


@cache
def _without_names(path: Path) -> bytes:
    font = TTFont(path)
    font["cmap"].tables = []
    font["post"].formatType = 3.0
    written = io.BytesIO()
    font.save(written)
    return written.getvalue()


def _font() -> Path:
    """One that comes with reportlab."""
    found = find_spec("reportlab")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "fonts" / "Vera.ttf"


def scan(*texts: str, stamp: str = "", layer: str = "") -> bytes:
    """A page that is a picture of text, with a stamp below or an invisible layer over it."""

    def draw(canvas: Canvas) -> None:
        image = Image.new("L", (1_000, 1_400), 250)
        image.paste(picture(texts, size=36, width=900), (50, 100))
        canvas.drawImage(ImageReader(image), 0, 0, 595, 842)
        if stamp:
            canvas.drawString(60, 30, stamp)
        if layer:
            text = canvas.beginText(51, 742)
            text.setTextRenderMode(3)
            text.setFont("Helvetica", 22, leading=32.5)
            for line in layer.split("\n"):
                text.textLine(line)
            canvas.drawText(text)

    return drawn(draw)


def raw_pdf(objects: Sequence[bytes], *, root: int = 1) -> bytes:
    """Objects from number 1 on, with a table of them."""
    data, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, rows)
    return data + b"trailer\n<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, root, start)


def stream(content: bytes, entries: bytes = b"") -> bytes:
    packed = zlib.compress(content)
    return b"<</Length %d/Filter/FlateDecode%s>>stream\n%s\nendstream" % (len(packed), entries, packed)


def annotated(*annotations: bytes, form: bytes = b"") -> bytes:
    """A page with one line of text and these annotations, which are objects from number 6 on."""
    named = b" ".join(b"%d 0 R" % number for number in range(6, 6 + len(annotations)))
    return raw_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[%s]/DA(/F1 12 Tf 0 g)/DR<</Font<</F1 4 0 R>>>>%s>>>>"
            % (named, form),
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 400]/Contents 5 0 R/Resources<</Font<</F1 4 0 R>>>>"
            b"/Annots[%s]>>" % named,
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
            stream(b"BT /F1 12 Tf 40 350 Td (Name of the applicant:) Tj ET"),
            *annotations,
        ]
    )
