"""Opens PDFs with PDFium and draws their pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import pypdfium2 as pdfium
import pypdfium2.raw as raw
from PIL import Image

from app.errors import DocumentError
from ingest.readers.skipped import Skipped

MEND = "Fetch it again, or open it in a PDF viewer and print it to a new PDF."
_HEADER_BYTES, _TAIL_BYTES = 1_024, 4_096  # the ranges in which PDFium searches the header and the end
_MOST_JUNK = 1_000_000  # bytes before the header
_BLOCK_BYTES, _LONGEST_END = 1_000_000, 4_096
_END = re.compile(rb"startxref\s+(\d{1,12})\s*(?:%%EOF)?")
_OBJECT = re.compile(rb"\d+\s+\d+\s+obj\b")
_MOST_ATTACHMENTS = 1_000
_MOST_PIXELS = 20_000_000  # of a rendered page: a long receipt is drawn smaller than requested


class PageError(DocumentError):
    """One page of a document cannot be read; the others may be."""


@contextmanager
def opened(source: Path | BinaryIO) -> Iterator[pdfium.PdfDocument]:
    """Opens a PDF with its form, if it has one. Ignores junk before the header and after the end. Raises
    DocumentError."""
    with ExitStack() as files:
        stream = files.enter_context(source.open("rb")) if isinstance(source, Path) else source
        try:
            document = pdfium.PdfDocument(_whole(stream))
        except pdfium.PdfiumError as error:
            if error.err_code == raw.FPDF_ERR_PASSWORD:
                raise DocumentError(
                    "This PDF is protected by a password. Save a copy without one and add that."
                ) from error
            raise DocumentError(f"This PDF is damaged ({error}). {MEND}") from error
        with closing(document):
            if document.get_formtype() != raw.FORMTYPE_NONE:
                document.init_forms()
            yield document


def _whole(stream: BinaryIO) -> BinaryIO | bytes:
    """The file from its header to its end. PDFium alone would silently repair a truncated file."""
    begin, end = _begin(stream), _end(stream)
    size = stream.seek(0, os.SEEK_END)
    if begin <= _HEADER_BYTES and end + _TAIL_BYTES >= size:
        stream.seek(0)
        return stream
    stream.seek(begin)
    return stream.read(end - begin)


def _begin(stream: BinaryIO) -> int:
    """The position of the header; 0 without one."""
    stream.seek(0)
    return max(0, stream.read(_MOST_JUNK).find(b"%PDF-"))


def _end(stream: BinaryIO) -> int:
    """The position after the last `startxref` entry, which ends every complete PDF.

    Raises DocumentError for a truncated file.
    """
    held, at = b"", stream.seek(0, os.SEEK_END)
    while at > 0:
        step = min(at, _BLOCK_BYTES)
        at -= step
        stream.seek(at)
        held = stream.read(step) + held[:_LONGEST_END]
        matches = list(_END.finditer(held))
        if matches:
            last = matches[-1]
            if _OBJECT.search(held, last.end()) or (int(last[1]) == 0 and _is_linearized(stream)):
                break  # a truncated update, or only the first part of a linearized file
            return at + last.end()
    raise DocumentError(f"This PDF is truncated: its end is missing. {MEND}")


def _is_linearized(stream: BinaryIO) -> bool:
    stream.seek(0)
    return b"/Linearized" in stream.read(_TAIL_BYTES)


@contextmanager
def page_of(document: pdfium.PdfDocument, number: int) -> Iterator[pdfium.PdfPage]:
    """A page, counted from 1. Raises PageError if it cannot be loaded."""
    try:
        page = document[number - 1]
    except pdfium.PdfiumError as error:
        raise PageError(f"Page {number} of this PDF cannot be drawn ({error}).") from error
    with closing(page):
        yield page


def attachments_of(document: pdfium.PdfDocument) -> list[str]:
    """The names of the files embedded in a PDF, without those attached to a page."""
    names = []
    for at in range(min(_MOST_ATTACHMENTS, document.count_attachments())):
        try:
            names.append(document.get_attachment(at).get_name())
        except pdfium.PdfiumError:
            names.append(f"Attachment {at + 1}")
    return names


def unread_attachments(names: Iterable[str]) -> Skipped:
    skipped = Skipped("attachments")
    for name in names:
        skipped.note(name, "A file embedded in the PDF is not read. Save it and add it.")
    return skipped


def draw(page: pdfium.PdfPage, *, width: int) -> Image.Image:
    """An RGB image of the page, `width` pixels wide, or narrower if it would exceed 20 million pixels."""
    across, down = page.get_size()
    scale = width / max(across, 1.0)
    scale = min(scale, (_MOST_PIXELS / max(across * down, 1.0)) ** 0.5)
    bitmap = page.render(scale=scale, rev_byteorder=True, may_draw_forms=True)
    with closing(bitmap):
        return bitmap.to_pil().convert("RGB")
