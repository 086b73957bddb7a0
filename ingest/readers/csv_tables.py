"""Delimited tables. Detects the delimiter from a sample of lines; an unclosed quote affects only its own line."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from typing import BinaryIO

from ingest.readers.grids import render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.parts import Opened
from ingest.readers.tables import block_pieces
from ingest.readers.text import decoded, lines_of

_DELIMITERS = ";\t|,"  # comma last, so that it loses ties: it also occurs in numbers and prose
_SAMPLE_LINES = 200
_SAMPLE_CHARACTERS = 1_000_000
_MAX_JOINED = 1_000  # lines that an open quote may join into one cell
_DECLARED = re.compile(r'\s*(?P<quote>"?)sep=(?P<sign>.)(?P=quote)\s*', re.I)  # Excel's first line


def read_csv(stream: BinaryIO, limits: ReadLimits, charset: str = "") -> Opened:
    """Opens a CSV or TSV file; the blocks of its rows are read one by one. `charset` is the declared one, or empty."""
    csv.field_size_limit(max(csv.field_size_limit(), limits.max_characters))
    texts = decoded(stream, charset)
    return Opened("", texts.metadata, block_pieces(render_rows(_rows(lines_of(texts)))))


def _rows(lines: Iterator[str]) -> Iterator[list[str]]:
    sample: list[str] = []
    while len(sample) < _SAMPLE_LINES and sum(map(len, sample)) < _SAMPLE_CHARACTERS:
        more = list(islice(lines, 1))
        if not more:
            break
        sample += more
    declared = _DECLARED.fullmatch(sample[0]) if sample else None
    delimiter = declared["sign"] if declared else _delimiter_of(sample)
    yield from split_rows(chain(sample[1:] if declared else sample, lines), delimiter)


def _delimiter_of(sample: list[str]) -> str:
    """The delimiter that gives most lines the same number of cells; among equals, the one with more cells."""

    def agreement(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for row in split_rows(iter(sample), delimiter) if any(row)]
        counts = Counter(width for width in widths if width > 1)
        width, lines = max(counts.items(), key=lambda item: (item[1] * (item[0] - 1), item[0]), default=(1, 0))
        return (lines / max(1, len(widths))) ** 2 * min(width - 1, 3), width

    return max(_DELIMITERS, key=agreement)


def split_rows(lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
    """Yields rows of cells. Lines joined by an open quote form one row only if the quote is closed properly."""
    waiting: list[str] = []  # lines read ahead for a row that they turned out not to belong to
    while True:
        line = waiting.pop() if waiting else next(lines, None)
        if line is None:
            return
        taken = [line]
        row = _parsed(taken, delimiter)
        while row is None:
            more = waiting.pop() if waiting else next(lines, None)
            if more is not None:
                taken.append(more)
            if more is None or '"' in more or len(taken) > _MAX_JOINED:
                row = _parsed(taken, delimiter)
                if row is None and (more is None or len(taken) > _MAX_JOINED or _is_malformed(taken, delimiter)):
                    waiting += reversed(taken[1:])
                    row = next(csv.reader([line], delimiter=delimiter, quoting=csv.QUOTE_NONE), [])
        yield row


def _parsed(lines: list[str], delimiter: str) -> list[str] | None:
    """The cells of one row. None if a quote is still open or is followed by other text."""
    if not any('"' in line for line in lines):
        return lines[0].rstrip("\n").split(delimiter) if len(lines) == 1 else None
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _is_malformed(lines: list[str], delimiter: str) -> bool:
    """Whether no further line could complete the row: a closing quote is followed by other text."""
    try:
        list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        return "expected after" in str(error)
    return True
