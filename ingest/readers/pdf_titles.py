"""The title of a PDF: from the largest text of its first page, its properties, its outline, a large
running header, or its first line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from pypdfium2 import PdfDocument, PdfiumError

from ingest.readers.hyphens import Hyphens
from ingest.readers.pdf_layout import Line, largest_lines, layout_of
from ingest.readers.pdf_words import PageWord
from ingest.readers.text import clean_text
from ingest.titles import choose_title

_MAX_TITLE, _FEWEST_LETTERS = 200, 3
_MAX_TITLE_LINE = 120
_LETTERS = re.compile(r"[^\W\d_]")
_MOST_TRIED = 5
_PAGES_COMPARED = 3  # after the first page with text: headers of odd pages stand on the third
_NEAR = 3.0  # points between the places of a running header on two pages
_SAME_SIZE = 0.5  # points
# Lines of archives and publishers, in the margin or above the title; numbers of pages; marks of drafts and copies.
_STAMP = re.compile(
    r"(?:arxiv|hal|doi|issn|isbn|preprint)\s*[:\-]|https?://|www\.|doi\.org|downloaded |"
    r"(?:page|seite|p\.)\s*\d|[\W\d]+$|\W*(?=[ivxlc])(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})\W*$|"
    r"accepted |received |published |copyright|©|\(c\)|"
    r"\W*(?:draft|confidential|copy|sample|void|paid|approved|entwurf|vertraulich|kopie|muster)\W*$",
    re.IGNORECASE,
)


def is_stamp(line: str) -> bool:
    return bool(_STAMP.match(line))


class PdfTitles:
    """Candidates for the title, from the words that the pages themselves have, without those of annotations."""

    def __init__(self, document: PdfDocument, declared: str) -> None:
        self._document = document
        self._declared = declared
        self._recognized: tuple[str, str] | None = None
        self._lines: list[Line] = []  # of the first page with text
        self._later: dict[str, list[tuple[float, float]]] = defaultdict(list)  # text → its places on the next pages
        self._pages = 0

    def add_page(self, words: Sequence[PageWord]) -> None:
        """Adds the words of a page, in order of the pages."""
        if not words or self._recognized or self._pages > _PAGES_COMPARED:
            return
        lines = layout_of(words, Hyphens()).lines
        if not self._pages:
            self._lines = lines
        else:
            for line in lines:
                self._later[_without_numbers(line.text)].append((line.top, _size(line)))
        self._pages += 1

    def add_recognized(self, title: str, text: str, added: Sequence[PageWord]) -> None:
        """Adds the title and the text that were recognised on the first page with text, without what only annotations
        `added` there."""
        if not self._pages and self._recognized is None:
            values = _letters("".join(word.text for word in added))
            own = [line for line in text.split("\n") if _letters(line) not in values]
            self._recognized = "" if _letters(title) in values else title, "\n".join(own)

    @property
    def best(self) -> str:
        """The title; empty if nothing names the document. A running header in the largest letters is better than the
        first line, and may be a title that each page repeats."""
        largest, first = self._recognized or ("", "")
        running = ""
        if self._recognized is None:
            lines = [line for line in self._lines if not self._is_running(line)]
            largest, first = _largest(lines), "\n".join(line.text for line in lines)
            running = _largest(self._lines)
        candidates = (largest, self._declared, _outlined(self._document), running, _first_line(first))
        return choose_title(filter(None, candidates))

    def _is_running(self, line: Line) -> bool:
        """Whether the line stands at the same place, in the same size, on one of the next pages."""
        places = self._later.get(_without_numbers(line.text), ())
        return any(abs(top - line.top) <= _NEAR and abs(size - _size(line)) <= _SAME_SIZE for top, size in places)


def _largest(lines: Sequence[Line]) -> str:
    """The largest text that is no stamp; empty without one that is larger than most."""
    left = list(lines)
    for _ in range(_MOST_TRIED):
        run = largest_lines(left)
        title = " ".join(clean_text(" ".join(line.text for line in run)).split())
        if not run:
            break
        if len(title) <= _MAX_TITLE and len(_LETTERS.findall(title)) >= _FEWEST_LETTERS and not is_stamp(title):
            return title
        taken = set(map(id, run))
        left = [line for line in left if id(line) not in taken]
    return ""


def _outlined(document: PdfDocument) -> str:
    """The one entry of the outline that all others stand below; empty if there are several."""
    try:
        entries = list(_top_entries(document))
    except (PdfiumError, ValueError):
        return ""
    return entries[0] if len(entries) == 1 else ""


def _top_entries(document: PdfDocument) -> Iterator[str]:
    for entry in document.get_toc(max_depth=1):
        yield clean_text(entry.get_title()).strip()


def _first_line(text: str) -> str:
    lines = (line.strip() for line in clean_text(text).split("\n"))
    line = next((line for line in lines if line and not is_stamp(line)), "")
    return line if len(line) <= _MAX_TITLE_LINE else ""


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _without_numbers(text: str) -> str:
    return " ".join(re.sub(r"\d+", "", text).casefold().split())


def _size(line: Line) -> float:
    return max(word.size for word in line.words)
