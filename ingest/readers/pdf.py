"""PDF: text page by page, from the text layer or by recognition, with the position at which each page begins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from typing import BinaryIO

from PIL import Image
from pypdfium2 import PdfDocument, PdfPage

from app.errors import DocumentError, ServerLimitError
from app.types.documents import MetadataValue
from ingest.readers import pdf_pages
from ingest.readers.errors import parser_errors
from ingest.readers.garbled import is_garbled
from ingest.readers.hyphens import Hyphens
from ingest.readers.limits import ReadLimits, check_length
from ingest.readers.package import core_metadata
from ingest.readers.parts import Opened, Piece
from ingest.readers.pdf_fields import loaded
from ingest.readers.pdf_layout import PageLayout, layout_of
from ingest.readers.pdf_prints import has_print, share_of_pictures
from ingest.readers.pdf_titles import PdfTitles, is_stamp
from ingest.readers.pdf_words import PageWord
from ingest.readers.reading_order import PageText
from ingest.readers.recognized_lines import READ_SIDE, is_installed
from ingest.readers.recognized_pages import RecognizedPages, has_ink, ranges
from ingest.readers.text import clean_text

_PAGE_BREAK = "\n\n"
_FEW_LETTERS = 50  # a page with fewer may be a scan with a stamp on it
_LEAST_SIDE = 1_000  # pixels of an image for recognition: the size in inches may be wrong
_SCAN = 0.3  # least share of a scanned page that pictures cover
_LONGEST_STAMP, _STAMPED_SCAN = 400, 0.5  # letters and share of a stamped scan: with more text it has figures instead
_MOST_GARBLED = 4  # garbled letters in words that a page may lose without recognition
_SIGN = 2  # distinct letters of a sign or a line of dots; words have more
_READ_AGAIN = 0.6  # share of a line's words: if fewer were recognised, the line of the text layer is kept, too
_LETTERS = re.compile(r"[^\W\d_]")
_NO_TITLES = ("", "untitled", "unspecified", "(anonymous)", "anonymous")
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?")


def read_pdf(stream: BinaryIO, limits: ReadLimits) -> Opened:
    """Opens a PDF; its pages are parsed one by one. Raises DocumentError, also while pieces are iterated."""
    files = ExitStack()
    document = files.enter_context(pdf_pages.opened(stream))
    page_count = len(document)
    if page_count > limits.max_pages:
        files.close()
        raise ServerLimitError(
            f"This PDF has {page_count:,} pages; the limit is {limits.max_pages:,}. Split it into parts, "
            "or raise GIRCSE_MAX_DOCUMENT_PAGES."
        )
    title, metadata = _properties(document)
    metadata["pages"] = page_count
    titles = PdfTitles(document, title)
    pages = _Pages(document, files, limits, metadata, titles)
    return Opened("", metadata, pages.pieces(), late_title=lambda: pages.title)


class _Pages:
    """The text of the pages, from the text layer or by recognition."""

    def __init__(
        self,
        document: PdfDocument,
        files: ExitStack,
        limits: ReadLimits,
        metadata: dict[str, MetadataValue],
        titles: PdfTitles,
    ) -> None:
        self._document = document
        self._files = files
        self._limits = limits
        self._metadata = metadata
        self._recognized = RecognizedPages(limits)
        self._hyphens = Hyphens()
        self._titles = titles
        self._attachments = pdf_pages.attachments_of(document)
        self._embedded = frozenset(self._attachments)
        self.title = ""  # after the last page

    def pieces(self) -> Iterator[Piece]:
        has_text, count = False, len(self._document)
        failure: DocumentError | None = None
        with self._files:
            for number in range(1, count + 1):
                if number > 1:
                    yield Piece(_PAGE_BREAK)
                try:
                    with loaded(self._document, number) as shown:
                        layout, picture = self._read(shown.page, shown.words, number)
                        self._attachments += (name for name in shown.files if name not in self._embedded)
                except parser_errors() as error:
                    if isinstance(error, DocumentError) and not isinstance(error, pdf_pages.PageError):
                        raise  # a limit
                    failure = failure or _unreadable(number, error)
                    self._recognized.skip(number)  # the other pages are read
                    yield Piece("", begins_page=True)
                    continue
                if picture is None:
                    piece = Piece(layout.text, begins_page=True)
                    self._titles.add_page(_sure(shown.own)[0])
                else:
                    yield Piece("", share=(number - 1) / count)
                    recognized = _with_layer(self._recognized.page(picture, number), layout)
                    piece = Piece(recognized.text or layout.text, begins_page=True, words=recognized.words)
                    if recognized.text:
                        self._titles.add_recognized(self._recognized.title, recognized.text, shown.added)
                    else:
                        self._titles.add_page(_sure(shown.own)[0])
                if shown.comments:
                    piece = replace(piece, text="\n\n".join(filter(None, (piece.text, *shown.comments))))
                has_text = has_text or bool(piece.text.strip())
                yield piece
            self.title = self._titles.best  # while the document is open
        self._recognized.note(self._metadata)
        self._metadata |= pdf_pages.unread_attachments(self._attachments).metadata
        if not has_text:
            raise failure or _no_text(count, self._recognized.unread)

    def _read(self, page: PdfPage, words: Sequence[PageWord], number: int) -> tuple[PageLayout, Image.Image | None]:
        """The text of the page's layer, and the page's image if it must be recognised, too."""
        check_length(sum(len(word.text) for word in words), self._limits)
        sure, left_out = _sure(words)
        layout = layout_of(sure, self._hyphens)
        layout = layout._replace(text=clean_text(layout.text).strip())
        self._hyphens.note(layout.text)
        return layout, self._picture(page, layout, number, is_garbled=left_out > _MOST_GARBLED)

    def _picture(self, page: PdfPage, layout: PageLayout, number: int, *, is_garbled: bool) -> Image.Image | None:
        """The image of a page that shows text missing from its text layer; else None.

        If recognition is not installed, or its limit is reached, the page is noted as skipped.
        """
        share, letters = share_of_pictures(page), len(_LETTERS.findall(layout.text))
        is_lacking = letters < _FEW_LETTERS and (share >= _SCAN or not layout.text)
        may_be_stamped = letters < _LONGEST_STAMP and share >= _STAMPED_SCAN
        if not (is_garbled or is_lacking or (may_be_stamped and has_print(page, layout.words))):
            return None
        picture = pdf_pages.draw(page, width=_width(page))
        if not has_ink(picture):
            return None
        if not is_installed() or not self._recognized.has_left:
            self._recognized.skip(number)
            return None
        return picture


def _sure(words: Sequence[PageWord]) -> tuple[list[PageWord], int]:
    """Drops garbled words. Returns the others, and the number of letters dropped, without signs."""
    unsure = [word for word in words if 2 * word.unsure >= len(word.text) and word.unsure]
    left_out: set[int] = set()
    if unsure and is_garbled([word.text for word in unsure]):
        left_out = {id(word) for word in unsure}
    sure = [
        word._replace(text=text)
        for word in words
        if id(word) not in left_out and (text := word.text.replace("\ufffd", ""))
    ]
    return sure, sum(len(word.text) for word in unsure if id(word) in left_out and len(set(word.text)) > _SIGN)


def _with_layer(recognized_text: PageText, layout: PageLayout) -> PageText:
    """Appends lines of the text layer that recognition missed, such as a faint stamp."""
    if not recognized_text.text:
        return recognized_text
    recognized = set(re.findall(r"\w+", recognized_text.text.casefold()))
    lost = []
    for line in layout.text.split("\n"):
        words = re.findall(r"\w+", line.casefold())
        if words and sum(word in recognized for word in words) < _READ_AGAIN * len(words):
            lost.append(line)
    return recognized_text._replace(text="\n".join([recognized_text.text, *lost]))


def _width(page: PdfPage) -> int:
    """Pixels across the page for recognition: 200 dpi, within the bounds of its longer side."""
    across, down = page.get_size()
    longer = max(across, down, 1.0)
    return max(1, round(across * min(READ_SIDE, max(_LEAST_SIDE, longer * 200 / 72)) / longer))


def _no_text(page_count: int, unread: Sequence[int]) -> DocumentError:
    if not unread:
        return DocumentError(f"This PDF has no text on its {page_count:,} pages: they are blank.")
    if not is_installed():
        return ServerLimitError(
            f"This PDF has no text on its {page_count:,} pages: it holds pictures of text. To read them by OCR, run "
            "pip install 'gircse-search[ocr]' on the server, then retry all failed documents; or run OCR on it "
            "elsewhere (for instance with ocrmypdf) and add the result."
        )
    return ServerLimitError(
        f"This PDF has no text on its {page_count:,} pages, and none could be recognised (pages {ranges(unread)}). "
        "Scan it again, larger, straighter or with more contrast. GIRCSE_MAX_RECOGNIZED_PAGES limits how many are "
        "tried."
    )


def _unreadable(number: int, error: Exception) -> DocumentError:
    if isinstance(error, DocumentError):
        return error
    return DocumentError(
        f"Page {number} of this PDF cannot be read ({type(error).__name__}: {error}). {pdf_pages.MEND}"
    )


def _properties(document: PdfDocument) -> tuple[str, dict[str, MetadataValue]]:
    properties = {key: clean_text(value).strip() for key, value in document.get_metadata_dict(skip_empty=True).items()}
    title, author = properties.get("Title", ""), properties.get("Author", "")
    if title.lower() in _NO_TITLES or title.startswith("Microsoft Word - ") or is_stamp(title):
        title = ""
    author = "" if author.lower() in _NO_TITLES else author
    return title, core_metadata(author, _date(properties.get("CreationDate", "")), _date(properties.get("ModDate", "")))


def _date(text: str) -> datetime | None:
    """The date of a property; None for a malformed one, which must not fail the document."""
    match = _DATE.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) if part else 0 for part in match.groups())
    try:
        return datetime(year, month or 1, day or 1, hour, minute, second)
    except ValueError:
        return None
