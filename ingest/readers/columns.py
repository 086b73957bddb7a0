"""The reading order of text boxes on a page: column by column, and row by row within a column, from the top."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

_FEWEST_LINES = 3  # of a column
_LEAST_COLUMN = 0.2  # least width of a column, as a share of both: narrower ones are table cells, read row by row
_LEAST_WIDTH = 8  # least width of a column, times its line height: narrower ones are table cells, too
_MOST_CROSSING = 0.3  # share of lines that may run across a gap between columns, as titles do
_SAME_ROW = 0.5  # of their height: lines whose middles are nearer are in one row
_FULL = 0.75  # of the column width: most lines of prose are at least this long, table cells are not
_FULL_SHARE = 0.4  # share of full lines in prose
_ALIGNED = 0.6  # from this share of lines level with a line across, both sides are rows of one table
_MOSTLY_ALIGNED = 0.85
_MANY_LINES = 6  # of prose, which is a column whatever is beside it
_SAME_HEIGHT = 0.15  # times the line height: nearer middles are level
_MOST_TRIED = 12  # gaps, the emptiest first
_MOST_BOXES = 5_000  # a page with more is not prose and is read row by row
_DEEPEST = 12  # levels of columns within columns
_ROW_GAP = 0.35  # of a line's height: a gap on both sides that ends a table row
_FEWEST_ROWS = 3


class Box(Protocol):
    @property
    def left(self) -> float: ...
    @property
    def top(self) -> float: ...
    @property
    def right(self) -> float: ...
    @property
    def bottom(self) -> float: ...


T = TypeVar("T", bound=Box)
_Stretch = tuple[list[T], list[T], list[T]]


def columns(boxes: Sequence[T], depth: int = 0) -> Iterator[list[T]]:
    """Yields groups of boxes in reading order. Read each group row by row."""
    stretches = _stretches(boxes) if depth < _DEEPEST else []
    if not stretches:
        if boxes:
            yield list(boxes)
        return
    for over, before, after in stretches:
        if over:
            yield over
        for part in _table_rows(before, after) or (before, after):
            yield from columns(part, depth + 1)


def rows(column: Sequence[T]) -> list[list[T]]:
    """Groups boxes into rows from the top, each sorted from the left. Boxes in a row have about the same middle."""
    grouped: list[list[T]] = []
    for box in sorted(column, key=_middle):
        if grouped and abs(_middle(box) - _middle(grouped[-1][0])) < _SAME_ROW * min(
            _height(box), _height(grouped[-1][0])
        ):
            grouped[-1].append(box)
        else:
            grouped.append([box])
    return [sorted(row, key=lambda box: box.left) for row in grouped]


def _middle(box: Box) -> float:
    return (box.top + box.bottom) / 2


def _height(box: Box) -> float:
    return box.bottom - box.top


def _stretches(boxes: Sequence[T]) -> list[_Stretch[T]]:
    """Splits a page into stretches (lines across, left column, right column) from the top. Empty if it has no
    columns."""
    if not 2 * _FEWEST_LINES <= len(boxes) <= _MOST_BOXES:
        return []
    lefts, rights = (np.sort([getattr(box, side) for box in boxes]) for side in ("left", "right"))
    left, right = float(lefts[0]), float(rights[-1])
    for at in _gaps(lefts, rights, left + _LEAST_COLUMN * (right - left), right - _LEAST_COLUMN * (right - left)):
        stretches = list(_cut(boxes, at))
        verdicts = [_are_columns(before, after, right - left) for _, before, after in stretches]
        if True in verdicts:
            return [
                stretch if verdict is not False else ([*over, *before, *after], [], [])
                for stretch, verdict in zip(stretches, verdicts, strict=True)
                for over, before, after in (stretch,)
            ]
    return []


def _cut(boxes: Sequence[T], at: float) -> Iterator[_Stretch[T]]:
    """Yields stretches at the vertical line x = `at`: lines that cross it, then the boxes left and right below them."""
    over: list[T] = []
    sides: tuple[list[T], list[T]] = [], []
    for box in sorted(boxes, key=_middle):
        is_over = box.left < at < box.right
        if is_over and (sides[0] or sides[1]):
            yield over, *sides
            over, sides = [], ([], [])
        (over if is_over else sides[0] if box.right <= at else sides[1]).append(box)
    yield over, *sides


def _gaps(lefts: NDArray[np.float64], rights: NDArray[np.float64], low: float, high: float) -> list[float]:
    """The x positions of vertical gaps between `low` and `high`: fewest crossing boxes first, then the widest."""
    ends = np.unique(rights)
    following = np.searchsorted(lefts, ends)
    ends, following = ends[following < len(lefts)], following[following < len(lefts)]
    starts = lefts[following]
    wide = starts > ends
    ends, starts = ends[wide], starts[wide]
    middles = (ends + starts) / 2
    crossing = len(lefts) - (len(lefts) - np.searchsorted(lefts, middles)) - np.searchsorted(rights, middles, "right")
    chosen = (low < middles) & (middles < high) & (crossing <= _MOST_CROSSING * len(lefts))
    # Among gaps that end at the same start of a box, the widest contains the others.
    order = np.lexsort((ends[chosen] - starts[chosen], crossing[chosen]))
    return [float(middle) for middle in middles[chosen][order][:_MOST_TRIED]]


def _are_columns(before: Sequence[T], after: Sequence[T], width: float) -> bool | None:
    """Whether both sides are columns of text, not of a table. None if there are too few lines to tell."""
    if not before or not after:
        return None
    sides = [rows(side) for side in (before, after)]
    if min(map(len, sides)) < _FEWEST_LINES:
        return None
    aligned = _aligned(*sides)
    if aligned < _MOSTLY_ALIGNED and any(_is_prose(side, least_lines=_MANY_LINES, share=0.5) for side in sides):
        return True  # whatever is beside it: a picture with labels, a table, code
    for side in (before, after):
        if _usual_width(side) < max(_LEAST_COLUMN * width, _LEAST_WIDTH * statistics.median(map(_height, side))):
            return False
    return all(map(_is_prose, sides)) or aligned < _ALIGNED


def _usual_width(side: Sequence[Box]) -> float:
    return statistics.median(box.right - box.left for box in side)


def _is_prose(side: Sequence[Sequence[Box]], *, least_lines: int = 1, share: float = _FULL_SHARE) -> bool:
    left, right = min(row[0].left for row in side), max(row[-1].right for row in side)
    full = [row for row in side if row[-1].right >= left + _FULL * (right - left)]
    whole = [row for row in full if row[0].right - row[0].left >= _LEAST_WIDTH * _height(row[0])]
    return len(side) >= least_lines and len(full) >= share * len(side) and len(whole) >= _FULL_SHARE * len(full)


def _aligned(before: Sequence[Sequence[Box]], after: Sequence[Sequence[Box]]) -> float:
    """The share of lines, on the side with fewer, that are level with a line of the other side."""
    fewer, more = sorted((before, after), key=len)
    heights = np.sort([_middle(row[0]) for row in more])
    aligned = 0
    for row in fewer:
        at = int(np.searchsorted(heights, _middle(row[0])))
        near = min(abs(float(height) - _middle(row[0])) for height in heights[max(0, at - 1) : at + 1])
        aligned += near <= _SAME_HEIGHT * _height(row[0])
    return aligned / len(fewer)


def _table_rows(before: Sequence[T], after: Sequence[T]) -> list[list[T]]:
    """The cells, row by row, of a table whose cells have several lines. Empty if it is not a table.

    In a table both sides are empty at the same heights again and again; in columns of prose they are not.
    """
    boxes = sorted([*before, *after], key=lambda box: box.top)
    if not before or not after:
        return []
    bands: list[list[T]] = []
    bottom = -math.inf
    for box in boxes:
        if box.top > bottom + _ROW_GAP * _height(box):
            bands.append([])
        bands[-1].append(box)
        bottom = max(bottom, box.bottom)
    ids = {id(box) for box in before}
    cells = [[[box for box in band if (id(box) in ids) is side] for side in (True, False)] for band in bands]
    both = [pair for pair in cells if all(pair)]
    level = sum(
        abs(min(_middle(box) for box in left) - min(_middle(box) for box in right)) <= _SAME_HEIGHT * _height(left[0])
        for left, right in both
    )
    folded = sum(any(len(rows(cell)) > 1 for cell in pair) for pair in both)
    if level < max(_FEWEST_ROWS, 2 / 3 * len(bands)) or folded < len(bands) / 3:
        return []
    return [cell for pair in cells for cell in pair if cell]
