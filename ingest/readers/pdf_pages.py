"""Pages of a PDF as they are seen: pictures, and where the words stand, by PDFium."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import pypdfium2 as pdfium
import pypdfium2.raw as raw
from PIL import Image

from app.errors import DocumentError
from app.types.pages import PageWords, PlacedWord

_MOST_PIXELS = 20_000_000  # of a rendered page: a long receipt is drawn smaller than it was asked for
_MOST_WORDS = 20_000
_WORD = re.compile(r"\S+")
_NO_UNICODE = 0xFFFE  # PDFium's sign of a hyphen at the end of a line


@contextmanager
def opened(source: Path | BinaryIO) -> Iterator[pdfium.PdfDocument]:
    try:
        document = pdfium.PdfDocument(source)
    except pdfium.PdfiumError as error:
        raise DocumentError(
            f"This PDF cannot be drawn ({error}). Open it in a PDF viewer and save it again."
        ) from error
    with closing(document):
        yield document


@contextmanager
def page_of(document: pdfium.PdfDocument, number: int) -> Iterator[pdfium.PdfPage]:
    """Counts from 1."""
    try:
        page = document[number - 1]
    except pdfium.PdfiumError as error:
        raise DocumentError(f"Page {number} of this PDF cannot be drawn ({error}).") from error
    with closing(page):
        yield page


def draw(page: pdfium.PdfPage, *, width: int) -> Image.Image:
    across, down = page.get_size()
    scale = width / max(across, 1.0)
    scale = min(scale, (_MOST_PIXELS / max(across * down, 1.0)) ** 0.5)
    bitmap = page.render(scale=scale, rev_byteorder=True, may_draw_forms=False)
    with closing(bitmap):
        return bitmap.to_pil().convert("RGB")


def share_of_pictures(page: pdfium.PdfPage) -> float:
    """Of the page's area; pictures that overlap count each."""
    across, down = page.get_size()
    covered = 0.0
    for item in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = item.get_bounds()
        covered += max(0.0, min(right, across) - max(left, 0.0)) * max(0.0, min(top, down) - max(bottom, 0.0))
    return covered / max(across * down, 1.0)


def words(page: pdfium.PdfPage, count: int) -> PageWords:
    """In the order of PDFium's text."""
    across, down = page.get_size()
    with closing(page.get_textpage()) as text:
        letters = [chr(_letter(text, at)) for at in range(min(text.count_chars(), 6 * _MOST_WORDS))]
        found = []
        for word in _WORD.finditer("".join(letters)):
            placed = _placed(page, text, word)
            if placed is not None:
                found.append(placed)
    return PageWords(count, across, down, tuple(found[:_MOST_WORDS]))


def _letter(text: pdfium.PdfTextPage, at: int) -> int:
    code = raw.FPDFText_GetUnicode(text, at)
    if code == _NO_UNICODE or code == 2:
        return ord("-")
    return code if 32 <= code < 0xD800 or 0xE000 <= code < 0x110000 else 32


def _placed(page: pdfium.PdfPage, text: pdfium.PdfTextPage, word: re.Match[str]) -> PlacedWord | None:
    """None for one without a place, as PDFium makes up some."""
    boxes = [text.get_charbox(at, loose=True) for at in range(word.start(), word.end())]
    boxes = [box for box in boxes if box[2] > box[0] and box[3] > box[1]]
    if not boxes:
        return None
    left, bottom = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, top = max(box[2] for box in boxes), max(box[3] for box in boxes)
    (x0, y0), (x1, y1) = _on_picture(page, left, top), _on_picture(page, right, bottom)
    (x0, x1), (y0, y1) = sorted((x0, x1)), sorted((y0, y1))
    return PlacedWord(word.group(), x0, y0, x1, y1)


_STEPS = 100_000


def _on_picture(page: pdfium.PdfPage, x: float, y: float) -> tuple[float, float]:
    """Shares of width and height, as the page is drawn: turned and cropped."""
    across, down = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, _STEPS, _STEPS, 0, x, y, across, down)
    return min(1.0, max(0.0, across.value / _STEPS)), min(1.0, max(0.0, down.value / _STEPS))
