"""Grids of cells become blocks: finds titles, the rows that name the columns, and the start of further tables.

A cell is a string. Knows no file format: CSV, spreadsheets, and tables in Word files, slides and pages end up here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import NamedTuple

from app.types.texts import ROW
from ingest.readers.parts import Block
from ingest.readers.payloads import Payloads
from ingest.readers.tables import record_block

SPANNED = "\0"  # a cell covered by the merged cell to its left
_HEAD = 30  # first rows, in which column names are searched
_MAX_HEADER_ROWS = 3
_FULL = 0.8  # least share of filled cells in a row of column names
_MAX_NAME = 80
_MAX_GROUP = 60  # characters of a name over several columns; a longer one is the title of the table
_FEWEST_LETTERS = 3
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
_NUMBER = re.compile(
    r"[^\w\s]{0,3}\s?\d[\d.,'\s\u00a0\u202f]*(?:e[+-]?\d+)?\s?(?:[^\w\s]{1,2}|[A-Z]{3}|\([-+\d.e]+\))?", re.I
)
_WITH_WHOLE = re.compile(
    r"[^\w\s]{0,3}\d[\d.,\s]*(?:/\d+|[^\W\d]{1,3}) \(-?\d[\d.]*(?:e[+-]?\d+)?\)", re.I
)  # 1.5M (1500000)
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:[ T]\d\d:\d\d.*)?|\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?(?: ?[AP]M)?")
_NAMED_DATE = re.compile(r" \(\d{4}-\d\d-\d\d\)\Z")  # behind names of months or days
_YEAR = re.compile(r"(?:1[89]|20|21)\d\d")
_NO_VALUE = {"none", "null", "nan", "unknown", "missing", "not available", "tbd", "true", "false"}

Row = Sequence[str]


class _Names(NamedTuple):
    """Names of the columns, and the kinds of values seen below them (see `_kinds_of`)."""

    names: list[str]
    kinds: list[str]


def render_rows(rows: Iterable[Row], *, has_gaps: bool = False, payloads: Payloads | None = None) -> Iterator[Block]:
    """Yields each row as `name: value; name: value`, and titles above the names unchanged.

    With `has_gaps`, an empty row may end a table, as in a spreadsheet. Otherwise empty rows are ignored. `payloads`
    notes the files in cells that are left out.
    """
    if payloads is not None:
        rows = _without_payloads(rows, payloads)
    clean: Iterable[Row] = ([" ".join(cell.split()) for cell in row] for row in rows)
    filled = clean if has_gaps else (row for row in clean if _columns(row))
    pending: list[Row] = []  # rows of a single column, which may be the title of the next table
    before: _Names | None = None
    for is_filled, run in groupby(filled, lambda row: bool(_columns(row))):
        if not is_filled:
            continue
        head = list(islice(run, _HEAD))
        if has_gaps and max(len(_columns(row)) for row in head) == 1 and len(head) < _HEAD:
            pending += head
            continue
        yield from map(_plain, pending)
        goes_on = has_gaps and before is not None and _goes_on(head, before)
        if before is not None and goes_on:
            before = yield from _records(chain(head, run), before)  # noqa: B031 (the rest of the same run)
        else:
            before = yield from _tables(head, run)  # noqa: B031
        pending = []
    if before is None:
        yield from _single_column(pending)
    else:
        yield from map(_plain, pending)


def _without_payloads(rows: Iterable[Row], payloads: Payloads) -> Iterator[Row]:
    for number, row in enumerate(rows, start=1):
        yield [payloads.without(cell, f"Row {number}") for cell in row]


def _tables(head: list[Row], rest: Iterator[Row]) -> Generator[Block, None, _Names]:
    """Yields the blocks of rows without an empty row between: usually one table, perhaps with a title above it."""
    if _are_pairs(head):
        for row in chain(head, rest):
            name, *values = [row[column] for column in _columns(row)]
            yield record_block([(name.rstrip(" :"), "; ".join(values))]) if values else _plain(row)
        return _Names([], [])
    first, count = _find_names(head)
    for title in _distinct(head[:first]):
        yield _plain(title)
    over, header = _without_titles(head[first : first + count])
    yield from over
    names = _join_names(header)
    data = head[first + count :]
    if count and not data:  # a header without rows
        for row in head[first : first + count]:
            yield _plain(row, level=ROW)
        return _Names(names, [])
    last_names = yield from _records(
        chain(data, rest), _Names(names, _kinds_of(data)), header=head[first : first + count]
    )
    return last_names


def _records(rows: Iterable[Row], named: _Names, *, header: Sequence[Row] = ()) -> Generator[Block, None, _Names]:
    """Yields a block per row. Returns the names of the last table, since another table may begin within `rows`."""
    names, source = named.names, iter(rows)
    held: deque[Row] = deque(islice(source, 3))
    unused = {column for row in header for column in _columns(row) if names[column]}
    seen = 0
    while held:
        if seen > 1 and _begins_table(list(held), named.kinds, names):
            yield from _without_values(names, unused)
            head = [*held, *islice(source, _HEAD)]
            last_names = yield from _tables(head, source)
            return last_names
        row = held.popleft()
        held.extend(islice(source, 1))
        seen += 1
        if list(row) in [list(header_row) for header_row in header]:
            continue  # repeated, as on every page
        unused.difference_update(_columns(row))
        if block := _record(row, names):
            yield block
    yield from _without_values(names, unused)
    return named


def _without_values(names: Sequence[str], unused: Collection[int]) -> Iterator[Block]:
    """The names of columns that are empty, as in a form that nobody filled in."""
    if unused:
        yield Block(f"No values: {'; '.join(names[column] for column in sorted(unused))}")


def _record(row: Row, names: list[str]) -> Block | None:
    left = min(_columns(row))
    fields = []
    for column, cell in enumerate(row):
        if cell and cell != SPANNED:
            name = names[column] if column < len(names) else ""
            is_unnamed = not name and names and (column > left or column >= len(names))
            fields.append((f"Column {column + 1}" if is_unnamed else name, cell))
    block = record_block(fields)
    return block if block.text else None


def _single_column(rows: list[Row]) -> Iterator[Block]:
    """Rows of one column. The first row becomes the name of the others if it can be one."""
    texts = [row[_columns(row)[0]] for row in rows]
    column = _columns(rows[0])[0] if rows else 0
    is_one = all(_columns(row) == [column] for row in rows)
    if is_one and _names_others(texts):
        yield from filter(None, (_record(row, [""] * column + [texts[0]]) for row in rows[1:]))
    else:
        for row in rows:
            yield _plain(row, level=ROW)


def _names_others(texts: Sequence[str]) -> bool:
    """Whether the first text of a single column can name the others: it is short, and not one of them by its look."""
    first, others = "".join(texts[:1]), texts[1:]
    if not others or len(first) > _MAX_NAME or _kind(first) != "t" or first in others:
        return False
    return not any(
        sign(first) and sum(map(sign, others)) > len(others) / 2 for sign in (_ends_sentence, _has_digit, _has_comma)
    )


def _ends_sentence(text: str) -> bool:
    return text[-1:] in SENTENCE_ENDS


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _has_comma(text: str) -> bool:
    return ", " in text


def _find_names(head: list[Row]) -> tuple[int, int]:
    """The index of the first row of column names, and the number of such rows; 0 if there are none."""
    width = max(len(_columns(row)) for row in head)
    if width == 1 and len(head) > 1:
        return 0, int(_names_others([row[_columns(row)[0]] for row in head]))
    left = min(_columns(row)[0] for row in head)
    for number, row in enumerate(head):
        columns = _columns(row)
        below = head[number + 1] if number + 1 < len(head) else ()
        corner = columns[0] - left if len(columns) > 1 or SPANNED in row else 0
        covered = sum(cell == SPANNED for cell in row)
        is_full = len(columns) + corner + covered >= _FULL * width
        is_title = len(columns) == 1 and width > 1 and columns[0] == left
        # A row of names over several columns each, with only the first cell filled.
        is_over = (
            len(columns) > 1
            and columns[0] > left
            and number + 2 < len(head)
            and _is_second_header(*head[number : number + 3])
        )
        if (is_over or (is_full and not is_title)) and _can_name(row, below):
            return number, _count_header_rows(head[number:])
        if len(columns) > max(2, width / 2) or (len(columns) == width and width > 1):
            break
    first = next((number for number, row in enumerate(head) if len(_columns(row)) > 1), 0) if width > 1 else 0
    rows = head[first : first + 2]
    kinds = set(_kinds(rows[0]))
    is_data = len(rows) == 2 and kinds & {"n", "d"} and ("t" not in kinds or _kinds(rows[0]) == _kinds(rows[1]))
    return first, 0 if is_data else _count_header_rows(head[first:])


def _count_header_rows(rows: list[Row]) -> int:
    count = 1
    while count < min(_MAX_HEADER_ROWS, len(rows) - 1) and _is_second_header(
        rows[count - 1], rows[count], rows[count + 1]
    ):
        count += 1
    return count


def _is_second_header(above: Row, row: Row, below: Row) -> bool:
    if not _can_name(row, below) or list(above) == list(row):
        return False
    columns = _columns(row)
    fed = any(_kind(_at(below, column)) in "nd" for column in columns if _kind(row[column]) == "t")
    if SPANNED in above:
        alone = [c for c in _columns(above) if _at(above, c + 1) != SPANNED]
        return fed or all(_at(row, column) in ("", above[column]) for column in alone)
    left = _columns(above)[0]
    gaps = [column for column in columns if column > left and not _at(above, column)]
    repeats = any(_at(above, column) == row[column] for column in columns)  # merged over both rows
    return fed and (bool(gaps) or repeats)


def _without_titles(rows: Sequence[Row]) -> tuple[list[Block], list[Row]]:
    """Splits long titles over several columns from the header rows, so that rows do not repeat them."""
    over: list[Block] = []
    header: list[Row] = []
    for row in rows[:-1]:
        cells, is_title = list(row), False
        for column, cell in enumerate(row):
            is_title = len(cell) > _MAX_GROUP or (is_title and cell == SPANNED)
            if is_title:
                over += [Block(cell)] if cell != SPANNED and cell not in (block.text for block in over) else []
                cells[column] = ""
        header += [cells] if _columns(cells) else []
    return over, [*header, *rows[-1:]]


def _join_names(rows: Sequence[Row]) -> list[str]:
    width = max(map(len, rows), default=0)
    has_spans = any(SPANNED in row for row in rows)
    names = [""] * width
    for number, row in enumerate(rows):
        is_last, name = number == len(rows) - 1, ""
        for column in range(width):
            cell = _at(row, column)
            if cell != SPANNED:
                # Without SPANNED cells, a name over several columns fills only the first of them.
                name = cell or ("" if is_last or has_spans or not _at(rows[number + 1], column) else name)
            if name and name not in (names[column], names[column].rpartition(" ")[2]):
                names[column] = f"{names[column]} {name}".strip()
    return [name.rstrip(" :") for name in names]


def _begins_table(rows: Sequence[Row], kinds: list[str], before: Row) -> bool:
    """Whether the first row names the columns of a new table, capitalised as the names `before`, or is its title."""
    title = len(_columns(rows[0])) == 1 and len(rows) > 2
    names, below = (rows[1:3] if title else rows[:2]) if len(rows) > 1 else (rows[0], ())
    columns = _columns(names)
    values = [c for c, kind in enumerate(kinds) if kind in ("n", "d")]
    if len(columns) < 2 or not below or set(_kinds(names)) & {"n", "d"}:
        return False
    if title:
        return any(_kind(_at(below, column)) in "nd" for column in columns)
    texts = [_at(names, column) for column in values]
    are_names = all(
        len(re.findall(r"[^\W\d_]", text)) >= _FEWEST_LETTERS
        and text.lower() not in _NO_VALUE
        and text[0].isupper() == _at(before, column)[:1].isupper()
        for column, text in zip(values, texts, strict=True)
    )
    fed = all(_kind(_at(below, column)) in "nd" for column in values)
    return bool(values) and are_names and fed and len(set(texts)) == len(texts)


def _goes_on(head: list[Row], before: _Names) -> bool:
    """Whether rows after an empty row continue the table before it, without own names."""
    kinds = _kinds(head[0])
    fits = all(column < len(before.names) and before.names[column] for column in _columns(head[0]))
    if not fits or not before.names or _are_pairs(head):
        return False
    if any(kind in ("n", "d") for kind in kinds) and not _can_name(head[0], head[1] if len(head) > 1 else ()):
        return True
    if len(head) > 1:
        return False
    return all(_at(before.kinds, c) not in ("n", "d") or kind != "t" for c, kind in enumerate(kinds))


def _are_pairs(head: list[Row]) -> bool:
    """Whether the rows are a form: names with a colon on the left, values on the right."""
    pairs = [row for row in head if len(_columns(row)) == 2]
    ended = sum(row[_columns(row)[0]].endswith(":") for row in pairs)
    return len(pairs) > 1 and max(len(_columns(row)) for row in head) == 2 and ended > len(head) / 2


def _can_name(row: Row, below: Row) -> bool:
    """Whether the row may name columns. Numbers and dates may not, except years and dates above values of another
    kind."""
    for column in _columns(row):
        cell, value = row[column], _at(below, column)
        kind = _kind(cell)
        if kind == "n" and (not _YEAR.fullmatch(cell) or _YEAR.fullmatch(value)):
            return False
        if kind == "d" and _kind(value) == "d":
            return False
    return True


def _kinds_of(rows: Sequence[Row]) -> list[str]:
    """The most frequent kind of value in each column: `n` number, `d` date, `t` text, empty without values."""
    kinds = [_kinds(row) for row in rows]
    columns = [[_at(row, column) for row in kinds] for column in range(max(map(len, kinds), default=0))]
    return [max(sorted(set(column) - {" ", ""}), key=column.count, default="") for column in columns]


def _kinds(row: Row) -> list[str]:
    return [_kind(cell) for cell in row]


def _kind(cell: str) -> str:
    if not cell or cell == SPANNED:
        return " "
    if _NAMED_DATE.search(cell):
        return "d"
    if not any(map(str.isdigit, cell[:20])) or len(cell) > 40:
        return "t"
    return "d" if _DATE.fullmatch(cell) else "n" if _NUMBER.fullmatch(cell) or _WITH_WHOLE.fullmatch(cell) else "t"


def _columns(row: Row) -> list[int]:
    return [column for column, cell in enumerate(row) if cell and cell != SPANNED]


def _at(row: Sequence[str], column: int) -> str:
    return row[column] if column < len(row) else ""


def _distinct(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows without immediate repeats: a title merged over several rows appears once."""
    return (row for number, row in enumerate(rows) if not number or list(rows[number - 1]) != list(row))


def _plain(row: Row, *, level: int | None = None) -> Block:
    cells = [row[column] for column in _columns(row)]
    if level is None and len(cells) == 2:
        return Block(f"{cells[0].rstrip(' :')}: {cells[1]}")
    return Block("; ".join(cells), level)
