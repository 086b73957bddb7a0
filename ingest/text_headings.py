"""Finds the headings in plain-text markup: Markdown, reStructuredText, AsciiDoc, Org."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from app.types.texts import Mark

_MARKUP_HEADING = re.compile(r"[ ]{0,3}<h(?P<level>[1-6])\b[^>]*>(?P<text>.*)</h(?P=level)>[ \t]*", re.IGNORECASE)
_WORD = re.compile(r"\w")
_ATX = re.compile(r"[ ]{0,3}(?P<level>#{1,6})[ \t]++.*[^\s#][ \t#]*")
_FENCE = re.compile(r"[ ]{0,3}(?P<sign>`{3,}|~{3,})")
_SETEXT = re.compile(r"[ ]{0,3}(?P<sign>=|-)(?P=sign){2,}[ \t]*")
# Lines of lists, quotes, tables and code: dashes below them do not make them a heading.
_NO_PARAGRAPH = re.compile(r"[ \t]{4}|[ \t]*(?:[-*+>|#]|\d+[.)][ \t]|```|~~~|<)|.*\|")
_FRONT_MATTER = re.compile(r"\A\ufeff?(?P<sign>---|\+\+\+)[ \t]*\n.*?^(?P=sign)[ \t]*$", re.MULTILINE | re.DOTALL)
_ADORNMENT = re.compile(r"""(?P<sign>[!-/:-@\[-`{-~])(?P=sign)+[ \t]*""")
_FEWEST_SIGNS = 3
_SURELY_ADORNED = 4  # signs: docutils takes a shorter underline below a longer title for text
_ASCIIDOC = re.compile(r"(?P<level>={1,6}|#{1,6})[ \t]+\S.*")
_ASCIIDOC_BLOCK = re.compile(r"([-.+/])\1{3,}[ \t]*|```.*")
_ORG = re.compile(r"(?P<level>\*{1,8})[ \t]+\S.*")
_ORG_BLOCK = re.compile(r"[ \t]*#\+(?P<edge>begin|end)_", re.IGNORECASE)
_LOWEST = 6


class Headings(Protocol):
    def marks(self, part: str, begin: int) -> tuple[Mark, ...]:
        """The headings of one part of a text. `begin` is the number of characters before this part.

        Offsets of marks count from the start of the whole text. Parsers keep state: call it once per part, in order.
        """


class _Line(NamedTuple):
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class MarkdownHeadings:
    """Headings with `#`, underlined with `=` or `-`, or in HTML on one line. Skips code, comments and front
    matter."""

    def __init__(self) -> None:
        self._fence = ""
        self._is_comment = False

    def marks(self, part: str, begin: int) -> tuple[Mark, ...]:
        return tuple(self._marks(part, begin))

    def _marks(self, part: str, begin: int) -> Iterator[Mark]:
        skipped = _FRONT_MATTER.match(part) if begin == 0 else None
        before, last = _NO_LINE, _NO_LINE
        for line in _lines(part, begin, skipped.end() if skipped else 0):
            if self._is_text(line.text):
                if atx := _ATX.fullmatch(line.text):
                    yield Mark(line.start, line.end, len(atx["level"]))
                    line = _NO_LINE
                elif (element := _MARKUP_HEADING.fullmatch(line.text)) and _WORD.search(element["text"]):
                    yield Mark(line.start, line.end, int(element["level"]))
                    line = _NO_LINE
                elif (under := _SETEXT.fullmatch(line.text)) and _is_paragraph(before, last):
                    yield Mark(last.start, line.end, 1 if under["sign"] == "=" else 2)
                    line = _NO_LINE
            else:
                line = _NO_LINE
            before, last = last, line

    def _is_text(self, line: str) -> bool:
        """Whether the line is neither code nor comment. Tracks open blocks: call it once per line."""
        if self._is_comment:
            self._is_comment = "-->" not in line
            return False
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence["sign"].startswith(self._fence) and not line[fence.end() :].strip():
                self._fence = ""
            return False
        if fence:
            self._fence = fence["sign"]
            return False
        if line.lstrip().startswith("<!--"):
            self._is_comment = "-->" not in line
            return False
        return True


class RestructuredHeadings:
    """Headings with an underline, and optionally an overline. Each kind of line is a level, numbered as they appear."""

    def __init__(self) -> None:
        self._kinds: list[tuple[str, bool]] = []

    def marks(self, part: str, begin: int) -> tuple[Mark, ...]:
        return tuple(self._marks(part, begin))

    def _marks(self, part: str, begin: int) -> Iterator[Mark]:
        before, last = _NO_LINE, _NO_LINE
        for line in _lines(part, begin, 0):
            under = _ADORNMENT.fullmatch(line.text)
            if under and self._is_title(last.text, line.text):
                is_boxed = before.text.rstrip() == line.text.rstrip()
                if is_boxed or (not before.text.strip() and not last.text[0].isspace()):
                    kind = under["sign"], is_boxed
                    if kind not in self._kinds:
                        self._kinds.append(kind)
                    start = before.start if is_boxed else last.start
                    yield Mark(start, line.end, min(self._kinds.index(kind) + 1, _LOWEST))
                    line = _NO_LINE
            before, last = last, line

    @staticmethod
    def _is_title(title: str, adornment: str) -> bool:
        count = len(adornment.rstrip())
        if not title.strip() or _ADORNMENT.fullmatch(title) or count < _FEWEST_SIGNS:
            return False
        return count >= _SURELY_ADORNED or count >= len(title.rstrip())


class AsciidocHeadings:
    """Headings with `=` or `#`. Skips listings, literals and comments."""

    def __init__(self) -> None:
        self._block = ""

    def marks(self, part: str, begin: int) -> tuple[Mark, ...]:
        return tuple(self._marks(part, begin))

    def _marks(self, part: str, begin: int) -> Iterator[Mark]:
        for line in _lines(part, begin, 0):
            edge = line.text.rstrip()
            if self._block:
                if edge == self._block:
                    self._block = ""
            elif _ASCIIDOC_BLOCK.fullmatch(edge):
                self._block = "```" if edge.startswith("```") else edge
            elif match := _ASCIIDOC.fullmatch(line.text):
                yield Mark(line.start, line.end, len(match["level"]))


class OrgHeadings:
    """Headings with `*`. Skips blocks."""

    def __init__(self) -> None:
        self._is_block = False

    def marks(self, part: str, begin: int) -> tuple[Mark, ...]:
        return tuple(self._marks(part, begin))

    def _marks(self, part: str, begin: int) -> Iterator[Mark]:
        for line in _lines(part, begin, 0):
            if edge := _ORG_BLOCK.match(line.text):
                self._is_block = edge["edge"].lower() == "begin"
            elif not self._is_block and (match := _ORG.fullmatch(line.text)):
                yield Mark(line.start, line.end, min(len(match["level"]), _LOWEST))


_NO_LINE = _Line("", 0)


def _is_paragraph(before: _Line, line: _Line) -> bool:
    return bool(line.text.strip()) and not before.text.strip() and not _NO_PARAGRAPH.match(line.text)


def _lines(part: str, begin: int, skipped: int) -> Iterator[_Line]:
    at = skipped
    while at < len(part):
        end = part.find("\n", at)
        end = len(part) if end < 0 else end
        yield _Line(part[at:end], begin + at)
        at = end + 1
