"""The words on a page of XPS, at their places. A run of glyphs has its text, its origin and widths; what it does not
say is in its font."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fontTools.ttLib import TTFont, TTLibError

from ingest.readers.opc import DAMAGED_PART, Element, Package, first, local
from ingest.readers.pdf_words import PageWord
from ingest.readers.text import raised

_LARGEST_FONT = 30_000_000  # bytes
_POINTS = 0.75  # of a unit: 72 of 96 to an inch
_USUAL_WIDTH = 0.5  # of the size of the font
_ASCENT, _DESCENT = 0.75, 0.2  # of the size of the font
# (characters:glyphs) glyph number, width in hundredths of the size
_INDEX = re.compile(
    r"\s*(?:\((?P<letters>\d{1,4})(?::(?P<glyphs>\d{1,4}))?\))?(?P<glyph>\d{0,6})(?:,(?P<width>-?[\d.]+))?"
)
_GUID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})", re.IGNORECASE)
_HIDDEN_BYTES = 32  # at the begin of a font, combined with its name
_WORD = re.compile(r"\S+")
_TOUCHING = 0.08  # times the size: pieces of a word in other colours or fonts are nearer
_SMALL, _HIGH = 0.85, 0.15  # times the size of the word before: raised letters are smaller, and stand higher
_UNSEEN_COLOR = re.compile("#00[0-9a-f]{6}", re.IGNORECASE)

_Matrix = tuple[float, float, float, float, float, float]
_IDENTITY: _Matrix = (1, 0, 0, 1, 0, 0)


class Font(NamedTuple):
    widths: Mapping[int, float]  # by glyph number, in parts of the size
    glyphs: Mapping[str, int]
    letters: Mapping[int, str]


_NO_FONT = Font({}, {}, {})


class Fonts:
    """The fonts of a document, each parsed once. A font that cannot be parsed is left out: only widths are missing."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._fonts: dict[str, Font] = {}

    def font(self, uri: str) -> Font:
        part = uri.partition("#")[0].lstrip("/")
        if part not in self._fonts:
            try:
                self._fonts[part] = _parsed(part, self._package.read(part))
            except (*DAMAGED_PART, TTLibError, AssertionError, IndexError, AttributeError):
                self._fonts[part] = _NO_FONT
        return self._fonts[part]


def _parsed(part: str, data: bytes) -> Font:
    if len(data) > _LARGEST_FONT:
        return _NO_FONT
    if part.lower().endswith(".odttf") and (guid := _GUID.search(part)):
        key = bytes.fromhex("".join(guid.groups()))[::-1]
        data = bytes(byte ^ key[at % 16] for at, byte in enumerate(data[:_HIDDEN_BYTES])) + data[_HIDDEN_BYTES:]
    font = TTFont(io.BytesIO(data), lazy=True, fontNumber=0)
    per_size = font["head"].unitsPerEm or 1
    names = font.getReverseGlyphMap()
    widths = {names[name]: width / per_size for name, (width, _) in font["hmtx"].metrics.items() if name in names}
    letters = {names[name]: chr(code) for code, name in (font.getBestCmap() or {}).items() if name in names}
    return Font(widths, {letter: glyph for glyph, letter in letters.items()}, letters)


def words_of(page: Element, fonts: Fonts) -> list[PageWord]:
    """The visible words, in the order in which they are drawn. A word may consist of several runs."""
    words: list[PageWord] = []
    is_open = False  # the last run does not end with a space
    for run in _runs(page, fonts):
        first_word = run.words[0] if run.words else None
        if first_word is not None and words and is_open and not first_word.after_space:
            joined = _joined(words[-1], first_word)
            if joined is not None:
                words[-1:] = [joined, *run.words[1:]]
                is_open = not run.ends_with_space
                continue
        words += run.words
        is_open = not run.ends_with_space if run.words else False
    return words


def _joined(before: PageWord, word: PageWord) -> PageWord | None:
    """Both pieces as one word; None if they do not touch."""
    gap = max(word.left - before.right, before.left - word.right)
    baselines = (each.bottom - _DESCENT * each.size for each in (before, word))
    rise = next(baselines) - next(baselines)
    if before.turns or word.turns or gap > _TOUCHING * before.size or abs(rise) > before.size:
        return None
    is_raised = rise > _HIGH * before.size and word.size < _SMALL * before.size
    return before._replace(
        text=before.text + (raised(word.text) if is_raised else word.text),
        left=min(before.left, word.left),
        right=max(before.right, word.right),
    )


class _Run(NamedTuple):
    words: list[PageWord]
    ends_with_space: bool


def _runs(page: Element, fonts: Fonts) -> Iterator[_Run]:
    pending: list[tuple[Element, _Matrix]] = [(page, _IDENTITY)]
    while pending:
        element, outer = pending.pop()
        if _number(element.get("Opacity", "1")) == 0:
            continue
        matrix = _combined(_transform(element), outer)
        if local(element) == "Glyphs":
            if not _UNSEEN_COLOR.fullmatch(element.get("Fill", "")):
                yield _run(element, matrix, fonts)
        else:
            pending += ((child, matrix) for child in reversed(list(element.iterchildren("*"))))


def _run(run: Element, matrix: _Matrix, fonts: Fonts) -> _Run:
    size = _number(run.get("FontRenderingEmSize", "0"))
    text, ends = _measured(run, fonts.font(run.get("FontUri", "")), size)
    is_leftward = int(_number(run.get("BidiLevel", "0"))) % 2 == 1
    x, y = _number(run.get("OriginX", "0")), _number(run.get("OriginY", "0"))
    words: list[PageWord] = []
    for match in _WORD.finditer(text):
        left, right = ends[match.start()], ends[match.end()]
        if is_leftward:
            left, right = -right, -left
        corners = [
            _moved(matrix, x + across, y + down)
            for across in (left, right)
            for down in (-_ASCENT * size, _DESCENT * size)
        ]
        across, down = zip(*corners, strict=True)
        words.append(
            PageWord(
                match[0],
                min(across) * _POINTS,
                min(down) * _POINTS,
                max(across) * _POINTS,
                max(down) * _POINTS,
                size * _scale(matrix) * _POINTS,
                _turns(matrix),
                0,
                match.start() > 0,
            )
        )
    return _Run(words, text[-1:].isspace())


def _measured(run: Element, font: Font, size: float) -> tuple[str, list[float]]:
    """The text, and where each letter begins, from the origin; and the end of the last one."""
    text = run.get("UnicodeString", "").removeprefix("{}")
    indices = run.get("Indices", "")
    widths: list[float] = []  # of letters
    own: list[str] = []  # letters by glyph, where the run has no text
    left = 0  # glyphs of the same letters
    for entry in indices.split(";") if indices else ():
        match = _INDEX.match(entry)
        assert match is not None  # it may be empty
        letter = text[len(widths)] if len(widths) < len(text) else ""
        glyph = int(match["glyph"]) if match["glyph"] else font.glyphs.get(letter, 0)
        usual = font.widths.get(glyph, _USUAL_WIDTH)
        width = size * (_number(match["width"]) / 100 if match["width"] else usual)
        own.append(font.letters.get(glyph, ""))
        if left:
            left -= 1
            widths[-1] += width
            continue
        letters = int(match["letters"] or 1) or 1
        left = int(match["glyphs"] or 1) - 1
        widths += [width / letters] * letters
    text = text or "".join(letter or "\ufffd" for letter in own)
    for letter in text[len(widths) :]:
        widths.append(size * font.widths.get(font.glyphs.get(letter, -1), _USUAL_WIDTH))
    ends = [0.0]
    for width in widths:
        ends.append(ends[-1] + width)
    return text, ends


def _transform(element: Element) -> _Matrix:
    given = element.get("RenderTransform")
    if given is None:
        inner = first(element, f"{local(element)}.RenderTransform", "MatrixTransform")
        given = "" if inner is None else inner.get("Matrix", "")
    numbers = [_number(each) for each in given.replace(",", " ").split()]
    return (*numbers,) if len(numbers) == 6 else _IDENTITY  # type: ignore[return-value]


def _combined(inner: _Matrix, outer: _Matrix) -> _Matrix:
    a, b, c, d, e, f = inner
    g, h, i, j, k, m = outer
    return (a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m)


def _moved(matrix: _Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _scale(matrix: _Matrix) -> float:
    a, b, c, d, *_ = matrix
    return float(abs(a * d - b * c) ** 0.5)


def _turns(matrix: _Matrix) -> int:
    """Quarter turns counterclockwise, as in `PageWord`."""
    a, b, *_ = matrix
    if abs(b) < 0.05 * abs(a):
        return 0 if a > 0 else 2
    if abs(a) < 0.05 * abs(b):
        return 3 if b > 0 else 1
    return -1


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if abs(number) < 1e9 else 0.0
