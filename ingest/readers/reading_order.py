"""The text of a recognised page: its lines in the order of reading, column by column, and joined to paragraphs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from app.types.texts import POSITIONS, Word
from ingest.readers.recognized_lines import RecognizedLine, RecognizedLines
from ingest.readers.text import clean_text

_LONG = 5  # times its height: by such lines the slope of a page is told
_FEWEST_LINES = 3  # of a column
_LEAST_COLUMN = 0.2  # of the width of both: narrower ones are cells of a table, and are read row by row
_MOST_CROSSING = 0.3  # of the lines, which may run over both columns, as titles do
_SAME_ROW = 0.5  # of their height: lines whose middles are nearer stand side by side
_PARAGRAPH = 1.5  # times the usual distance of lines
_FULL_LINE = 0.85  # of its column: such a line ended because there was no room
_LARGER = 1.3  # than most lines: such are those of a title
_MAX_TITLE = 200
_SENTENCE_ENDS = (".", "!", "?", ":", "。", "！", "？")


class PageText(NamedTuple):
    """`words` count characters of the text, and their page is 0; `confidence` is 0 to 1."""

    text: str
    words: tuple[Word, ...]
    confidence: float
    title: str = ""


class _Box(NamedTuple):
    """A line, where it were if the page lay straight."""

    left: float
    top: float
    right: float
    bottom: float
    line: RecognizedLine

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        return self.bottom - self.top


def page_text(found: RecognizedLines) -> PageText:
    boxes = _straightened(found.lines)
    builder = _Builder(found)
    for column in _columns(boxes):
        builder.add_column(column)
    return builder.page(_title(boxes))


def _straightened(lines: Sequence[RecognizedLine]) -> list[_Box]:
    angles = [
        math.atan2(across[1], across[0])
        for line in lines
        if np.linalg.norm(across := line.quad[1] - line.quad[0]) > _LONG * np.linalg.norm(line.quad[3] - line.quad[0])
    ]
    angle = statistics.median(angles) if angles else 0.0
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    boxes = []
    for line in lines:
        turned = line.quad @ turn
        (left, top), (right, bottom) = turned.min(axis=0), turned.max(axis=0)
        boxes.append(_Box(float(left), float(top), float(right), float(bottom), line))
    return boxes


def _columns(boxes: Sequence[_Box]) -> Iterator[list[_Box]]:
    """Stretches to be read one after the other, each from its top to its bottom."""
    gutter = _gutter(boxes)
    if gutter is None:
        if boxes:
            yield list(boxes)
        return
    crossing = sorted((box for box in boxes if box.left < gutter < box.right), key=lambda box: box.middle)
    rest = [box for box in boxes if not box.left < gutter < box.right]
    edges = [*(box.middle for box in crossing), math.inf]
    above = -math.inf
    for number, edge in enumerate(edges):
        between = [box for box in rest if above < box.middle <= edge]
        for side in (True, False):
            yield from _columns([box for box in between if (box.right <= gutter) is side])
        if number < len(crossing):
            yield [crossing[number]]
        above = edge


def _gutter(boxes: Sequence[_Box]) -> float | None:
    """Where a page of columns is empty from top to bottom, but for lines over both."""
    if len(boxes) < 2 * _FEWEST_LINES:
        return None
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    width = right - left
    best: tuple[int, float] | None = None
    for at in sorted({box.left - 1 for box in boxes} | {box.right + 1 for box in boxes}):
        if not left + _LEAST_COLUMN * width < at < right - _LEAST_COLUMN * width:
            continue
        crossing = sum(box.left < at < box.right for box in boxes)
        before, after = ([box for box in boxes if side(box, at)] for side in (_is_before, _is_after))
        if min(len(before), len(after)) < _FEWEST_LINES or crossing > _MOST_CROSSING * len(boxes):
            continue
        if min(_usual_width(before), _usual_width(after)) < _LEAST_COLUMN * width:
            continue
        if best is None or crossing < best[0]:
            best = crossing, at
    return best[1] if best else None


def _is_before(box: _Box, at: float) -> bool:
    return box.right <= at


def _is_after(box: _Box, at: float) -> bool:
    return box.left >= at


def _usual_width(boxes: Sequence[_Box]) -> float:
    return statistics.median(box.right - box.left for box in boxes)


def _rows(column: Sequence[_Box]) -> list[list[_Box]]:
    """Boxes that stand side by side make one line."""
    rows: list[list[_Box]] = []
    for box in sorted(column, key=lambda box: box.middle):
        if rows and abs(box.middle - rows[-1][0].middle) < _SAME_ROW * min(box.height, rows[-1][0].height):
            rows[-1].append(box)
        else:
            rows.append([box])
    return [sorted(row, key=lambda box: box.left) for row in rows]


def _title(boxes: Sequence[_Box]) -> str:
    """The first of the largest lines, where these are larger than most."""
    if len(boxes) < 2:
        return ""
    usual = statistics.median(box.height for box in boxes)
    large = [box for box in boxes if box.height >= _LARGER * usual]
    if not large:
        return ""
    most = max(box.height for box in large)
    rows = _rows([box for box in large if box.height >= 0.8 * most])
    words = (word.text for row in rows[:3] for box in row for word in box.line.words)
    title = " ".join(words)
    return title if len(title) <= _MAX_TITLE else ""


class _Builder:
    """Puts words together, and notes where each of them stands."""

    def __init__(self, found: RecognizedLines) -> None:
        self._found = found
        self._text = ""
        self._words: list[Word] = []
        self._goes_on = False  # the last line ended for want of room
        self._weights: list[tuple[float, int]] = []

    def add_column(self, column: Sequence[_Box]) -> None:
        rows = _rows(column)
        left, right = min(box.left for box in column), max(box.right for box in column)
        middles = [row[0].middle for row in rows]
        steps = [after - before for before, after in pairwise(middles)]
        usual = statistics.median(steps) if steps else 0.0
        for number, row in enumerate(rows):
            if number and steps[number - 1] > _PARAGRAPH * usual:
                self._end_paragraph()
            self._add_row(row)
            is_full = row[-1].right - left >= _FULL_LINE * (right - left)
            self._goes_on = is_full and not self._text.endswith(_SENTENCE_ENDS)

    def page(self, title: str) -> PageText:
        letters = sum(count for _, count in self._weights)
        confidence = sum(each * count for each, count in self._weights) / letters if letters else 0.0
        return PageText(self._text, tuple(self._words), confidence, title)

    def _end_paragraph(self) -> None:
        self._text = self._text.rstrip() + "\n"
        self._goes_on = False

    def _add_row(self, row: Sequence[_Box]) -> None:
        words = [(box.line, word) for box in row for word in box.line.words if clean_text(word.text).strip()]
        if not words:
            return
        first = words[0][1].text
        if self._text:
            is_cut = self._text[-1] in "-\u00ad" and self._text[-2:-1].isalpha() and first[:1].islower()
            if is_cut and self._words:
                self._text = self._text[:-1]
                self._words[-1] = self._words[-1]._replace(end=len(self._text))
            else:
                self._text += " " if self._goes_on else "\n"
        for number, (line, word) in enumerate(words):
            text = "".join(clean_text(word.text).split())
            if number and not _is_ideograph(self._text[-1]) and not _is_ideograph(text[0]):
                self._text += " "
            start = len(self._text)
            self._text += text
            self._weights.append((word.confidence, len(text)))
            place = _place(line, word.left, word.right, self._found)
            confidence = round(100 * min(1.0, max(0.0, word.confidence)))
            self._words.append(Word(start, len(self._text), 0, *place, confidence))


def _is_ideograph(letter: str) -> bool:
    return "\u2e80" <= letter <= "\u9fff" or "\uf900" <= letter <= "\ufaff" or "\uff00" <= letter <= "\uffef"


def _place(line: RecognizedLine, left: float, right: float, found: RecognizedLines) -> tuple[int, int, int, int]:
    """On the page as it came, which may have been turned."""
    top_left, top_right, bottom_right, bottom_left = line.quad
    corners = np.array(
        [
            top_left + left * (top_right - top_left),
            top_left + right * (top_right - top_left),
            bottom_left + left * (bottom_right - bottom_left),
            bottom_left + right * (bottom_right - bottom_left),
        ]
    ) / np.array([found.width, found.height])
    for _ in range(found.turns):  # back, with the clock
        corners = np.stack([1 - corners[:, 1], corners[:, 0]], axis=1)
    (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
    x0, y0, x1, y1 = (round(POSITIONS * min(1.0, max(0.0, float(each)))) for each in (x0, y0, x1, y1))
    return x0, y0, x1, y1
