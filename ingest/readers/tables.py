"""Tables: each row becomes a paragraph `Header: value; Header: value`, so that every chunk shows its headers."""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from itertools import chain
from typing import BinaryIO

from app.errors import DocumentError
from app.search.sentences import sentence_spans
from app.types.texts import ROW, Mark
from ingest.readers.limits import ReadLimits, check_length
from ingest.readers.parts import Block, Opened, Piece
from ingest.readers.text import clean_text, decoded, lines_of

_DELIMITERS = ",;\t|"
# Characters. Two such paragraphs fit a chunk of the default size, so that each chunk can begin with one.
_MAX_PARAGRAPH = 300
_MAX_KEY = 80


def read_csv(stream: BinaryIO, limits: ReadLimits) -> Opened:
    csv.field_size_limit(max(csv.field_size_limit(), limits.max_characters))
    return Opened("", {}, block_pieces(_csv_rows(lines_of(decoded(stream)))))


def _csv_rows(lines: Iterator[str]) -> Iterator[Block]:
    first_line = next((line for line in lines if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first_line.lstrip().count)
    try:
        yield from render_rows(csv.reader(chain([first_line], lines), delimiter=delimiter))
    except csv.Error as error:
        raise DocumentError(f"This table cannot be read ({error}). Export it again as CSV in UTF-8.") from error


def render_rows(rows: Iterable[Sequence[object]]) -> Iterator[Block]:
    """Takes the first row that is not empty as headers; a table of that row alone is given back as it is."""
    filled = (cells for cells in ([_cell_text(value) for value in row] for row in rows) if any(cells))
    headers = next(filled, [])
    names = [name or f"Column {column}" for column, name in enumerate(headers, start=1)]
    row_count = 0
    for cells in filled:
        row_count += 1
        names += [f"Column {column + 1}" for column in range(len(names), len(cells))]
        if row := "\n\n".join(render_fields(zip(names, cells, strict=False))):
            yield Block(row, ROW)
    if not row_count and headers:
        yield Block("; ".join(filter(None, headers)), ROW)


def render_fields(fields: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A record as `name: value; name: value`.

    A record too long for a chunk becomes several paragraphs: each names its values, and begins with the first field,
    which mostly tells what the record is about.
    """
    parts: list[str] = []
    for name, value in fields:
        if len(value) > _MAX_PARAGRAPH:
            parts.extend(_pieces(name, value))
        elif value and not value.isspace():
            value = " ".join(value.split()) if "\n" in value else value
            parts.append(f"{name}: {value}" if name else value)
    key = parts[0] if parts and len(parts[0]) <= _MAX_KEY else ""
    paragraph = ""
    for part in parts:
        if not paragraph:
            paragraph = part
        elif paragraph == key or len(paragraph) + len(part) <= _MAX_PARAGRAPH:
            paragraph += f"; {part}"
        else:
            yield paragraph
            paragraph = f"{key}; {part}" if key else part
    if paragraph:
        yield paragraph


def join_blocks(blocks: Iterable[Block], limits: ReadLimits) -> tuple[str, tuple[Mark, ...]]:
    """Stops as soon as the text is too long: repeated headers can make much of a small file."""
    kept: list[str] = []
    marks: list[Mark] = []
    length = 0
    for block in blocks:
        text = clean_text(block.text)
        if block.level is not None and text:
            marks.append(Mark(length, length + len(text), block.level))
        length += len(text) + 2
        check_length(length, limits)
        kept.append(text)
    return "\n\n".join(kept), tuple(marks)


def block_pieces(blocks: Iterable[Block]) -> Iterator[Piece]:
    """The same as `join_blocks`, for documents of any length."""
    for number, block in enumerate(blocks):
        if number:
            yield Piece("\n\n")
        yield Piece(clean_text(block.text), level=block.level)


def _pieces(name: str, value: str) -> Iterator[str]:
    """A long value, cut at sentence ends where there are any, else at spaces; each piece behind its name."""
    label = f"{name}: " if name else ""
    ends = [end for _, end in sentence_spans(value)]
    start = 0
    while start < len(value):
        limit = start + _MAX_PARAGRAPH
        last = bisect_right(ends, limit) - 1
        end = ends[last] if last >= 0 and ends[last] > start else value.rfind(" ", start + 1, limit)
        end = end if end > start else limit
        if piece := " ".join(value[start:end].split()):
            yield label + piece
        start = end


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return " ".join(str(value).split())
