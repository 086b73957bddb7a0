"""A document's text as it leaves a reader: pieces of any size, cut into parts of bounded size.

Where a part ends depends only on the text nearby. So soon after an edit the parts, and with them the chunks, are as
before. A text that fits into one part is not cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar, cast

from app.types.documents import Metadata
from app.types.texts import Cell, ExtractedText, Mark, TextPart, Word
from ingest.splitter import CONTEXT, most_distinct

PART_CHARACTERS = 1_000_000
LONGEST_PART = PART_CHARACTERS + CONTEXT
# Breaks in order of preference: after a blank line, a line, a sentence, a word.
_BLANK_LINES = re.compile(r"\n\s*\n")
_BREAKS = tuple(map(re.compile, (r"\n\s*\n\s*", r"\n", r"(?<=[.!?…])\s+|[。！？｡]+\s*", r"\s+")))


class Block(NamedTuple):
    """A paragraph, or several separated by blank lines (a long table row). `level` is the level of its mark; None: no
    mark."""

    text: str
    level: int | None = None
    cells: tuple[Cell, ...] = ()  # offsets from the start of the block


def blocks_of(text: str) -> Iterator[Block]:
    """The paragraphs of another file's text, without marks."""
    return map(Block, filter(None, map(str.strip, _BLANK_LINES.split(text))))


@dataclass(frozen=True, slots=True)
class Piece:
    """The next stretch of text. Offsets of `cells` and `words` count from its start; in a piece longer than a part,
    they are dropped."""

    text: str
    begins_page: bool = False
    level: int | None = None  # of the mark over the whole piece; None: no mark
    cells: Sequence[Cell] = ()
    words: Sequence[Word] = ()
    share: float | None = None  # of the document that is parsed, 0 to 1; set before a page with slow text recognition


@dataclass(frozen=True, slots=True)
class Opened:
    """A document whose reader has been opened. Its text is parsed while `pieces` is iterated."""

    title: str
    metadata: Metadata  # iterating `pieces` may add to it
    pieces: Iterator[Piece]
    late_title: Callable[[], str] | None = None  # returns the title once `pieces` is exhausted


def pieces_of(document: ExtractedText) -> Iterator[Piece]:
    text, marks = document.text, iter(document.marks)
    cells, words = _Shared(document.cells), _Shared(document.words)

    def piece(start: int, end: int, *, begins_page: bool = False, level: int | None = None) -> Piece:
        return Piece(text[start:end], begins_page, level, cells.take(start, end), words.take(start, end))

    mark = next(marks, None)
    for page, (start, end) in enumerate(pairwise([0, *document.page_starts, len(text)])):
        begins_page, at = page > 0, start
        while mark and mark.start < end:
            if at < mark.start or begins_page:
                yield piece(at, mark.start, begins_page=begins_page)
            yield piece(mark.start, mark.end, level=mark.level)
            at, mark, begins_page = mark.end, next(marks, None), False
        yield piece(at, end, begins_page=begins_page)


Item = TypeVar("Item", bound=Cell | Word)


def moved(item: Item, by: int) -> Item:
    if isinstance(item, Cell):  # without the slower _replace: a table has very many
        return cast(Item, Cell(item.start + by, item.value + by, item.end + by, item.column))
    return cast(Item, item._replace(start=item.start + by, end=item.end + by))


class _Shared(Generic[Item]):
    """Items of a text, ascending. `take` removes those of the next stretch, with offsets from its start."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._next = 0

    def take(self, start: int, end: int) -> tuple[Item, ...]:
        first = self._next
        while self._next < len(self._items) and self._items[self._next].start < end:
            self._next += 1
        return tuple(moved(item, -start) for item in self._items[first : self._next])


class _Held:
    """Text for the next parts, with pages, marks, cells and words at offsets of the whole text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.length = self.begin = 0
        self.pages: list[int] = []
        self._marks: list[Mark] = []
        self._cells: list[Cell] = []
        self._words: list[Word] = []

    def note(self, piece: Piece, *, is_whole: bool) -> None:
        at = self.begin + self.length
        if piece.begins_page:
            self.pages.append(at)
        if piece.level is not None and piece.text:
            self._marks.append(Mark(at, at + len(piece.text), piece.level))
        if is_whole:
            self._cells.extend(moved(cell, at) for cell in piece.cells)
            self._words.extend(moved(word, at) for word in piece.words)

    def add(self, text: str) -> None:
        self.texts.append(text)
        self.length += len(text)

    def take(self, text: str, cut: int) -> TextPart:
        end = self.begin + cut
        part = TextPart(
            text[:cut],
            tuple(page for page in self.pages if page < end),
            tuple(mark for mark in self._marks if mark.start < end),
            tuple(cell for cell in self._cells if cell.start < end),
            tuple(word for word in self._words if word.start < end),
        )
        self.pages = self.pages[len(part.page_starts) :]
        self._marks = self._marks[len(part.marks) :]
        self._cells = self._cells[len(part.cells) :]
        self._words = self._words[len(part.words) :]
        self.texts, self.length, self.begin = [text[cut:]], self.length - cut, end
        return part

    def rest(self) -> TextPart:
        return TextPart("".join(self.texts), self.pages, self._marks, self._cells, self._words)


def cut_parts(pieces: Iterable[Piece], size: int = PART_CHARACTERS) -> Iterator[TextPart]:
    """Yields parts of about `size` characters, cut in the last tenth: at a page start, else at the best break.

    The offsets in each part count from the start of the whole text.
    """
    held = _Held()
    for piece in pieces:
        held.note(piece, is_whole=len(piece.text) <= size)
        for low in range(0, len(piece.text), size):
            held.add(piece.text[low : low + size])
            while held.length > size + CONTEXT:
                text = "".join(held.texts)
                yield held.take(text, _choose_cut(text, [page - held.begin for page in held.pages], size))
    yield held.rest()


def _choose_cut(text: str, pages: Sequence[int], size: int) -> int:
    low = size - size // 10
    if cut := most_distinct(text, (page for page in pages if low <= page <= size)):
        return cut
    for pattern in _BREAKS:
        ends = (match.end() for match in pattern.finditer(text, low, size))
        if cut := most_distinct(text, ends):
            return cut
    return size
