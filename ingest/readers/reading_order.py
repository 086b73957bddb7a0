"""The text of a recognised page: its lines in reading order, column by column, joined to paragraphs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from app.types.texts import POSITIONS, Word
from ingest.readers.columns import columns, rows
from ingest.readers.recognized_lines import RecognizedLine, RecognizedLines
from ingest.readers.text import clean_text

_LONG = 5  # times its height: lines at least this long determine the slope of a page
_PARAGRAPH = 1.5  # times the usual distance of lines
_FULL_LINE = 0.85  # of its column: such a line ended because it was full
_LARGER = 1.3  # times the usual height: lines of a title
_MAX_TITLE = 200
_SENTENCE_ENDS = (".", "!", "?", ":", "。", "！", "？")


class PageText(NamedTuple):
    """Offsets of `words` count characters of `text`; their page is 0. `confidence` is 0 to 1."""

    text: str
    words: tuple[Word, ...]
    confidence: float
    title: str = ""


class _Box(NamedTuple):
    """A line, at its position after the page is straightened."""

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


def page_text(recognized: RecognizedLines) -> PageText:
    """Straightens the page, sorts its lines into reading order and joins them to a text."""
    boxes = _straightened(recognized.lines)
    builder = _Builder(recognized)
    for column in columns(boxes):
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


def _title(boxes: Sequence[_Box]) -> str:
    """The first of the largest lines, if these are larger than most; else empty."""
    if len(boxes) < 2:
        return ""
    usual = statistics.median(box.height for box in boxes)
    large = [box for box in boxes if box.height >= _LARGER * usual]
    if not large:
        return ""
    most = max(box.height for box in large)
    lines = rows([box for box in large if box.height >= 0.8 * most])
    words = (word.text for row in lines[:3] for box in row for word in box.line.words)
    title = " ".join(words)
    return title if len(title) <= _MAX_TITLE else ""


class _Builder:
    """Joins words to a text, and records the position of each."""

    def __init__(self, recognized: RecognizedLines) -> None:
        self._recognized = recognized
        self._text = ""
        self._words: list[Word] = []
        self._goes_on = False  # the last line ended only because the column was full
        self._weights: list[tuple[float, int]] = []

    def add_column(self, column: Sequence[_Box]) -> None:
        column_rows = rows(column)
        left, right = min(box.left for box in column), max(box.right for box in column)
        middles = [row[0].middle for row in column_rows]
        steps = [after - before for before, after in pairwise(middles)]
        usual = statistics.median(steps) if steps else 0.0
        for number, row in enumerate(column_rows):
            if number and steps[number - 1] > _PARAGRAPH * usual:
                self._end_paragraph()
            self._add_row(row)
            is_full = row[-1].right - left >= _FULL_LINE * (right - left)
            self._goes_on = is_full and not self._text.endswith(_SENTENCE_ENDS)

    def page(self, title: str) -> PageText:
        letters = sum(count for _, count in self._weights)
        confidence = sum(value * count for value, count in self._weights) / letters if letters else 0.0
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
            place = _place(line, word.left, word.right, self._recognized)
            confidence = round(100 * min(1.0, max(0.0, word.confidence)))
            self._words.append(Word(start, len(self._text), 0, *place, confidence))


def _is_ideograph(letter: str) -> bool:
    return "\u2e80" <= letter <= "\u9fff" or "\uf900" <= letter <= "\ufaff" or "\uff00" <= letter <= "\uffef"


def _place(line: RecognizedLine, left: float, right: float, recognized: RecognizedLines) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of a part of a line on the original page, scaled to 0..POSITIONS. Undoes its
    rotation."""
    top_left, top_right, bottom_right, bottom_left = line.quad
    corners = np.array(
        [
            top_left + left * (top_right - top_left),
            top_left + right * (top_right - top_left),
            bottom_left + left * (bottom_right - bottom_left),
            bottom_left + right * (bottom_right - bottom_left),
        ]
    ) / np.array([recognized.width, recognized.height])
    for _ in range(recognized.turns):  # rotate back, clockwise
        corners = np.stack([1 - corners[:, 1], corners[:, 0]], axis=1)
    (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
    x0, y0, x1, y1 = (round(POSITIONS * min(1.0, max(0.0, float(value)))) for value in (x0, y0, x1, y1))
    return x0, y0, x1, y1
