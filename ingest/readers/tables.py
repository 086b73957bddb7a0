"""Records become paragraphs `name: value; name: value`, so that each chunk contains the names. Also joins blocks to a
text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple

from app.types.texts import ROW, Cell, Mark
from embedder.text.sentences import sentence_spans
from ingest.readers.limits import ReadLimits, check_length
from ingest.readers.parts import Block, Piece, moved
from ingest.readers.text import clean_text

# In characters. Two such paragraphs fit into a chunk of default size, so that each chunk can begin with one.
_MAX_PARAGRAPH = 300
_MAX_KEY = 80


def record_block(fields: Iterable[tuple[str, str]], columns: Iterable[int] | None = None) -> Block:
    """The paragraphs of a record as one block of level ROW. `columns`: see `render_fields`."""
    text, cells = "", []
    for paragraph in render_fields(fields, columns):
        text += "\n\n" if text else ""
        cells += [moved(cell, len(text)) for cell in paragraph.cells]
        text += paragraph.text
    return Block(text, ROW, tuple(cells))


def render_fields(fields: Iterable[tuple[str, str]], columns: Iterable[int] | None = None) -> Iterator[Block]:
    """A record as `name: value; name: value`. `columns` has the columns of the fields, which are 0, 1, 2 … without it.

    A record too long for a chunk is split into paragraphs. Each names its values and begins with the first field, which
    usually identifies the record.
    """
    parts: list[_Field] = []
    for column, (name, value) in zip(count() if columns is None else columns, fields, strict=False):
        label = f"{name}: " if name else ""
        if len(value) > _MAX_PARAGRAPH:
            parts.extend(_Field(label, piece, column) for piece in _pieces(value))
        elif value and not value.isspace():
            parts.append(_Field(label, " ".join(value.split()) if "\n" in value else value, column))
    key = parts[0] if parts and len(parts[0]) <= _MAX_KEY else None
    paragraph = _Paragraph()
    for part in parts:
        is_key_alone = key is not None and paragraph.text == key.label + key.value
        if paragraph.text and not is_key_alone and len(paragraph.text) + len(part) > _MAX_PARAGRAPH:
            yield paragraph.block()
            paragraph = _Paragraph()
            if key:
                paragraph.add(key, is_repeated=True)
        paragraph.add(part)
    if paragraph.text:
        yield paragraph.block()


class _Field(NamedTuple):
    label: str
    value: str
    column: int

    def __len__(self) -> int:
        return len(self.label) + len(self.value)


class _Paragraph:
    def __init__(self) -> None:
        self.text = ""
        self._cells: list[Cell] = []

    def add(self, field: _Field, *, is_repeated: bool = False) -> None:
        self.text += "; " if self.text else ""
        start, value = len(self.text), len(self.text) + len(field.label)
        self.text += field.label + field.value
        if not is_repeated:
            self._cells.append(Cell(start, value, len(self.text), field.column))

    def block(self) -> Block:
        return Block(self.text, cells=tuple(self._cells))


def join_blocks(blocks: Iterable[Block], limits: ReadLimits) -> Joined:
    """Joins blocks by blank lines. Raises DocumentError as soon as the text is too long: repeated headers can inflate a
    small file."""
    kept: list[str] = []
    marks: list[Mark] = []
    cells: list[Cell] = []
    length = 0
    for block in blocks:
        text = clean_text(block.text)
        if block.level is not None and text:
            marks.append(Mark(length, length + len(text), block.level))
        if text == block.text:
            cells.extend(moved(cell, length) for cell in block.cells)
        length += len(text) + 2
        check_length(length, limits)
        kept.append(text)
    return Joined("\n\n".join(kept), tuple(marks), tuple(cells))


class Joined(NamedTuple):
    text: str
    marks: tuple[Mark, ...]
    cells: tuple[Cell, ...]


def block_pieces(blocks: Iterable[Block]) -> Iterator[Piece]:
    """As `join_blocks`, but lazily and without a limit, for documents of any length."""
    for number, block in enumerate(blocks):
        if number:
            yield Piece("\n\n")
        text = clean_text(block.text)
        yield Piece(text, level=block.level, cells=block.cells if text == block.text else ())


def _pieces(value: str) -> Iterator[str]:
    """A long value, cut at sentence ends, else at spaces, at most 300 characters each."""
    ends = [end for _, end in sentence_spans(value)]
    start = 0
    while start < len(value):
        limit = start + _MAX_PARAGRAPH
        last = bisect_right(ends, limit) - 1
        end = ends[last] if last >= 0 and ends[last] > start else value.rfind(" ", start + 1, limit)
        end = end if end > start else limit
        if piece := " ".join(value[start:end].split()):
            yield piece
        start = end
