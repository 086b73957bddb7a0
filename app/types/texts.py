"""Texts between parsing and chunking: the output of parsers, and the spans of a split text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.types.documents import ChunkKind, Metadata

# Levels of a mark besides those of headings: a table row or record; a menu or footer of a web page.
ROW, NAVIGATION = 0, 7


class Mark(NamedTuple):
    """Marks characters [start, end) of a text as a heading (level 1 to 6, 1 the outermost), a row or a menu."""

    start: int
    end: int
    level: int

    @property
    def is_heading(self) -> bool:
        return self.level not in (ROW, NAVIGATION)


class Cell(NamedTuple):
    """A value within a row: characters [start, value) are the column's name and separator, [value, end) the value.
    Pieces of a long value have the same column."""

    start: int
    value: int
    end: int
    column: int


POSITIONS = 10_000  # coordinate units per width and per height of a page


class Word(NamedTuple):
    """Position of characters [start, end) of a text on a page, which counts from 1. Coordinates are in
    1/`POSITIONS` of the page's width and height. `confidence`: of text recognition, in percent."""

    start: int
    end: int
    page: int
    left: int
    top: int
    right: int
    bottom: int
    confidence: int


@dataclass(frozen=True, slots=True)
class TextLayout:
    """Layout of a text or a part of it; all sequences are in the order of the text."""

    page_starts: Sequence[int] = ()
    marks: Sequence[Mark] = ()
    cells: Sequence[Cell] = ()
    words: Sequence[Word] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a document: characters [start, end) of the extracted text. `page` counts from 1; `headings` are those
    above it, the outermost first."""

    text: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    kind: ChunkKind = ChunkKind.PROSE
    has_tokens: bool = True  # False: the model knows none of its characters and cannot embed it
    page_starts: tuple[int, ...] = ()  # characters of this text at which further pages begin


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """Output of a parser. `page_starts[i]` is the character at which page i+1 begins; empty without pages. `marks` do
    not overlap. `marks`, `cells` and `words` are in the order of the text."""

    text: str
    title: str
    media_type: str
    metadata: Metadata = field(default_factory=dict)
    page_starts: Sequence[int] = ()
    marks: Sequence[Mark] = ()
    cells: Sequence[Cell] = ()
    words: Sequence[Word] = ()


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a document's text, with the pages, marks, cells and words that begin in it. Positions refer to the
    whole text; a mark, cell or word may continue in the next part."""

    text: str
    page_starts: Sequence[int] = ()
    marks: Sequence[Mark] = ()
    cells: Sequence[Cell] = ()
    words: Sequence[Word] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """A parser's output besides the text."""

    title: str
    media_type: str
    metadata: Metadata = field(default_factory=dict)
    is_titled: bool = True  # False: the title is only the file's name
