"""PDF: the text page by page, of the text layer or recognised, with the character at which each page begins."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import BinaryIO, TypeVar

from PIL import Image
from pypdf import PageObject, PasswordType, PdfReader
from pypdfium2 import PdfDocument, PdfPage

from app.errors import DocumentError
from app.types.documents import MetadataValue
from ingest.readers import pdf_pages
from ingest.readers.errors import parser_errors
from ingest.readers.limits import ReadLimits
from ingest.readers.package import core_metadata
from ingest.readers.parts import Opened, Piece
from ingest.readers.recognized_lines import READ_SIDE, is_installed
from ingest.readers.recognized_pages import RecognizedPages, has_ink, ranges
from ingest.readers.text import clean_text

T = TypeVar("T")

_MEND = "Fetch it again, or open it in a PDF viewer and print it to a new PDF."
_TAIL_BYTES = 4096
_PAGE_BREAK = "\n\n"
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[^\W\d_A-Z])")
_FULL_LINE = 0.8  # of the page's longest line: such a line ended because there was no room
_MAX_TITLE_LINE = 120
_FEW_LETTERS = 50  # a page with fewer may be a scan with a stamp on it
_LEAST_SIDE = 1_000  # pixels of what is recognised: its inches may be wrong
_SCAN = 0.3  # of its area are pictures
_LARGER = 1.15  # than the letters of most of the text: such are those of a title
_MAX_TITLE, _FEWEST_LETTERS = 200, 3
_LETTERS = re.compile(r"[^\W\d_]")
_NO_TITLES = ("", "untitled", "unspecified", "(anonymous)", "anonymous")


def read_pdf(stream: BinaryIO, limits: ReadLimits) -> Opened:
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
    if b"startxref" not in stream.read():
        raise DocumentError(f"This PDF is cut short: its end is missing. {_MEND}")
    try:
        reader = PdfReader(stream)
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise DocumentError("This PDF is protected by a password. Save a copy without one and add that.")
        page_count = len(reader.pages)
    except parser_errors() as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"This PDF is damaged ({type(error).__name__}: {error}). {_MEND}") from error
    if page_count > limits.max_pages:
        raise DocumentError(
            f"This PDF has {page_count:,} pages; the limit is {limits.max_pages:,}. Split it into parts, "
            "or raise GIRCSE_MAX_DOCUMENT_PAGES."
        )
    title, metadata = _properties(reader)
    metadata["pages"] = page_count
    pages = _Pages(reader, stream, limits, metadata)
    return Opened("", metadata, pages.pieces(), late_title=lambda: pages.largest or title or pages.first_line)


class _Pages:
    """Their text, by the text layer or, where that is missing, by recognition; and what names the document."""

    def __init__(
        self, reader: PdfReader, stream: BinaryIO, limits: ReadLimits, metadata: dict[str, MetadataValue]
    ) -> None:
        self._reader = reader
        self._stream = stream
        self._metadata = metadata
        self._recognized = RecognizedPages(limits)
        self._drawn = ExitStack()
        self._document: PdfDocument | None = None
        self.largest = self.first_line = ""

    def pieces(self) -> Iterator[Piece]:
        has_text, count = False, len(self._reader.pages)
        with self._drawn:
            for number, page in enumerate(self._reader.pages, start=1):
                if number > 1:
                    yield Piece(_PAGE_BREAK)
                text = _page_text(page, number)
                picture = self._picture(text, number)
                if picture is None:
                    piece = Piece(text, begins_page=True)
                else:
                    yield Piece("", share=(number - 1) / count)
                    found = self._recognized.page(picture, number)
                    piece = Piece(found.text or text, begins_page=True, words=found.words)
                if piece.text.strip() and not has_text:
                    self._name(page, piece)
                has_text = has_text or bool(piece.text.strip())
                yield piece
        self._recognized.note(self._metadata)
        if not has_text:
            raise _no_text(count, self._recognized.unread)

    def _name(self, page: PageObject, piece: Piece) -> None:
        self.largest = self._recognized.title if piece.words else _largest_text(page)
        self.first_line = _first_line(piece.text)

    def _picture(self, text: str, number: int) -> Image.Image | None:
        """Of a page that lacks text and is to be recognised."""
        if len(_LETTERS.findall(text)) >= _FEW_LETTERS:
            return None
        try:
            with pdf_pages.page_of(self._pdfium(), number) as page:
                is_scan = pdf_pages.share_of_pictures(page) >= _SCAN
                picture = pdf_pages.draw(page, width=_width(page)) if is_scan or not text else None
        except DocumentError:  # which only the one who draws finds damaged
            if not text:
                self._recognized.skip(number)
            return None
        if picture is None or not has_ink(picture):
            return None
        if not is_installed() or not self._recognized.has_left:
            self._recognized.skip(number)
            return None
        return picture

    def _pdfium(self) -> PdfDocument:
        if self._document is None:
            self._document = self._drawn.enter_context(pdf_pages.opened(self._stream))
        return self._document


def _width(page: PdfPage) -> int:
    """Pixels: at 200 dots an inch, as far as what is read may be so large."""
    across, down = page.get_size()
    longer = max(across, down, 1.0)
    return max(1, round(across * min(READ_SIDE, max(_LEAST_SIDE, longer * 200 / 72)) / longer))


def _no_text(page_count: int, unread: Sequence[int]) -> DocumentError:
    if not unread:
        return DocumentError(f"This PDF has no text on its {page_count:,} pages: they are blank.")
    if not is_installed():
        return DocumentError(
            f"This PDF has no text on its {page_count:,} pages: it holds pictures of text. To read them by OCR, run "
            "pip install 'gircse-search[ocr]' on the server, then retry the job; or run OCR on it elsewhere (for "
            "instance with ocrmypdf) and add the result."
        )
    return DocumentError(
        f"This PDF has no text on its {page_count:,} pages, and none could be recognised (pages {ranges(unread)}). "
        "Scan it again, larger, straighter or with more contrast. GIRCSE_MAX_RECOGNIZED_PAGES limits how many are "
        "tried."
    )


def _page_text(page: PageObject, number: int) -> str:
    try:
        text = page.extract_text()
    except parser_errors() as error:
        raise DocumentError(
            f"Page {number} of this PDF cannot be read ({type(error).__name__}: {error}). {_MEND}"
        ) from error
    return _unwrap(clean_text(text))


def _unwrap(page: str) -> str:
    """Joins the lines of a paragraph, so that sentences do not end where the paper did."""
    page = _HYPHENATED.sub("", page)
    lines = [line.strip() for line in page.split("\n")]
    full = _FULL_LINE * max(map(len, lines))
    joined: list[str] = []
    goes_on = False
    for line in lines:
        if goes_on and line:
            joined[-1] += " " + line
        else:
            joined.append(line)
        goes_on = len(line) >= full and not line.endswith((".", "!", "?", ":", "。", "！", "？"))
    return "\n".join(joined).strip()


def _properties(reader: PdfReader) -> tuple[str, dict[str, MetadataValue]]:
    information = _courtesy(lambda: reader.metadata)
    if information is None:
        return "", {}
    author = (_courtesy(lambda: information.author) or "").strip()
    created = _courtesy(lambda: information.creation_date)
    modified = _courtesy(lambda: information.modification_date)
    title = (_courtesy(lambda: information.title) or "").strip()
    if title.lower() in _NO_TITLES or title.startswith("Microsoft Word - "):
        title = ""
    return title, core_metadata("" if author.lower() in _NO_TITLES else author, created, modified)


def _courtesy(get: Callable[[], T]) -> T | None:
    """A malformed property, such as a date, must not cost the text."""
    try:
        return get()
    except parser_errors():
        return None


def _largest_text(page: PageObject) -> str:
    """What is set in the largest letters, where these are larger than most: the title, whatever its properties say."""
    pieces: list[tuple[float, str]] = []  # size of the letters, text

    def collect(text: str, transform: list[float], matrix: list[float], _: object, size: float) -> None:
        if text.strip():
            scale = math.hypot(matrix[1], matrix[3]) * math.hypot(transform[1], transform[3])
            pieces.append((round(size * scale, 1), text))

    _courtesy(lambda: page.extract_text(visitor_text=collect))
    sizes = Counter[float]()
    for size, text in pieces:
        sizes[size] += len(text)
    if not sizes or max(sizes) < _LARGER * sizes.most_common(1)[0][0]:
        return ""
    runs = (list(run) for is_largest, run in groupby(pieces, lambda piece: piece[0] == max(sizes)) if is_largest)
    title = " ".join(clean_text("".join(text for _, text in next(runs))).split())
    return title if len(title) <= _MAX_TITLE and len(_LETTERS.findall(title)) >= _FEWEST_LETTERS else ""


def _first_line(page: str) -> str:
    line = next(line.strip() for line in page.split("\n") if line.strip())
    return line if len(line) <= _MAX_TITLE_LINE else ""
