"""PDF: the text layer page by page, with the character at which each page begins."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from typing import BinaryIO, TypeVar

from pypdf import PageObject, PasswordType, PdfReader

from app.errors import DocumentError
from app.types.documents import MetadataValue
from ingest.readers.errors import parser_errors
from ingest.readers.limits import ReadLimits
from ingest.readers.package import core_metadata
from ingest.readers.parts import Opened, Piece
from ingest.readers.text import clean_text

T = TypeVar("T")

_MEND = "Fetch it again, or open it in a PDF viewer and print it to a new PDF."
_TAIL_BYTES = 4096
_PAGE_BREAK = "\n\n"
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[^\W\d_A-Z])")
_FULL_LINE = 0.8  # of the page's longest line: such a line ended because there was no room
_MAX_TITLE_LINE = 120
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
    pages = _page_texts(reader)
    head: list[str] = []
    while not (head and head[-1].strip()):
        page = next(pages, None)
        if page is None:
            raise DocumentError(
                f"This PDF has no text on its {page_count:,} pages: it holds pictures of text. "
                "Run OCR on it (for instance with ocrmypdf) and add the result."
            )
        head.append(page)
    title, metadata = _properties(reader)
    title = _largest_text(reader.pages[len(head) - 1]) or title or _first_line(head[-1])
    return Opened(title, {**metadata, "pages": page_count}, _pieces(chain(head, pages)))


def _pieces(pages: Iterable[str]) -> Iterator[Piece]:
    for number, page in enumerate(pages):
        if number:
            yield Piece(_PAGE_BREAK)
        yield Piece(page, begins_page=True)


def _page_texts(reader: PdfReader) -> Iterator[str]:
    for number, page in enumerate(reader.pages, start=1):
        try:
            text = page.extract_text()
        except parser_errors() as error:
            raise DocumentError(
                f"Page {number} of this PDF cannot be read ({type(error).__name__}: {error}). {_MEND}"
            ) from error
        yield _unwrap(clean_text(text))


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
