"""The text of a page from its words: pieces of lines, sorted into reading order, joined to paragraphs."""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from ingest.readers.columns import columns, rows
from ingest.readers.hyphens import Hyphens, are_ideographs
from ingest.readers.pdf_words import PageWord

_GAP = 0.75  # times the height of a line: a wider gap separates columns or cells
_GAP_OF_LETTERS = 1.2  # the same between single letters
_SPACE = 0.1  # times the height: nearer parts of words, drawn out of order, belong together
_TOUCHING = 0.04  # times the height: nearer parts are joined without a space
_LEVEL = 0.3  # of the height: words whose middles are nearer are on one line
_PARAGRAPH = 1.5  # times the usual distance of lines
_ROOM = 0.3  # times the height: less room than this and the next word means that the line was full
_FULL, _FULL_SHARE = 0.85, 0.4  # of a column's width, and of the lines of prose
_NARROW = 10  # times the height: narrower columns are labels, names or cells
_SAME_SIZE = 1.15
_SINGLE = 4  # distinct one-letter words in a row that make one word with spaced letters
_SPACED = 0.06  # times the height: the least letter spacing of a spaced word
_APART = 0.6  # times the height: the widest gap between spaced letters
_TALL = 1.5  # times its width: a higher word has its letters one below the other
_CELLS = 2  # times the height: a wider gap between two pieces of a row separates cells
_HYPHENED = re.compile(r"\w[-\u00ad\u2010]$")
_SENTENCE_ENDS = (".", "!", "?", ":", "。", "！", "？")
_POINT = re.compile(r"[-–—•‣◦▪▫■□●○►➢✓*·]|\(?[\da-zA-Z]{1,3}[.)]")


class Line(NamedTuple):
    """A piece of a line: words that follow each other. Coordinates are in points on the page turned so that the line is
    level."""

    left: float
    top: float
    right: float
    bottom: float
    words: tuple[PageWord, ...]
    text: str

    @property
    def height(self) -> float:
        return self.bottom - self.top


class PageLayout(NamedTuple):
    """The text of a page; `words` and `lines` are in the order of the text."""

    text: str
    words: list[PageWord]
    lines: list[Line]


def layout_of(words: Sequence[PageWord], hyphens: Hyphens) -> PageLayout:
    """Sorts words into reading order. Text of each direction is separate; the direction with most letters comes
    first."""
    groups: dict[int, list[PageWord]] = defaultdict(list)
    for word in _with_vertical(words):
        groups[word.turns].append(word)
    texts, placed, lines = [], [], []
    for turns in sorted(groups, key=lambda turns: (-_letters(groups[turns]), turns)):
        direction = _direction(groups[turns], turns)
        text = _Text(hyphens, direction)
        pieces = _merged(list(_lines(groups[turns], direction)))
        for column in columns(pieces) if turns >= 0 else ([piece] for piece in pieces):
            text.add_column(column)
        texts.append(text.text)
        placed += [word for line in text.lines for word in line.words]
        lines += text.lines
    return PageLayout("\n\n".join(filter(None, texts)), placed, lines)


def _with_vertical(words: Sequence[PageWord]) -> Sequence[PageWord]:
    """East Asian writing from the top, in columns from the right, as if it were turned clockwise."""
    level = [
        word for word in words if not word.text.isascii() and word.turns == 0 and are_ideographs(word.text, word.text)
    ]
    runs = [level[:1]]
    for before, word in pairwise(level):
        if not (_is_down(before) and _is_down(word) and _is_below(before, word)):
            runs.append([])
        runs[-1].append(word)
    # Cells below each other have one or two signs again and again.
    down = [word for run in runs if len({letter for word in run for letter in word.text}) >= _SINGLE for word in run]
    vertical = {id(word) for word in down if _is_down(word)}
    if 2 * sum(len(word.text) for word in level if id(word) in vertical) <= _letters(level):
        return words
    return [word._replace(turns=3) if id(word) in vertical else word for word in words]


def _is_down(word: PageWord) -> bool:
    return len(word.text) == 1 or word.bottom - word.top > _TALL * (word.right - word.left)


def _is_below(before: PageWord, word: PageWord) -> bool:
    middle = abs(before.left + before.right - word.left - word.right) / 2
    return middle < _LEVEL * word.size and -_SPACE * word.size <= word.top - before.bottom <= _LEVEL * word.size


def _letters(words: Sequence[PageWord]) -> int:
    return sum(len(word.text) for word in words)


def _direction(words: Sequence[PageWord], turns: int) -> int:
    """The quarter turns of the lines. `turns` comes from letters alone; for text drawn upside down by two mirrors, the
    order of words decides, unless some are read from the right."""
    if turns < 0 or any(_is_from_right(word.text) for word in words):
        return turns
    ahead = 0
    for before, word in pairwise(words):
        first, second = _level(before, turns), _level(word, turns)
        if abs(first[3] - second[3]) < _LEVEL * (first[3] - first[1]):
            ahead += 1 if second[0] > first[0] else -1
    return turns if ahead >= 0 else (turns + 2) % 4


def _level(word: PageWord, turns: int) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of a word on the page turned so that the word is level."""
    if turns == 1:
        return -word.bottom, word.left, -word.top, word.right
    if turns == 2:
        return -word.right, -word.bottom, -word.left, -word.top
    if turns == 3:
        return word.top, -word.right, word.bottom, -word.left
    return word.left, word.top, word.right, word.bottom


class _Placed(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float
    word: PageWord


def _lines(words: Sequence[PageWord], turns: int) -> Iterator[Line]:
    """Groups consecutive words into pieces of lines."""
    held: list[_Placed] = []
    for word in words:
        placed = _Placed(*_level(word, turns), word)
        if held and not _follows(held[-1], placed, is_skewed=turns < 0):
            yield _line(held, _spelled(held))
            held = []
        held.append(placed)
    if held:
        yield _line(held, _spelled(held))


def _follows(before: _Placed, word: _Placed, *, is_skewed: bool) -> bool:
    height = max(before.bottom - before.top, word.bottom - word.top)
    if is_skewed:
        return max(word.left - before.right, before.left - word.right, word.top - before.bottom) < height
    middle = abs(before.top + before.bottom - word.top - word.bottom) / 2
    gap = word.left - before.right
    if gap < -_SPACE * height and (_is_from_right(before.word.text) or _is_from_right(word.word.text)):
        gap = before.left - word.right
    widest = _GAP_OF_LETTERS if _is_single(before) and _is_single(word) else _GAP
    return middle < _LEVEL * height and -_SPACE * height <= gap <= widest * height


def _is_from_right(text: str) -> bool:
    """Whether most of its letters belong to a right-to-left script, such as Arabic or Hebrew."""
    if text.isascii():
        return False
    return 2 * sum(unicodedata.bidirectional(char) in ("R", "AL") for char in text) > sum(map(str.isalpha, text))


def _as_read(placed: Sequence[_Placed]) -> Iterator[Line]:
    """The cells of a row, whose words stand from left to right, in the order in which they are read.

    The first and the last word decide from which side the row is read; if they differ, most letters. Words of the
    other direction that stand side by side keep their own order, with the numbers beside them.
    """
    written = [item.word.text for item in placed if any(map(str.isalpha, item.word.text))]
    sides = set(map(_is_from_right, (written[0], written[-1])))
    is_from_right = sides.pop() if len(sides) == 1 else _is_from_right("".join(written))
    cells = [[placed[0]]]
    for before, item in pairwise(placed):
        if item.left - before.right > _CELLS * (before.bottom - before.top):
            cells.append([])
        cells[-1].append(item)
    for cell in cells[::-1] if is_from_right else cells:
        ordered: list[_Placed] = []
        for is_own, group in groupby(
            cell[::-1] if is_from_right else cell,
            lambda item: any(map(str.isalpha, item.word.text)) and _is_from_right(item.word.text) == is_from_right,
        ):
            run = list(group)
            kept = [at for at, item in enumerate(run) if any(map(str.isalnum, item.word.text))]
            if not is_from_right:  # the number behind words from the right is not theirs
                kept = [at for at in kept if any(map(str.isalpha, run[at].word.text))]
            if not is_own and any(char.isalpha() for item in run for char in item.word.text):
                run[kept[0] : kept[-1] + 1] = run[kept[0] : kept[-1] + 1][::-1]
            ordered += run
        text = ordered[0].word.text
        for before, item in pairwise(ordered):
            text += item.word.text if _are_one_word(before, item) else " " + item.word.text
        yield _line(ordered, text)


def _are_one_word(before: _Placed, item: _Placed) -> bool:
    """Whether a word or sign touches the one before, on either side. Letters of two directions are two words."""
    texts = [each.word.text for each in (before, item) if any(map(str.isalpha, each.word.text))]
    if len(set(map(_is_from_right, texts))) > 1:
        return False
    is_spaced = before.word.after_space and item.word.after_space
    gap = max(item.left - before.right, before.left - item.right)
    return not is_spaced and gap <= _TOUCHING * (item.bottom - item.top)


def _line(placed: list[_Placed], text: str) -> Line:
    return Line(
        min(item.left for item in placed),
        min(item.top for item in placed),
        max(item.right for item in placed),
        max(item.bottom for item in placed),
        tuple(item.word for item in placed),
        text,
    )


def _spelled(placed: Sequence[_Placed]) -> str:
    """The words joined by spaces; letters of a letter-spaced word are joined without."""
    text = placed[0].word.text
    run = _apart(placed)
    for number, item in enumerate(placed[1:], start=1):
        is_joined = number in run or (not item.word.after_space and are_ideographs(text[-1], item.word.text[0]))
        text += item.word.text if is_joined else " " + item.word.text
    return text


def _apart(placed: Sequence[_Placed]) -> set[int]:
    """Indexes of items that continue the word of the item before, although there is a gap between."""
    continuing = _spaced(placed)
    start = 0
    for number in range(1, len(placed) + 1):
        single = number < len(placed) and _is_single(placed[number]) and not placed[number].word.after_space
        if single and _is_single(placed[number - 1]):
            continue
        if len({item.word.text for item in placed[start:number]}) >= _SINGLE:
            gaps = [after.left - before.right for before, after in pairwise(placed[start:number])]
            height = placed[start].bottom - placed[start].top
            usual = statistics.median_low(gaps)
            continuing |= {start + at + 1 for at, gap in enumerate(gaps) if gap <= min(1.5 * usual, _APART * height)}
        start = number
    return continuing


def _spaced(placed: Sequence[_Placed]) -> set[int]:
    """Indexes of items that continue a word in a line with letter spacing: gaps no wider than that end no word."""
    spacings = [item.word.spacing for item in placed if len(item.word.text) > 1]
    height = placed[0].bottom - placed[0].top
    if not spacings or (usual := statistics.median(spacings)) < _SPACED * height:
        return set()
    return {
        number
        for number, (before, after) in enumerate(pairwise(placed), start=1)
        if after.left - before.right <= 1.4 * usual and not after.word.after_space
    }


def _is_single(placed: _Placed) -> bool:
    return len(placed.word.text) == 1 and placed.word.text.isalpha()


def _merged(lines: list[Line]) -> list[Line]:
    """Joins pieces of one line that were drawn at different times. Keeps the order of the others."""
    taken: dict[int, Line] = {}
    order = sorted(range(len(lines)), key=lambda at: (lines[at].top + lines[at].bottom) / 2)
    for position, at in enumerate(order):
        line = taken.get(at, lines[at])
        for other in order[position + 1 :]:
            next_line = taken.get(other, lines[other])
            height = min(line.height, next_line.height)
            if (next_line.top + next_line.bottom - line.top - line.bottom) / 2 > _LEVEL * height:
                break
            first, second = sorted((line, next_line), key=lambda line: line.left)
            gap = second.left - first.right
            if -_SPACE * height <= gap <= _SPACE * height and first.words and second.words:
                line = _joined(first, second, abs(gap) <= _TOUCHING * height and not second.words[0].after_space)
                taken[at], taken[other] = line, line._replace(words=())
    return [line for at in range(len(lines)) if (line := taken.get(at, lines[at])).words]


def _joined(first: Line, second: Line, is_one_word: bool) -> Line:
    return Line(
        min(first.left, second.left),
        min(first.top, second.top),
        max(first.right, second.right),
        max(first.bottom, second.bottom),
        first.words + second.words,
        first.text + ("" if is_one_word else " ") + second.text,
    )


class _Text:
    """Builds the text from columns of lines."""

    def __init__(self, hyphens: Hyphens, turns: int) -> None:
        self._hyphens = hyphens
        self._turns = turns
        self.text = ""
        self.lines: list[Line] = []

    def add_column(self, column: Sequence[Line]) -> None:
        column_rows = rows(column)
        left, right = min(row[0].left for row in column_rows), max(line.right for row in column_rows for line in row)
        full = sum(row[-1].right >= left + _FULL * (right - left) for row in column_rows)
        is_prose = len(column_rows) > 1 and full >= _FULL_SHARE * len(column_rows)
        steps = [after[0].bottom - before[0].bottom for before, after in pairwise(column_rows)]
        usual = statistics.median(steps) if steps else 0.0
        before: Sequence[Line] = []
        for number, row in enumerate(map(self._in_order, column_rows)):
            is_near = bool(number) and steps[number - 1] <= _PARAGRAPH * usual
            self._add_row(row, goes_on=is_near and _goes_on(before, row, left, right, is_prose=is_prose))
            before = row

    def _in_order(self, row: Sequence[Line]) -> Sequence[Line]:
        """The row in the order in which it is read, if words in it are read from the right."""
        if self._turns < 0 or not any(_is_from_right(word.text) for line in row for word in line.words):
            return row
        placed = [_Placed(*_level(word, self._turns), word) for line in row for word in line.words]
        return list(_as_read(sorted(placed, key=lambda item: item.left)))

    def _add_row(self, row: Sequence[Line], *, goes_on: bool) -> None:
        text = " ".join(line.text for line in row)
        self.lines += row
        if not self.text:
            self.text = text
        elif goes_on:
            self.text = self._hyphens.join(self.text, text)
        else:
            self.text += "\n" + text


def _goes_on(before: Sequence[Line], row: Sequence[Line], left: float, right: float, *, is_prose: bool) -> bool:
    """Whether a row continues the one before, which ended only because the column was full."""
    if _has_cells(before) or _has_cells(row):
        return False
    last, first = before[-1], row[0]
    if _HYPHENED.search(last.text) and (first.text[:1].islower() or first.text[:1].isdecimal()):
        return True
    if last.text.endswith(_SENTENCE_ENDS) or _POINT.match(first.text):
        return False
    if max(last.height, first.height) > _SAME_SIZE * min(last.height, first.height):
        return False
    if right - left < _NARROW * last.height:
        return False
    word = first.words[0]
    width = min(first.right - first.left, max(word.right - word.left, word.bottom - word.top))
    room = last.left - left if _is_from_right(last.text) else right - last.right
    has_room = _ROOM * last.height + width <= room
    if is_prose and first.text[:1].islower() and last.right >= left + _FULL * (right - left):
        return True
    return not has_room and (is_prose or first.text[:1].islower())


def _has_cells(row: Sequence[Line]) -> bool:
    return any(
        max(after.left - before.right, before.left - after.right) > _CELLS * before.height
        for before, after in pairwise(row)
    )


def largest_lines(lines: Sequence[Line]) -> list[Line]:
    """The first level lines in the largest letters, if these are larger than most; else none."""
    sizes: Counter[float] = Counter()
    level = [line for line in lines if all(word.turns == 0 for word in line.words)]
    for line in level:
        for word in line.words:
            sizes[round(word.size, 1)] += len(word.text)
    if not sizes:
        return []
    usual = sizes.most_common(1)[0][0]
    largest = max(sizes)
    if largest < _SAME_SIZE * usual:
        return []
    run: list[Line] = []
    for line in level:
        if max(round(word.size, 1) for word in line.words) >= 0.98 * largest:
            run.append(line)
        elif run:
            break
    return run
