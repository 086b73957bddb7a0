r"""Accents of TeX: `M\"unchen` is read as München, as it is printed, so that searches find it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO

from ingest.readers.limits import ReadLimits
from ingest.readers.parts import Opened, Piece
from ingest.readers.text import decoded_source, lines_of

_ACCENTS = dict(zip("`'^\"~=.", "\u0300\u0301\u0302\u0308\u0303\u0304\u0307", strict=True))
_NAMED = {"c": "\u0327", "H": "\u030b", "v": "\u030c", "u": "\u0306", "r": "\u030a", "k": "\u0328", "d": "\u0323"}
_LETTERS = {"ss": "ß", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å"}
_LETTERS |= {"AA": "Å", "i": "ı", "j": "ȷ"}
_SKIPPED = r"(?P<skipped>\\[\\$])"  # line ends, dollar signs
_FORMULAS = "(?:equation|align|alignat|flalign|gather|multline|eqnarray|displaymath|math)"
_SIGNS_OF_FORMULAS = re.compile(rf"\\(?:begin|end)\{{{_FORMULAS}\*?\}}|\\[\s\S]|\$\$?")
_ENDS_OF_FORMULAS = {"$": "$", "$$": "$$", r"\[": r"\]", r"\(": r"\)"}
_MOST_LINES = 200  # of a formula
# \"u, \"{u}, {\"u}, \c{c}, \c c, {\H o}, \ss{}, {\ss}, \ss followed by a blank. Only \i and \j take a blank.
_ACCENTED = re.compile(
    _SKIPPED + r"|(?P<open>\{)?\\(?:(?P<sign>[=.]|[`'^\"~]\s?)|(?P<name>[cHvurkd])(?=[\s{\\])\s?)"
    r"(?:\{(?P<braced>[A-Za-z]|\\[ij](?![A-Za-z]))\}|(?P<bare>[A-Za-z]|\\[ij](?![A-Za-z]) ?))(?(open)\})"
)
_NAMES = "|".join(sorted(_LETTERS, key=len, reverse=True))
_LETTER = re.compile(
    _SKIPPED + rf"|(?P<open>\{{)?\\(?P<name>{_NAMES})(?(open)\s*\}}|(?:\{{\}}|(?![A-Za-z])[ \t]?))",
)
# Columns that are set by \= and reached by \', \` and \>.
_TABBING = re.compile(r"\\(?P<kind>begin|end)\{tabbing\}")

_PIECES_WITH_TITLE = 1_000  # of the text, such as lines
_DEEPEST = 3  # commands within each other
_PLAIN = r"[^{}\\]|\\."
_BRACED = rf"(?:{_PLAIN}|\{{(?:{_PLAIN}|\{{(?:{_PLAIN}|\{{[^{{}}]{{0,200}}\}}){{0,500}}+\}}){{0,500}}+\}}){{0,500}}+"
_TITLE = re.compile(rf"^[ \t]*\\title\s*(?:\[[^\]]{{0,300}}\])?\s*\{{(?P<title>{_BRACED})\}}", re.MULTILINE | re.DOTALL)
_SIGNS = {ord("~"): " ", ord("{"): None, ord("}"): None}
_ESCAPED = re.compile(r"\\([^A-Za-z])")
_COMMENT = re.compile(r"(?<!\\)%[^\n]*\n?[ \t]*")
_NOTE = re.compile(
    r"\\(?:thanks|footnote|footnotemark|vspace|hspace|label)\*?(?:\[[^\]]*\])?(?:\{(?:[^{}]|\{[^{}]*\})*+\})?"
)
_COMMAND = re.compile(r"\\[A-Za-z]+\*?[ \t]*(?:\[[^\]]*\])?(?:\{([^{}]*)\})?")


def read_latex(stream: BinaryIO, limits: ReadLimits, charset: str) -> Opened:
    """Opens a LaTeX source; all of it is text but for its accents."""
    texts = decoded_source(stream, charset)
    read = _lettered(lines_of(texts))
    head = list(islice(read, _PIECES_WITH_TITLE))
    return Opened(_title("".join(head)), texts.metadata, map(Piece, chain(head, read)))


def _title(head: str) -> str:
    r"""What `\title` says, without its commands; empty without one."""
    found = _TITLE.search(head)
    if found is None:
        return ""
    title = _COMMENT.sub("", found["title"]).replace("\\\\", " ")
    for _ in range(_DEEPEST):
        title = _NOTE.sub("", title)
        title = _COMMAND.sub(r"\1", title)
    return " ".join(_ESCAPED.sub(r"\1", title.translate(_SIGNS)).split())


def _lettered(lines: Iterable[str]) -> Iterator[str]:
    is_tabbing = False
    for text, is_formula in _pieces(lines):
        was_tabbing = is_tabbing
        for match in _TABBING.finditer(text):
            is_tabbing = match["kind"] == "begin"
        yield text if is_formula or was_tabbing or is_tabbing else with_letters(text)


def _pieces(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is a formula. An empty line before its end shows that it is none: `5$`."""
    formula: list[str] = []
    end = ""  # of the formula
    for line in lines:
        at = 0
        for sign in _SIGNS_OF_FORMULAS.finditer(line):
            if end and sign[0] == end:
                yield "".join([*formula, line[at : sign.end()]]), True
                formula, at, end = [], sign.end(), ""
            elif not end and (end := _end_of(sign[0])):
                yield line[at : sign.start()], False
                at = sign.start()
        if not end:
            yield line[at:], False
            continue
        formula.append(line[at:])
        if not line.strip() or len(formula) == _MOST_LINES:
            yield from ((piece, False) for piece in formula)
            formula, end = [], ""
    yield from ((piece, False) for piece in formula)


def _end_of(sign: str) -> str:
    return sign.replace("begin", "end", 1) if sign.startswith(r"\begin") else _ENDS_OF_FORMULAS.get(sign, "")


def with_letters(text: str) -> str:
    """A text without formulas, with letters in place of the commands that print them. Unknown commands stay."""
    return _LETTER.sub(lambda match: match["skipped"] or _LETTERS[match["name"]], _ACCENTED.sub(_accented, text))


def _accented(match: re.Match[str]) -> str:
    if match["skipped"]:
        return match[0]
    base = (match["braced"] or match["bare"]).strip()
    mark = _ACCENTS[match["sign"].strip()] if match["sign"] else _NAMED[match["name"]]
    composed = unicodedata.normalize("NFC", base.removeprefix("\\") + mark)
    return composed if len(composed) == 1 else match[0]
