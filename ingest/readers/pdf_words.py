"""Words of a PDF page as PDFium finds them, with their positions on the page as shown."""

from __future__ import annotations

import ctypes
import math
import re
import statistics
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby, pairwise
from typing import NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from ingest.readers.garbled import is_garbled
from ingest.readers.glyph_names import GlyphNames
from ingest.readers.hyphens import english_words
from ingest.readers.text import raised

_HYPHEN, _NO_UNICODE = 0x02, 0xFFFE  # PDFium's codes for a hyphen at a line end, where it joins the lines
_BULLETS = {0xF0B7: "•", 0xF0A7: "▪", 0xF0A8: "□", 0xF0FC: "✓"}  # codes in symbol fonts
_LIGATURES = range(0xFB00, 0xFB07)
_ACCENTS = dict(
    zip("`´ˆ˜¨ˇ˚¸˝˘˙", map(chr, (*range(0x300, 0x304), 0x308, 0x30C, 0x30A, 0x327, 0x30B, 0x306, 0x307)), strict=True)
)
_TWICE = 0.12  # times its size: an equal letter nearer than this is a second drawing, for a bold look
_FAR = 0.9  # times its size: a wider gap begins another word
# A large first letter is at least so much larger than the word beside it, and the gap between them at most so wide.
_INITIAL, _BESIDE = 1.6, 0.5
_REST, _ONE_LETTER_WORDS = re.compile(r"[^\W\d_]+"), "AIOÀYE"
_STRAIGHT = math.radians(10)
_SMALL, _HIGH = 0.85, 0.15  # times the size of the largest letter: raised letters are smaller, and stand higher
_NUMBERS, _PARTS = re.compile(r"[+−-]?[0-9]+(?:[,–-][0-9]+)*"), re.compile(r"[+−-]?[0-9]+|.")


class PageWord(NamedTuple):
    """A word, in points from the upper left corner of the page as shown.

    `turns`: quarter turns of its line, counterclockwise; -1: neither level nor upright. `unsure`: letters without a
    Unicode mapping in their font. `after_space`: a space is drawn before it. `spacing`: points between its letters,
    usually 0.
    """

    text: str
    left: float
    top: float
    right: float
    bottom: float
    size: float
    turns: int
    unsure: int
    after_space: bool
    spacing: float = 0.0


class _Letter(NamedTuple):
    text: str
    left: float
    top: float
    right: float
    bottom: float
    size: float
    turns: int
    is_unsure: bool
    ends_line: bool
    at: int  # its number on the page


_SPACE = _Letter(" ", 0, 0, 0, 0, 0, 0, False, False, 0)


def words_of(page: pdfium.PdfPage) -> list[PageWord]:
    """The words on the page, in drawing order.

    Letters drawn twice for a bold look count once. If the text is garbled, retries with letters from the tables of
    embedded fonts.
    """
    across, down = page.get_size()

    def shown(names: GlyphNames | None) -> list[PageWord]:
        return [
            word
            for word in _with_initials(_words(_letters(page, text, names), _Baselines(page, text)))
            if word.right > 0 and word.bottom > 0 and word.left < across and word.top < down
        ]

    with closing(page.get_textpage()) as text:
        words = shown(None)
        if are_garbled(words):
            named = shown(GlyphNames(text))
            if not are_garbled(named):
                return named
        return words


def are_garbled(words: Sequence[PageWord]) -> bool:
    """Whether the letters without a Unicode mapping are no written text."""
    unsure = [word.text for word in words if word.unsure]
    return bool(unsure) and is_garbled(unsure)


def rectangle_of(
    page: pdfium.PdfPage, left: float, top: float, right: float, bottom: float
) -> tuple[float, float, float, float]:
    """Converts a rectangle in the page's own coordinates to left, top, right, bottom, in points from the upper left
    corner of the page as shown."""
    return _Placed(page).rectangle(left, top, right, bottom)


def _words(letters: Iterator[_Letter | None], baselines: _Baselines) -> Iterator[PageWord]:
    word: list[_Letter] = []
    after_space = True
    for letter in letters:
        if letter is None or letter.text == " ":
            if word:
                yield _word(word, after_space, baselines)
                word, after_space = [], False
            after_space = after_space or letter is not None
            continue
        if word and (word[-1].ends_line or _are_apart(word[-1], letter)):
            yield _word(word, after_space, baselines)
            word, after_space = [], False
        word.append(letter)
    if word:
        yield _word(word, after_space, baselines)


def _with_initials(words: Iterator[PageWord]) -> Iterator[PageWord]:
    """The words; a large first letter of a paragraph belongs to the word beside it."""
    held: PageWord | None = None
    is_first = True  # on its line
    for word in words:
        if held is not None and is_first and _is_initial(held, word):
            held = word._replace(text=held.text + word.text, left=held.left)
            continue
        if held is not None:
            yield held
            is_first = not (held.right <= word.left and held.top < word.bottom and word.top < held.bottom)
        held = word
    if held is not None:
        yield held


def _is_initial(before: PageWord, word: PageWord) -> bool:
    rest = _REST.match(word.text)
    if rest is None or word.after_space or len(before.text) > 1 or not before.text.isupper():
        return False
    if before.turns or word.turns:
        return False
    if before.size < _INITIAL * word.size or not before.top <= (word.top + word.bottom) / 2 <= before.bottom:
        return False
    is_near = 0 <= word.left - before.right <= _BESIDE * word.size
    is_one_word = len(rest[0]) == 1 or (before.text + rest[0]).lower() in english_words()
    return is_near and (is_one_word or before.text not in _ONE_LETTER_WORDS)


def _are_apart(before: _Letter, letter: _Letter) -> bool:
    if before.turns != letter.turns:
        return True
    if letter.turns < 0:
        return False
    far = _FAR * max(before.size, letter.size)
    across = max(letter.left - before.right, before.left - letter.right)
    down = max(letter.top - before.bottom, before.top - letter.bottom)
    if letter.turns % 2:
        across, down = down, across
    return across > far or down > 0


def _word(letters: list[_Letter], after_space: bool, baselines: _Baselines) -> PageWord:
    return PageWord(
        _spelled(_with_ligatures(_with_raised(letters, baselines))),
        min(letter.left for letter in letters),
        min(letter.top for letter in letters),
        max(letter.right for letter in letters),
        max(letter.bottom for letter in letters),
        max(letter.size for letter in letters),
        letters[0].turns,
        sum(letter.is_unsure for letter in letters),
        after_space,
        _spacing(letters),
    )


def _spacing(letters: list[_Letter]) -> float:
    if len(letters) < 2 or letters[0].turns % 2:
        return 0.0
    return statistics.median(after.left - before.right for before, after in pairwise(letters))


def _spelled(letters: list[_Letter]) -> str:
    """The text of the letters. An accent drawn as a sign of its own is combined with the letter below it."""
    texts: list[str] = []
    accent: _Letter | None = None
    for letter in letters:
        if accent is not None:
            texts.append(_under(accent, letter))
        elif letter.text not in _ACCENTS:
            texts.append(letter.text)
        accent = letter if accent is None and letter.text in _ACCENTS else None
    if accent is not None:
        texts.append(accent.text)
    return unicodedata.normalize("NFC", "".join(texts))


def _with_raised(letters: list[_Letter], baselines: _Baselines) -> list[_Letter]:
    """The letters; the digits of a small number that is set higher are raised ones."""
    sizes = [letter.size for letter in letters]
    if letters[0].turns or min(sizes) >= _SMALL * max(sizes):
        return letters
    base = letters[sizes.index(max(sizes))]
    highest = baselines.of(base) - _HIGH * base.size
    spelled: list[_Letter] = []
    for is_high, run in groupby(letters, lambda each: _is_small(each, base) and baselines.of(each) < highest):
        held = list(run)
        text = "".join(letter.text for letter in held)
        if is_high and len(text) == len(held) and _NUMBERS.fullmatch(text):
            text = "".join(map(raised, _PARTS.findall(text)))
            held = [letter._replace(text=digit) for letter, digit in zip(held, text, strict=True)]
        spelled += held
    return spelled


def _with_ligatures(letters: list[_Letter]) -> list[_Letter]:
    """Restores the order of letters that share a glyph: PDFium reverses them in text that runs from right to left."""
    if "".join([letter.text for letter in letters]).isascii():
        return letters
    ordered: list[_Letter] = []
    for _, glyph in groupby(letters, lambda letter: (letter.left, letter.top, letter.right, letter.bottom)):
        shared = list(glyph)
        is_from_right = len(shared) > 1 and any(
            unicodedata.bidirectional(each.text[0]) in ("R", "AL") for each in shared
        )
        ordered += shared[::-1] if is_from_right else shared
    return ordered


def _is_small(letter: _Letter, base: _Letter) -> bool:
    return letter.size < _SMALL * base.size


def _under(accent: _Letter, letter: _Letter) -> str:
    middle = (accent.left + accent.right) / 2
    if letter.text.isalpha() and letter.left <= middle <= letter.right:
        return {"ı": "i", "ȷ": "j"}.get(letter.text, letter.text) + _ACCENTS[accent.text]
    return accent.text + letter.text


def _letters(page: pdfium.PdfPage, text: pdfium.PdfTextPage, names: GlyphNames | None) -> Iterator[_Letter | None]:
    """Yields letters in drawing order; None where PDFium ends a word, a space where one is drawn."""
    place = _Placed(page)
    box = raw.FS_RECTF()
    drawn = _Drawn(text)
    turned: dict[int, int] = {}
    high = 0
    for at in range(text.count_chars()):
        code = raw.FPDFText_GetUnicode(text, at)
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code, high = 0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF) if high else 0xFFFD, 0
        if code in (0x0A, 0x0D) and raw.FPDFText_IsGenerated(text, at) == 1:
            yield None
            continue
        if code in (0x20, 0xA0, 0x09, 0x3000):
            is_drawn = raw.FPDFText_IsGenerated(text, at) != 1
            yield _SPACE if is_drawn else None
            continue
        if not raw.FPDFText_GetLooseCharBox(text, at, box):
            continue
        left, top, right, bottom = place.rectangle(box.left, box.top, box.right, box.bottom)
        if right - left + bottom - top <= 0:
            continue
        angle = raw.FPDFText_GetCharAngle(text, at)
        turns = turned.get(key := round(angle * 100))
        if turns is None:
            turns = turned[key] = place.turns(angle)
        size = (right - left) if turns % 2 else (bottom - top)
        letter = _letter_of(code)
        is_unsure = raw.FPDFText_HasUnicodeMapError(text, at) == 1 or letter == "\ufffd"
        if is_unsure and names is not None and (named := names.letter(at, code)):
            letter = named
            if letter.isspace():
                yield _SPACE
                continue
        if letter and not drawn.holds(code, left, top, size, at=at):
            yield _Letter(letter, left, top, right, bottom, size, turns, is_unsure, code in (_HYPHEN, _NO_UNICODE), at)


def _letter_of(code: int) -> str:
    """The text of a character code; the replacement character for codes without a meaning."""
    if code in (_HYPHEN, _NO_UNICODE):
        return "-"
    if code in _LIGATURES:
        return unicodedata.normalize("NFKC", chr(code))
    if code in _BULLETS:
        return _BULLETS[code]
    if code in (0, 0xFEFF, 0x200B):
        return ""
    if code < 32 or 0x7F <= code < 0xA0 or 0xE000 <= code < 0xF900 or code & 0xFFFF >= 0xFFFF:
        return "\ufffd"
    return chr(code)


class _Drawn:
    """Letters of a page drawn so far, by code and position."""

    def __init__(self, text: pdfium.PdfTextPage) -> None:
        self._text = text
        self._seen: dict[tuple[int, int, int], tuple[float, float, int]] = {}

    def holds(self, code: int, left: float, top: float, size: float, *, at: int) -> bool:
        """Whether letter number `at` is drawn over an equal one. If not, records it."""
        step = max(_TWICE * size, 0.01)
        column, row = int(left / step), int(top / step)
        for x in (column, column - 1, column + 1):
            for y in (row, row - 1, row + 1):
                other = self._seen.get((code, x, y))
                if other and abs(other[0] - left) < step and abs(other[1] - top) < step:
                    return not self._is_ligature(other[2], at)
        self._seen[code, column, row] = left, top, at
        return False

    def _is_ligature(self, before: int, at: int) -> bool:
        """Whether both letters belong to one glyph, such as ff, and so have the same position."""
        if at - before != 1:
            return False
        objects = [raw.FPDFText_GetTextObject(self._text, number) for number in (before, at)]
        return ctypes.cast(objects[0], ctypes.c_void_p).value == ctypes.cast(objects[1], ctypes.c_void_p).value


class _Baselines:
    """Where letters stand, in points from the top of the page as shown: their boxes depend on the font."""

    def __init__(self, page: pdfium.PdfPage, text: pdfium.PdfTextPage) -> None:
        self._place, self._text = _Placed(page), text
        self._x, self._y = ctypes.c_double(), ctypes.c_double()

    def of(self, letter: _Letter) -> float:
        raw.FPDFText_GetCharOrigin(self._text, letter.at, self._x, self._y)
        return self._place.rectangle(self._x.value, self._y.value, self._x.value, self._y.value)[1]


class _Placed:
    """Converts the page's own coordinates to points on the page as shown, which is cropped and rotated."""

    def __init__(self, page: pdfium.PdfPage) -> None:
        self._quarters = page.get_rotation() // 90 % 4
        self._left, self._bottom, self._right, self._top = _shown(page)

    def rectangle(self, left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        corners = [self._point(left, top), self._point(right, bottom)]
        (x0, y0), (x1, y1) = corners
        return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)

    def _point(self, x: float, y: float) -> tuple[float, float]:
        if self._quarters == 0:
            return x - self._left, self._top - y
        if self._quarters == 1:
            return y - self._bottom, x - self._left
        if self._quarters == 2:
            return self._right - x, y - self._bottom
        return self._top - y, self._right - x

    def turns(self, angle: float) -> int:
        quarters = angle / (math.pi / 2)
        nearest = round(quarters)
        if abs(quarters - nearest) * (math.pi / 2) > _STRAIGHT:
            return -1
        return (-nearest - self._quarters) % 4


def _shown(page: pdfium.PdfPage) -> tuple[float, float, float, float]:
    """The visible part of the page: left, bottom, right, top."""
    box = raw.FS_RECTF()
    if raw.FPDF_GetPageBoundingBox(page, box):
        return box.left, box.bottom, box.right, box.top
    return page.get_mediabox()
