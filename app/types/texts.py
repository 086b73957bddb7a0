"""A text on its way from its file to chunks: what readers tell of it, and the spans that it is split into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.types.documents import ChunkKind, Metadata

ROW = 0  # as the level of a mark: one row of a table, or one record


class Mark(NamedTuple):
    """Characters [start, end) of a text are a heading of this level (1 to 6, the outermost 1), or a row."""

    start: int
    end: int
    level: int


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


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """What a reader found. `page_starts[i]` is the character at which page i+1 begins; empty without pages. `marks` do
    not overlap, and come in the order of the text."""

    text: str
    title: str
    media_type: str
    metadata: Metadata = field(default_factory=dict)
    page_starts: Sequence[int] = ()
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, slots=True)
class TextPart:
    """A stretch of a document's text, with the characters of the whole text at which pages begin in it, and the marks
    that begin in it, which may go on in the next part."""

    text: str
    page_starts: Sequence[int] = ()
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """What a reader tells of a document besides its text."""

    title: str
    media_type: str
    metadata: Metadata = field(default_factory=dict)
    is_titled: bool = True  # otherwise the title is only the name of its file
