"""Manual pages (roff with macros of man or mdoc): text with headings, without requests and escapes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile

from app.types.texts import ExtractedText
from ingest.readers.grids import render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import MANUAL
from ingest.readers.parts import Block
from ingest.readers.tables import join_blocks
from ingest.readers.text import decode_text

_CODING = re.compile(rb"""\A(?:[.']\\".*\n)?.*-\*-.*coding:\s*([\w-]{1,40})""")
_COMMENT = re.compile(r"[.']\s*\\[\"#]")
_HEADINGS = {"SH": 1, "SS": 2, "Sh": 1, "Ss": 2}
_BREAKS = {"PP", "P", "LP", "IP", "TP", "TQ", "HP", "RS", "RE", "sp", "br", "nf", "fi", "EX", "EE"} | {
    *("Pp", "Bl", "El", "Bd", "Ed", "Lp", "It", "UR", "MT", "SY", "YS", "D1", "Dl")
}
_VERBATIM, _FILLED = {"nf", "EX", "Bd", "SY"}, {"fi", "EE", "Ed", "YS"}
_FONTS = {"B", "I", "R", "SM", "SB"}
_ALTERNATING = {"BR", "BI", "RB", "RI", "IB", "IR"}
_WITH_TEXT = {"IP", "It", "HP", "D1", "Dl", "UR", "MT", "OP", "SY"}
# mdoc macros that print their words, with the sign in front.
_SIGNED = {"Fl": "-", "Op": "", "Ar": "", "Nm": "", "Cm": "", "Pa": "", "Xr": "", "Nd": "— "}
_NO_TEXT = {
    *("TH", "Dd", "Dt", "Os", "de", "ds", "nr", "if", "ie", "el", "ft", "ad", "hy", "nh", "so", "ne", "in", "ti"),
    *("UE", "ME"),
}
_ESCAPES = (
    (re.compile(r"\\[\"#].*"), ""),
    (re.compile(r"\\f(?:\[[^\]]{0,40}\]|\(..|.)"), ""),
    (re.compile(r"\\s(?:[-+]?\d{1,2}|\[[^\]]{0,40}\])"), ""),
    (re.compile(r"\\[mMFgkn](?:\[[^\]]{0,40}\]|\(..|.)"), ""),
    (re.compile(r"\\[hvlLwoZ]'[^']{0,80}'"), " "),
    (re.compile(r"\\\*(?:\[[^\]]{0,40}\]|\(..|.)"), ""),
    (re.compile(r"\\[&%:/,)acd^|!?{}tu]"), ""),
    (re.compile(r"\\[ ~0]"), " "),
    (re.compile(r"\\\["), r"\\("),
)
_CHARACTERS = {
    "em": "—",
    "en": "–",
    "hy": "-",
    "bu": "•",
    "lq": "“",
    "rq": "”",
    "oq": "‘",
    "cq": "’",
    "aq": "'",
    "dq": '"',
    "co": "©",
    "rg": "®",
    "tm": "™",
    "mu": "×",
    "+-": "±",
    "<=": "≤",
    ">=": "≥",
    "!=": "≠",
    "->": "→",
    "<-": "←",
    "ti": "~",
    "ha": "^",
    "rs": "\\",
    "ga": "`",
    "sq": "□",
    "ss": "ß",
    "Eu": "€",
    "Po": "£",
    "de": "°",
    "sc": "§",
    ":a": "ä",
    ":o": "ö",
    ":u": "ü",
    ":A": "Ä",
    ":O": "Ö",
    ":U": "Ü",
    "'e": "é",
    "`e": "è",
    "`a": "à",
    "^e": "ê",
    ",c": "ç",
    "~n": "ñ",
    "'a": "á",
    "'o": "ó",
    "'i": "í",
    "'u": "ú",
    "oA": "Å",
    "oa": "å",
    "/o": "ø",
    "ae": "æ",
}
_TAB = re.compile(r"\btab\s*\((.)\)", re.IGNORECASE)
_UNICODE = re.compile(r"\\\(u([0-9A-F]{4,6})\]")


def read_manual(data: bytes, limits: ReadLimits, charset: str) -> ExtractedText:
    coding = _CODING.match(data)
    decoded = decode_text(data, charset, coding[1].decode("ascii") if coding else "")
    page = _Page()
    text, marks, cells = join_blocks(page.blocks(decoded.text), limits)
    return ExtractedText(text, page.title, MANUAL, decoded.metadata, marks=marks, cells=cells)


class _Page:
    """Parses one page. `title` is set once `blocks` is exhausted."""

    def __init__(self) -> None:
        self.title = ""
        self._name = ""
        self._lines: list[str] = []
        self._is_verbatim = False
        self._waits_for_tag = False

    def blocks(self, text: str) -> Iterator[Block]:
        lines = iter(re.sub(r"\\\n", "", text).split("\n"))
        for line in lines:
            if not line.startswith((".", "'")):
                yield from self._text(line)
                continue
            if _COMMENT.match(line):
                continue
            name, words = _request(line)
            if name in ("de", "am", "ig"):  # a macro definition or ignored text
                end = words[1] if len(words) > 1 else ".."
                for skipped in lines:
                    if skipped.strip() in (end, f".{end}", ".."):
                        break
            elif name == "TS":
                yield from self._flush()
                yield from render_rows(_rows(takewhile(lambda line: not line.startswith((".TE", "'TE")), lines)))
            elif name in _HEADINGS:
                yield from self._flush()
                heading = " ".join(words) or _clean(next(lines, ""))
                yield Block(heading, _HEADINGS[name])
            else:
                yield from self._macro(name, words)
        yield from self._flush()

    def _text(self, line: str) -> Iterator[Block]:
        if line.strip():
            self._lines.append(_clean(line))
        elif self._is_verbatim:
            self._lines.append("")
        else:
            yield from self._flush()

    def _macro(self, name: str, words: list[str]) -> Iterator[Block]:
        if name in ("TH", "Dt") and words:
            self.title = f"{words[0].lower()}({words[1]})" if len(words) > 1 else words[0].lower()
        if name == "Nm":
            self._name = words[0] if words else self._name
            words = words or [self._name]
        if name in _BREAKS:
            yield from self._flush()
            self._is_verbatim = (self._is_verbatim or name in _VERBATIM) and name not in _FILLED
            if name in _WITH_TEXT and words:
                self._lines.append(_mdoc(words) if name == "It" else words[0])
        elif name in _NO_TEXT or not words:
            return
        elif name in _ALTERNATING:
            self._lines.append("".join(words))
        elif name in _FONTS or not name[0].isupper():
            self._lines.append(" ".join(words))
        else:
            self._lines.append(_mdoc([name, *words]))

    def _flush(self) -> Iterator[Block]:
        lines, self._lines = self._lines, []
        text = ("\n" if self._is_verbatim else " ").join(lines)
        if text.strip():
            yield Block(text.strip("\n") if self._is_verbatim else " ".join(text.split()))


def _rows(lines: Iterator[str]) -> Iterator[list[str]]:
    """The rows of a table (tbl): after options that end with `;` and formats that end with `.`. T{ begins a cell of
    several lines."""
    tab = "\t"
    for line in lines:
        if option := _TAB.search(line):
            tab = option[1]
        if line.rstrip().endswith("."):
            break
    row = ""
    is_block = False
    for line in lines:
        if is_block and line.startswith("T}"):
            row, is_block = row.rstrip() + line[2:], False
        elif is_block:
            row += " " + (" ".join(_request(line)[1]) if line.startswith((".", "'")) else line)
            continue
        elif line.startswith(".T&"):  # other formats follow
            for formats in lines:
                if formats.rstrip().endswith("."):
                    break
            continue
        elif line.startswith((".", "'")) or not line.strip("_= \t"):
            continue
        else:
            row = line
        if row.endswith("T{"):
            row, is_block = row[:-2], True
        else:
            yield [_clean(cell) for cell in row.split(tab)]


def _request(line: str) -> tuple[str, list[str]]:
    name, _, rest = line[1:].strip().partition(" ")
    rest = re.sub(r'\\".*', "", rest)
    try:
        words = shlex.split(rest.replace("\\", "\x00").replace("'", "\x01"), posix=True)
    except ValueError:  # an unclosed quote
        words = rest.replace('"', "").replace("\\", "\x00").replace("'", "\x01").split()
    return name, [_clean(word.replace("\x00", "\\").replace("\x01", "'")) for word in words]


def _mdoc(words: list[str]) -> str:
    """The text of an mdoc line, whose macros may be mixed with the words."""
    text, sign = "", ""
    for word in words:
        if word in _SIGNED or (len(word) == 2 and word[0].isupper() and word[1].islower()):
            sign = _SIGNED.get(word, "")
            continue
        is_sign = word in (",", ".", ";", ":", ")", "]", "?", "!")
        text += ("" if is_sign or not text or text.endswith(("(", "[")) else " ") + sign + word
        sign = "" if sign != "-" else sign
    return text


def _clean(text: str) -> str:
    for pattern, by in _ESCAPES:
        text = pattern.sub(by, text)
    text = _UNICODE.sub(lambda match: chr(min(int(match[1], 16), 0x10FFFF)), text)
    text = re.sub(r"\\\((..)\]?", lambda match: _CHARACTERS.get(match[1], ""), text)
    return re.sub(r"\\([-'`.\"])", r"\1", text).replace("\\e", "\\").replace("\\\\", "\\")
