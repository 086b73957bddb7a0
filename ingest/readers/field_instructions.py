"""Fields of Word without a result, which show what their instruction says: buttons, signs, formulas, readings."""

from __future__ import annotations

import re
from typing import NamedTuple

_BUTTONS = {"MACROBUTTON", "GOTOBUTTON"}
LONGEST_INSTRUCTION = 1_000  # characters that are read
# The base of a word, and its reading above it: \o\al(\s\up 11(reading),base)
_READING = re.compile(
    r"\\o *\\a[a-z]? *\( *\\s *\\up *\d* *\((?P<reading>[^()]*)\) *[,;](?P<base>.*)\)", re.I | re.DOTALL
)
_SWITCHES = re.compile(r'\\\* *(?:"[^"]*"|[^ \\]+)|\\[a-z]+ ?\d*|[(),;]', re.I)  # of a formula
_SIGN = re.compile(r"(?P<code>0x[0-9a-f]{1,6}|[1-9]\d{0,6}|0)(?: +\\f +\"?(?P<font>[^\"\\]{1,60}))?", re.I)
_PRIVATE = range(0xE000, 0xF900)  # characters with a meaning only in one font
# Letters in the font Symbol → the Greek letters that it shows.
_SYMBOLS = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "αβχδεφγηιϕκλμνοπθρστυϖωξψζΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
)
# Codes in the fonts Wingdings and Wingdings 2 → boxes, check marks and arrows that say something.
_WINGDINGS = dict(zip((0x6F, 0xA8, 0xFC, 0xFB, 0xFD, 0xFE, 0xDF, 0xE0, 0xE8), "☐☐✓✗☒☑←→→", strict=True))
_WINGDINGS_2 = dict(zip((0x4F, 0x50, 0x51, 0x52, 0x53, 0x54, 0xA3), "✗✓☒☑☒☒☐", strict=True))
_PICTURES = {"Wingdings": _WINGDINGS, "Wingdings 2": _WINGDINGS_2}


class Instructed(NamedTuple):
    text: str
    reading: str = ""  # that stands above the text


def shown_instruction(instruction: str) -> Instructed:
    """What a field with this instruction and without a result shows; empty for most."""
    kind, _, rest = instruction.strip()[:LONGEST_INSTRUCTION].partition(" ")
    rest = rest.strip()
    if kind.upper() in _BUTTONS:
        return Instructed(rest.partition(" ")[2].strip())
    if kind.upper() == "EQ":
        if match := _READING.search(rest):
            return Instructed(match["base"].strip(), match["reading"].strip())
        return Instructed(" ".join(_SWITCHES.sub(" ", rest).split()))
    if kind.upper() == "SYMBOL" and (match := _SIGN.match(rest)):
        return Instructed(shown_sign(int(match["code"], 0), (match["font"] or "").strip()))
    return Instructed("")


def shown_sign(code: int, font: str) -> str:
    """The sign with this code in a font; empty for one that only the font knows."""
    if (pictures := _PICTURES.get(font)) is not None:
        return pictures.get(code & 0xFF, "")
    if font == "Symbol" and (code & 0xFF) < 0x80 and (code < 0x80 or code in _PRIVATE):
        return chr(code & 0xFF).translate(_SYMBOLS)
    return chr(code) if code not in _PRIVATE and code < 0x110000 else ""
