"""Renders a page of a PDF or picture for the document view: as an image, or its words with positions."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from pypdfium2 import PdfDocument

from app.errors import DocumentError
from app.types.pages import PageWords, PlacedWord
from ingest.readers import pdf_pages, pictures
from ingest.readers.hyphens import Hyphens
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import PICTURES
from ingest.readers.pdf_fields import loaded
from ingest.readers.pdf_layout import layout_of
from ingest.readers.recognized_pages import jpeg

_MOST_WORDS = 20_000
_PDF = "application/pdf"


def page_of(path: Path, media_type: str, page: int, width: int, limits: ReadLimits) -> PageWords | bytes:
    """A JPEG of the page, `width` pixels wide, or, if `width` is 0, its size and the words of its text layer.

    `page` counts from 1. Raises DocumentError.
    """
    if media_type == _PDF:
        with pdf_pages.opened(path) as document:
            count = len(document)
            _check(page, count)
            if not width:
                return _words(document, page, count)
            with pdf_pages.page_of(document, page) as drawn:
                return jpeg(pdf_pages.draw(drawn, width=width), width=width)
    if media_type in PICTURES:
        with pictures.opened(path) as picture:
            count = getattr(picture, "n_frames", 1)
            pictures.check_pages(count, limits)
            _check(page, count)
            frame = pictures.frame_of(picture, page)
            return jpeg(frame, width=width) if width else PageWords(count, frame.width, frame.height)
    raise DocumentError("Documents of this kind have no pages to show; their text is shown.")


def _words(document: PdfDocument, number: int, count: int) -> PageWords:
    """The words of the text layer in reading order, with positions from 0 to 1; at most 20,000."""
    with loaded(document, number) as shown:
        across, down = shown.page.get_size()
        layout = layout_of(shown.words, Hyphens())
    placed = (
        PlacedWord(
            word.text,
            *(
                min(1.0, max(0.0, at))
                for at in (word.left / across, word.top / down, word.right / across, word.bottom / down)
            ),
        )
        for word in layout.words
    )
    return PageWords(count, across, down, tuple(islice(placed, _MOST_WORDS)))


def _check(page: int, count: int) -> None:
    if not 1 <= page <= count:
        raise DocumentError(f"There is no page {page:,}: this document has {count:,}.")
