"""Delimited tables. Detects the delimiter from a sample of lines; an unclosed quote affects only its own line."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise, takewhile
from typing import Any, BinaryIO

from ingest.readers.grids import SENTENCE_ENDS, render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.parts import Block, Opened
from ingest.readers.payloads import Payloads
from ingest.readers.tables import block_pieces
from ingest.readers.text import decoded, lines_of

_DELIMITERS = ";\t|,"  # comma last, so that it loses ties: it also occurs in numbers and prose
_SAMPLE_LINES = 200
_SAMPLE_CHARACTERS = 1_000_000
_MAX_JOINED = 1_000  # lines that an open quote may join into one cell
_NO_DELIMITER = "\x1f"  # separates nothing: quotes still hold a cell together
_LEAST_DIVIDED = 0.5  # of the lines from the first one that a delimiter divides
_MOSTLY = 0.8
_MOST_WORDS = 3  # of the name of a column
# Words that end the names of columns in English and German, and seldom stand in a list of names or places.
_COLUMN_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        name title city town country state region capital question answer term meaning definition description key value
        category type label language translation word author email phone address date status comment note role
        titel stadt ort land hauptstadt frage antwort begriff bedeutung beschreibung wert kategorie typ sprache
        übersetzung wort autor telefon adresse datum kommentar notiz vorname nachname
        """,
    )
)
_DECLARED = re.compile(r'\s*(?P<quote>"?)sep=(?P<sign>.)(?P=quote)\s*', re.I)  # Excel's first line


def read_csv(stream: BinaryIO, limits: ReadLimits, charset: str = "") -> Opened:
    """Opens a CSV or TSV file; the blocks of its rows are read one by one. `charset` is the declared one, or empty."""
    csv.field_size_limit(max(csv.field_size_limit(), limits.max_characters))
    texts = decoded(stream, charset)
    payloads = Payloads()

    def blocks() -> Iterator[Block]:
        yield from render_rows(_rows(lines_of(texts)), payloads=payloads)
        texts.metadata.update(payloads.skipped.metadata)

    return Opened("", texts.metadata, block_pieces(blocks()))


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
    """The delimiter that gives most lines the same number of cells; among equals, the one with more cells.

    `_NO_DELIMITER` if the lines have one column, whose cells may hold commas and semicolons.
    """
    best, agreed = _NO_DELIMITER, (0.0, 0)
    for delimiter in _DELIMITERS:
        rows = [row for row in split_rows(iter(sample), delimiter) if any(map(str.strip, row))]
        if _separates_columns(rows, delimiter) and (agreement := _agreement(rows)) > agreed:
            best, agreed = delimiter, agreement
    return best


def _agreement(rows: Sequence[list[str]]) -> tuple[float, int]:
    counts = Counter(len(row) for row in rows if len(row) > 1)
    width, lines = max(counts.items(), key=lambda item: (item[1] * (item[0] - 1), item[0]), default=(1, 0))
    return (lines / max(1, len(rows))) ** 2 * min(width - 1, 3), width


def _separates_columns(rows: Sequence[list[str]], delimiter: str) -> bool:
    """Whether the delimiter separates columns, and is not merely a sign within the texts of one column."""
    begin = next((number for number, row in enumerate(rows) if len(row) > 1), None)
    if begin is None:
        return False
    divided = [row for row in rows[begin:] if len(row) > 1]
    if len(divided) < _LEAST_DIVIDED * (len(rows) - begin):
        divided = _table_above_notes(rows, begin)
    divided = [row[:-1] if len(row) > 2 and not row[-1].strip() else row for row in divided]
    if not divided or (len(divided) == 1 and len(rows) > 2):
        return False
    in_texts = sum(_is_within_text(row) for row in divided)
    if delimiter not in ",;" or not _is_within_text(divided[0]) or in_texts < _MOSTLY * len(divided):
        return True
    return begin == 0 and (all(map(_are_digits_around, divided)) or _has_names(divided))


def _table_above_notes(rows: Sequence[list[str]], begin: int) -> list[list[str]]:
    """The rows from `begin` to the first that is not divided; empty unless they look like a table, however many lines
    follow it."""
    run = list(takewhile(lambda row: len(row) > 1, rows[begin:]))
    is_table = len({len(row) for row in run}) == 1 and all(map(str.strip, run[0]))
    return run if is_table and len(run) > (2 if begin else 1) else []


def _is_within_text(row: Sequence[str]) -> bool:
    """Whether every delimiter of the row can be one of prose: before a space, or within a number."""
    return all(_is_within_number(left, right) or right[:1] == " " for left, right in pairwise(row))


def _are_digits_around(row: Sequence[str]) -> bool:
    return all(_is_within_number(left, right) for left, right in pairwise(row))


def _is_within_number(left: str, right: str) -> bool:
    return left[-1:].isdigit() and right[:1].isdigit()


def _has_names(rows: Sequence[list[str]]) -> bool:
    """Whether the first row names columns, although a space follows each delimiter, as in `Smith, John`."""
    names, *records = ([cell.strip() for cell in row] for row in rows)
    alike = [row for row in records if len(row) == len(names)]
    is_name = all(name and not any(map(str.isdigit, name)) for name in names) and names[-1][-1] not in SENTENCE_ENDS
    if not is_name or not alike or len(alike) < _MOSTLY * len(records):
        return False
    for name, column in zip(names, zip(*alike, strict=True), strict=True):
        if sum(any(map(str.isdigit, cell)) for cell in column) >= _MOSTLY * len(alike):
            return True
        if name in column:
            return False
    if len(names) > 2:
        return True
    if any(map(_is_column_word, names)):
        return all(len(name.split()) <= _MOST_WORDS for name in names)
    if all(map(str.islower, names)):
        return not any(row[0].islower() for row in alike)
    return all(name[0].isupper() for name in names) and all(row[0].islower() for row in alike)


def _is_column_word(name: str) -> bool:
    return name.casefold().split()[-1] in _COLUMN_WORDS


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
                    row = _with_escaped_quotes(line, delimiter) or next(
                        csv.reader([line], delimiter=delimiter, quoting=csv.QUOTE_NONE), []
                    )
        yield row


def _parsed(lines: list[str], delimiter: str) -> list[str] | None:
    """The cells of one row. None if a quote is still open or is followed by other text."""
    if not any('"' in line for line in lines):
        return lines[0].rstrip("\n").split(delimiter) if len(lines) == 1 else None
    if len(lines) == 1 and (row := _with_spaces_before_quotes(lines[0], delimiter)):
        return row
    return _only_row(lines, delimiter=delimiter)


def _with_spaces_before_quotes(line: str, delimiter: str) -> list[str] | None:
    """The cells of a line such as `Ada, "Rome, Italy"`; None if it is no such line."""
    if f'{delimiter} "' not in line:
        return None
    row = _only_row([line], delimiter=delimiter, skipinitialspace=True)
    # The space stays, because prose has it, too: see `_is_within_text`.
    return row and [row[0], *(f" {cell}" for cell in row[1:])]


def _with_escaped_quotes(line: str, delimiter: str) -> list[str] | None:
    r"""The cells of a line with `\"` for quotes, as databases export it; None if it is no such line."""
    if '\\"' not in line:
        return None
    return _only_row([line], delimiter=delimiter, escapechar="\\", doublequote=False)


def _only_row(lines: list[str], **dialect: Any) -> list[str] | None:
    try:
        rows = list(csv.reader(lines, strict=True, **dialect))
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
