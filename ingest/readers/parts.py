"""A document's text on its way out of a reader: pieces of any size, cut into parts of bounded size.

Where a part ends depends on the text near that place alone, so that after an edit the parts, and so the chunks, are
soon the same as before. A text that fits one part is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from app.types.documents import Metadata
from app.types.texts import ExtractedText, Mark, TextPart
from ingest.splitter import CONTEXT, most_distinct

PART_CHARACTERS = 1_000_000
LONGEST_PART = PART_CHARACTERS + CONTEXT
# In the order of liking: after a blank line, a line, a sentence, a word.
_BREAKS = tuple(map(re.compile, (r"\n\s*\n\s*", r"\n", r"(?<=[.!?…])\s+|[。！？｡]+\s*", r"\s+")))


class Block(NamedTuple):
    """A paragraph, or several with blank lines between them, as the rows of a table that are long. `level` is that of
    its mark; None: it is plain text."""

    text: str
    level: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    begins_page: bool = False
    level: int | None = None  # of the mark that it gets, whole


@dataclass(frozen=True, slots=True)
class Opened:
    """What a reader knows of a document before it has read its text; the rest comes as it is asked for."""

    title: str
    metadata: Metadata
    pieces: Iterator[Piece]


def pieces_of(document: ExtractedText) -> Iterator[Piece]:
    text, marks = document.text, iter(document.marks)
    mark = next(marks, None)
    for page, (start, end) in enumerate(pairwise([0, *document.page_starts, len(text)])):
        begins_page, at = page > 0, start
        while mark and mark.start < end:
            if at < mark.start or begins_page:
                yield Piece(text[at : mark.start], begins_page)
            yield Piece(text[mark.start : mark.end], level=mark.level)
            at, mark, begins_page = mark.end, next(marks, None), False
        yield Piece(text[at:end], begins_page)


def cut_parts(pieces: Iterable[Piece], size: int = PART_CHARACTERS) -> Iterator[TextPart]:
    """Parts of about `size` characters: cut in the last tenth of that, at a page, else at the best break there is."""
    held: list[str] = []
    length = begin = 0  # of what is held; `begin` counts characters of the whole text
    pages: list[int] = []
    marks: list[Mark] = []
    for piece in pieces:
        if piece.begins_page:
            pages.append(begin + length)
        if piece.level is not None and piece.text:
            marks.append(Mark(begin + length, begin + length + len(piece.text), piece.level))
        for low in range(0, len(piece.text), size):
            held.append(piece.text[low : low + size])
            length += len(held[-1])
            while length > size + CONTEXT:
                text = "".join(held)
                cut = _choose_cut(text, [page - begin for page in pages], size)
                yield TextPart(
                    text[:cut],
                    tuple(page for page in pages if page < begin + cut),
                    tuple(mark for mark in marks if mark.start < begin + cut),
                )
                pages = [page for page in pages if page >= begin + cut]
                marks = [mark for mark in marks if mark.start >= begin + cut]
                held, length, begin = [text[cut:]], length - cut, begin + cut
    yield TextPart("".join(held), tuple(pages), tuple(marks))


def _choose_cut(text: str, pages: Sequence[int], size: int) -> int:
    low = size - size // 10
    if found := most_distinct(text, (page for page in pages if low <= page <= size)):
        return found
    for pattern in _BREAKS:
        ends = (match.end() for match in pattern.finditer(text, low, size))
        if found := most_distinct(text, ends):
            return found
    return size
