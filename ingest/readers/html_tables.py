"""Data tables in HTML: their grid with merged cells, and a block per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from lxml.html import HtmlElement

from app.types.texts import ROW
from ingest.readers.parts import Block
from ingest.readers.tables import record_block

_MOST_SPANNED = 1_000  # rows or columns, the limit of browsers
_MOST_CELLS = 1_000_000  # of a grid: spans can blow up a small file
_LAYOUT_ROLES = {"presentation", "none"}
_CELLS = ("td", "th")
_PARTS = {*_CELLS, "tr", "thead", "tbody", "tfoot", "caption", "colgroup", "col", "script", "style", "template"}


class Grid(NamedTuple):
    """Rows of cells, and the number of header rows. A merged cell appears in every row that it covers, and once per row
    (header cells: in every column)."""

    rows: Sequence[Sequence[HtmlElement | None]]
    headers: int


def data_table(table: HtmlElement) -> Grid | None:
    """The grid of a data table. None for nested tables, for tables with text beside their cells, and for
    tables without headers, which only lay out the page."""
    others = chain(table.iterancestors("table"), table.iterdescendants("table"))
    if next(others, None) is not None or table.get("role", "") in _LAYOUT_ROLES:
        return None
    if _has_text_beside_cells(table):  # which rows would lose
        return None
    rows = list(table.iter("tr"))
    cells = [[cell for cell in row if cell.tag in _CELLS] for row in rows]
    if len(rows) < 2 or max(map(len, cells)) < 2:
        return None
    headers = 0
    for row, own in zip(rows, cells, strict=True):
        parent = row.getparent()
        is_head = parent is not None and parent.tag == "thead"
        if not own or not (is_head or _names_columns(own)):
            break
        headers += 1
    if headers in (0, len(rows)):
        return None
    grid = _grid(cells)
    return None if grid is None else Grid(grid, headers)


def table_rows(grid: Grid, lines_of: Callable[[HtmlElement], Sequence[str]]) -> Iterator[Block]:
    """Yields a block per data row. `lines_of` returns the text blocks in a cell."""
    texts: dict[HtmlElement, str] = {}

    def text_of(cell: HtmlElement | None) -> str:
        if cell is None:
            return ""
        if cell not in texts:
            texts[cell] = _joined(lines_of(cell))
        return texts[cell]

    width = max(map(len, grid.rows))
    heads = [[text_of(cell) for cell in row] for row in grid.rows[: grid.headers]]
    joined = (" ".join(dict.fromkeys(row[at] for row in heads if at < len(row) and row[at])) for at in range(width))
    names = [name or f"Column {column}" for column, name in enumerate(joined, start=1)]
    for row in grid.rows[grid.headers :]:
        block = record_block(zip(names, map(text_of, row), strict=False))
        if block.text:
            yield block._replace(level=ROW)


def _has_text_beside_cells(table: HtmlElement) -> bool:
    for node in table.iter("table", "thead", "tbody", "tfoot", "tr"):
        inner = [child for child in node if isinstance(child.tag, str)]
        others = [child for child in inner if child.tag not in _PARTS and child.text_content().strip()]
        if others or any((text or "").strip() for text in (node.text, *(child.tail for child in node))):
            return True
    return False


def _names_columns(cells: Sequence[HtmlElement]) -> bool:
    """Whether all cells are headers, except perhaps an empty top left corner."""
    named = [cell for cell in cells if cell.tag == "th"]
    corner = cells[0]
    is_corner_empty = corner.tag == "td" and not "".join(corner.itertext()).strip()
    return len(named) == len(cells) or (len(named) == len(cells) - 1 > 0 and is_corner_empty)


def _grid(rows: Sequence[Sequence[HtmlElement]]) -> list[list[HtmlElement | None]] | None:
    grid: list[list[HtmlElement | None]] = []
    held: dict[int, tuple[HtmlElement | None, int]] = {}  # column → cell from above, and the rows that it still covers
    count = 0
    for number, cells in enumerate(rows):
        row: list[HtmlElement | None] = []
        left = iter(cells)
        cell = next(left, None)
        while cell is not None or any(column >= len(row) for column in held):
            column = len(row)
            if column in held:
                above, more = held.pop(column)
                row.append(above)
                if more > 1:
                    held[column] = above, more - 1
            elif cell is None:
                row.append(None)
            else:
                across, down = _span(cell, "colspan"), _span(cell, "rowspan") or len(rows) - number
                for offset in range(max(1, across)):
                    shown = cell if offset == 0 or _is_header(cell) else None
                    row.append(shown)
                    if down > 1:
                        held[column + offset] = shown, down - 1
                cell = next(left, None)
            count += 1
            if count > _MOST_CELLS or len(row) > _MOST_CELLS:
                return None
        grid.append(row)
    return grid


def _is_header(cell: HtmlElement) -> bool:
    return cell.tag == "th"


def _span(cell: HtmlElement, name: str) -> int:
    value = cell.get(name, "1").strip()
    return min(int(value), _MOST_SPANNED) if value.isdecimal() else 1


def _joined(lines: Sequence[str]) -> str:
    """The text blocks of a cell in one line, separated by commas unless a block ends with punctuation."""
    text = ""
    for line in lines:
        line = " ".join(line.split())
        text += (", " if text and text[-1].isalnum() else " " if text else "") + line
    return text
