"""A text on its way from its file to chunks: what readers tell of it, and the spans that it is split into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.types.documents import ChunkKind, Metadata

# As levels of a mark, besides those of headings: one row of a table, or one record; a menu or footer of a web page.
ROW, NAVIGATION = 0, 7


class Mark(NamedTuple):
    """Characters [start, end) of a text are a heading of this level (1 to 6, the outermost 1), a row or a menu."""

    start: int
    end: int
    level: int

    @property
    def is_heading(self) -> bool:
        return self.level not in (ROW, NAVIGATION)


class Cell(NamedTuple):
    """A value within a row: its name and what stands between are characters [start, value), itself [value, end).
    Pieces of a long value have the same column."""

    start: int
    value: int
    end: int
    column: int


POSITIONS = 10_000  # so many steps from one edge of a page to the other


class Word(NamedTuple):
    """Characters [start, end) of a text stand there on their page, which counts from 1; places in steps of a
    `POSITIONS`th of its width and height. `confidence`: of text recognition, in percent."""

    start: int
    end: int
    page: int
    left: int
    top: int
    right: int
    bottom: int
    confidence: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a text, or a stretch of it, is laid out, in the order of the text."""

    page_starts: Sequence[int] = ()
    marks: Sequence[Mark] = ()
    cells: Sequence[Cell] = ()
    words: Sequence[Word] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a document's text: characters [start, end) of the extracted text; `page` counts from 1, `headings`
    are those above it, from the outermost."""

    text: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    kind: ChunkKind = ChunkKind.PROSE
    has_tokens: bool = True  # False: the model knows none of its characters, so it cannot be embedded
    page_starts: tuple[int, ...] = ()  # characters of this text at which further pages begin


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """What a reader found. `page_starts[i]` is the character at which page i+1 begins; empty without pages. `marks` do
    not overlap, and come in the order of the text, as `cells` and `words` do."""

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
    """A stretch of a document's text, with the characters of the whole text at which pages begin in it, and the marks
    that begin in it, which may go on in the next part; so may cells and words."""

    text: str
    page_starts: Sequence[int] = ()
    marks: Sequence[Mark] = ()
    cells: Sequence[Cell] = ()
    words: Sequence[Word] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """What a reader tells of a document besides its text."""

    title: str
    media_type: str
    metadata: Metadata = field(default_factory=dict)
    is_titled: bool = True  # otherwise the title is only the name of its file
