"""PDF: the text layer page by page, with the character at which each page begins."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TypeVar

from pypdf import PasswordType, PdfReader

from app.errors import DocumentError
from app.types import ExtractedText, MetadataValue
from ingest.readers.faults import PARSER_FAULTS
from ingest.readers.limits import ReadLimits, check_length
from ingest.readers.package import core_metadata
from ingest.readers.text import clean_text

T = TypeVar("T")

_MEND = "Fetch it again, or open it in a PDF viewer and print it to a new PDF."
_TAIL_BYTES = 4096
_PAGE_BREAK = "\n\n"
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[^\W\d_A-Z])")
_FULL_LINE = 0.8  # of the page's longest line: such a line ended because there was no room
_MAX_TITLE_LINE = 120
_NO_TITLES = ("", "untitled", "unspecified", "(anonymous)", "anonymous")


def read_pdf(data: bytes, limits: ReadLimits) -> ExtractedText:
    if b"startxref" not in data[-_TAIL_BYTES:]:
        raise DocumentError(f"This PDF is cut short: its end is missing. {_MEND}")
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise DocumentError("This PDF is protected by a password. Save a copy without one and add that.")
        page_count = len(reader.pages)
    except PARSER_FAULTS as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"This PDF is damaged ({type(error).__name__}: {error}). {_MEND}") from error
    if page_count > limits.max_pages:
        raise DocumentError(
            f"This PDF has {page_count:,} pages; the limit is {limits.max_pages:,}. Split it into parts."
        )
    pages = _page_texts(reader, limits)
    if not any(page.strip() for page in pages):
        raise DocumentError(
            f"This PDF has no text on its {page_count:,} pages: it holds pictures of text. "
            "Run OCR on it (for instance with ocrmypdf) and add the result."
        )
    starts = [0]
    for page in pages[:-1]:
        starts.append(starts[-1] + len(page) + len(_PAGE_BREAK))
    title, metadata = _properties(reader)
    return ExtractedText(
        text=_PAGE_BREAK.join(pages),
        title=title or _first_line(pages),
        media_type="application/pdf",
        metadata={**metadata, "pages": page_count},
        page_starts=tuple(starts),
    )


def _page_texts(reader: PdfReader, limits: ReadLimits) -> list[str]:
    pages: list[str] = []
    length = 0
    for number, page in enumerate(reader.pages, start=1):
        try:
            text = page.extract_text()
        except PARSER_FAULTS as error:
            raise DocumentError(
                f"Page {number} of this PDF cannot be read ({type(error).__name__}: {error}). {_MEND}"
            ) from error
        pages.append(_unwrap(clean_text(text)))
        length += len(pages[-1])
        check_length(length, limits)
    return pages


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
    except PARSER_FAULTS:
        return None


def _first_line(pages: list[str]) -> str:
    for page in pages:
        for line in page.split("\n"):
            if line.strip():
                return line.strip() if len(line) <= _MAX_TITLE_LINE else ""
    return ""
