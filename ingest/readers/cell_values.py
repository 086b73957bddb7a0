"""Numbers of a spreadsheet as their formats show them (ECMA-376 part 1, 18.8.30 and 18.8.31), with units and
currencies.

Powers of ten, fractions and thousands are followed by the whole number: `1.98E+08 (198356388)`, `2 1/2 (2.5)`,
`1.5M (1500000)`. Dates and times: see cell_dates.py."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

from ingest.readers.cell_dates import EPOCH, shown_moment, shows_moment
from ingest.readers.opc import Element, attribute, first

_DATES = {14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 22: "yyyy-mm-dd h:mm"}
_DATES |= dict.fromkeys((*range(27, 37), *range(50, 59)), "yyyy-mm-dd hh:mm:ss")  # by language: dates or times
_TIMES = {18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 45: "mm:ss", 47: "mm:ss.0"}
_NUMBERS = {1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 37: "#,##0", 38: "#,##0"}
_NUMBERS |= {11: "0.00E+00", 39: "#,##0.00", 40: "#,##0.00", 46: "[h]:mm:ss"}
_NUMBERS |= {12: "# ?/?", 13: "# ??/??", 48: "##0.0E+0"}
BUILT_IN = {**_NUMBERS, **_DATES, **_TIMES}
_NO_NUMBER = -1  # of a format
_ERRORS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}
_CONTROLS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # also what is no character
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
_QUOTED = re.compile(r'"[^"]*"|\\.')
_POWER = re.compile(r"(?P<whole>[0#?]+)(?:\.(?P<places>[0#?]+))?E[+-](?P<exponent>0+)", re.I)
_FRACTION = re.compile(r"(?:(?P<whole>[0#?]+) +)?[0#?]+ ?/ ?(?P<below>[#?]+|[1-9]\d*) *")
# Commas behind the digits of a format divide by a thousand each.
_THOUSANDS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]|(?<=[0#?])(?P<commas>,+)(?![0#?,])')
# The tokens of a number format: text, escaped character, currency, padding, digit placeholders, any other character.
_FORM = re.compile(
    r'"(?P<text>[^"]*)"|\\(?P<sign>.)|\[\$(?P<currency>[^\]-]*+)[^\]]*+\]|(?P<nothing>_.|\*.|\[[^\]]*\])'
    r"|(?P<general>[Gg][Ee][Nn][Ee][Rr][Aa][Ll])|(?P<digits>[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+)|(?P<other>.)",
    re.DOTALL,
)
_SECTION_END = re.compile(r'((?:"[^"]*"|\\.|[^";\\])*)(?:;|\Z)', re.DOTALL)
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)(-?(?:\d+\.?\d*|\.\d+)(?:E[+-]?\d+)?)\]", re.I)
_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne}
_OTHERWISE_SHOWN = set("eE/@,")  # signs of powers of ten, fractions, text, thousands
_GENERAL = "0.###############"
_MAX_DIGITS = 30
_LONGEST = 255  # characters of a format that are read, the limit of Excel
_MOST_SECTIONS = 3  # for numbers
_DAYS = range(-693_593, 2_958_466)  # serial days of the years 1 to 9999
_DIGITS = 15  # significant digits that a spreadsheet stores
_MOST_OF_FRACTION = 1e15


class CellFormats:
    """The number formats of a workbook, by style index."""

    def __init__(self, codes: Mapping[int, str], styles: Sequence[int], *, epoch: datetime) -> None:
        """`codes`: the formats of the workbook by their numbers; `styles`: of each style, the number of its format;
        `epoch`: the day before the first."""
        known = {**BUILT_IN, **{number: _CONTROLS.sub("", code) for number, code in codes.items()}}
        self._codes = [known.get(number, "") for number in styles]
        self.epoch = epoch

    @classmethod
    def of_styles(cls, styles: Element | None, *, epoch: datetime) -> CellFormats:
        """The formats in the part `styles` of a workbook of today."""
        declared = () if styles is None else styles.iter("{*}numFmt")
        codes = {_number_of(each): attribute(each, "formatCode") for each in declared}
        formats = first(styles, "cellXfs")
        used = () if formats is None else formats.iterchildren("{*}xf")
        codes.pop(_NO_NUMBER, None)
        return cls(codes, list(map(_number_of, used)), epoch=epoch)

    def code(self, style: int) -> str:
        """The format with the index `style`; empty for the general one, and for unknown ones."""
        return self._codes[style] if 0 <= style < len(self._codes) else ""

    def shown(self, text: str, style: int) -> str:
        """The number `text` in the format with index `style`; unformatted without a known format."""
        return formatted_value(text, self.code(style), self.epoch)

    def shown_text(self, text: str, style: int) -> str:
        """The text in the format with index `style`, which may add words: `"Nr. "@`."""
        code = self.code(style)
        return _around_text(_sections(code)).replace("@", text) if "@" in code and text else text


def _number_of(element: Element) -> int:
    number = attribute(element, "numFmtId")
    return int(number) if number.isdecimal() else _NO_NUMBER


class _Condition(NamedTuple):
    sign: str
    bound: float

    def holds(self, value: float) -> bool:
        return bool(_COMPARE[self.sign](value, self.bound))


class _Section(NamedTuple):
    """A section of a format, which shows the numbers that no section before it shows and for which `condition`
    holds."""

    code: str
    condition: _Condition | None
    is_unsigned: bool  # shows negative numbers only, without their sign


def formatted_value(text: str, code: str, epoch: datetime = EPOCH) -> str:
    """The number `text` in the format `code`. `epoch` is the day before the first."""
    if not text or not code:
        return shown_number(text)
    try:
        value = float(text)
        int(value)  # raises for infinity and NaN
    except (ValueError, OverflowError):
        return text
    sections = _number_sections(_sections(code))
    section = next((each for each in sections if not each.condition or each.condition.holds(value)), None)
    if section is None:
        return shown_number(text)
    if shows_moment(section.code):
        if int(value) not in _DAYS:
            return shown_number(text)
        return shown_moment(abs(value) if section.is_unsigned else value, section.code, epoch) or shown_number(text)
    return _power(value, section.code) or _fraction(value, section) or _number(text, section)


def _power(value: float, section: str) -> str:
    """A power of ten with the whole number behind it; empty if the format shows none."""
    match = _POWER.fullmatch(_LITERAL.sub("", section))
    if match is None:
        return ""
    number, digits = Decimal(repr(value)), min(len(match["whole"]), _DIGITS)
    step = Decimal(1).scaleb(-min(len(match["places"] or ""), _DIGITS))
    exponent = number.adjusted() // digits * digits if number else 0
    mantissa = number.scaleb(-exponent).quantize(step, ROUND_HALF_UP)
    if mantissa.adjusted() >= digits:  # after rounding
        exponent += digits
        mantissa = number.scaleb(-exponent).quantize(step, ROUND_HALF_UP)
    shown = f"{mantissa:f}E{'-' if exponent < 0 else '+'}{str(abs(exponent)).rjust(len(match['exponent']), '0')}"
    whole = f"{value:.{_DIGITS}g}"
    return shown if whole == shown else f"{shown} ({whole})"


def _fraction(value: float, section: _Section) -> str:
    """A fraction with the whole number behind it; empty if the format shows none."""
    match = _FRACTION.fullmatch(_LITERAL.sub("", section.code))
    if match is None or abs(value) > _MOST_OF_FRACTION:
        return ""
    below, number = match["below"], Fraction(abs(value))
    if below.isdigit():
        parts = Fraction(round(number * int(below)), int(below))
    else:
        parts = number.limit_denominator(10 ** min(len(below), _DIGITS) - 1)
    whole, rest = divmod(parts, 1) if match["whole"] else (0, parts)
    factor = int(below) // rest.denominator if below.isdigit() else 1  # as the format says, such as 2/4
    shown = f"{rest.numerator * factor}/{rest.denominator * factor}" if rest else ""
    shown = " ".join(filter(None, (str(whole) if whole or not rest else "", shown)))
    sign = "-" if value < 0 and not section.is_unsigned else ""
    return f"{sign}{shown} ({value:.{_DIGITS}g})" if rest else f"{sign}{shown}"


def error_text(code: int) -> str:
    """What a cell shows of an error with this code, in binary workbooks of any age."""
    return _ERRORS.get(code, "#N/A")


def packed_number(packed: int) -> float:
    """The number in 32 bits: an integer or the upper half of a float, perhaps to be divided by 100."""
    if packed & 2:
        value = float(packed >> 2)
    else:
        (value,) = struct.unpack("<d", bytes(4) + struct.pack("<i", packed & ~3))
    return value / 100 if packed & 1 else value


def shown_number(text: str) -> str:
    """The number without binary rounding noise: at most 15 significant digits."""
    if len(text) <= _DIGITS or not text.replace(".", "", 1).lstrip("-").isdecimal():
        return text
    return f"{float(text):.{_DIGITS}g}"


def _sections(code: str) -> tuple[str, ...]:
    """The sections of a format, which semicolons separate; none if a quote is not closed."""
    return _split(code[:_LONGEST])


@lru_cache(1024)
def _split(code: str) -> tuple[str, ...]:
    sections, at = list[str](), 0
    while at < len(code):
        match = _SECTION_END.match(code, at)
        if match is None:
            return ()
        sections.append(match[1])
        at = match.end()
    return tuple(sections)


@lru_cache(1024)
def _number_sections(sections: tuple[str, ...]) -> tuple[_Section, ...]:
    """The sections for numbers, each with its own condition or the usual one."""
    if len(sections) > 1 and _is_of_text(sections[-1]):
        sections = sections[:-1]
    sections = sections[:_MOST_SECTIONS]
    usual = [_Condition(">" if len(sections) > 2 else ">=", 0), _Condition("<", 0)][: len(sections) - 1]
    conditions: list[_Condition | None] = [*usual, None]
    for at, section in enumerate(sections):
        if match := _CONDITION.search(_QUOTED.sub("", section)):
            conditions[at] = _Condition(match[1], float(match[2]))
    return tuple(
        _Section(section, conditions[at], _is_of_negatives(conditions[at], conditions[:at]))
        for at, section in enumerate(sections)
    )


def _is_of_text(section: str) -> bool:
    return "@" in _LITERAL.sub("", section)


def _is_of_negatives(condition: _Condition | None, before: Sequence[_Condition | None]) -> bool:
    """Whether a section shows negative numbers only; `before`: the conditions of the sections before it."""
    if condition is None:
        first = before[0] if len(before) == 1 else None
        return first is not None and first.sign in (">", ">=") and first.bound <= 0
    return condition.sign in ("<", "<=") and condition.bound <= 0


@lru_cache(1024)
def _around_text(sections: tuple[str, ...]) -> str:
    """The section for texts, with `@` at the place of the text; `@` alone if there is no such section."""
    section = next(filter(_is_of_text, reversed(sections)), "@")
    pieces = (token["text"] or token["sign"] or token["other"] or "" for token in _FORM.finditer(section))
    shown = "".join(pieces)
    return shown if shown.count("@") == 1 else "@"


def _number(text: str, section: _Section) -> str:
    code, thousands = _without_thousands(section.code)
    form = _form(code)
    if form is None:
        return shown_number(text)
    try:
        value = Decimal(shown_number(text))
        if not form.places:
            # Formats without digit placeholders show only their text, as "-" for zero; formats of colours alone show
            # nothing.
            return form.text or shown_number(text)
        shown = form.shown(abs(value).scaleb(-3 * thousands))
    except InvalidOperation:  # not a number, or with more digits than Decimal keeps
        return text
    sign = "-" if value < 0 and not section.is_unsigned and any("1" <= sign <= "9" for sign in shown) else ""
    shown = " ".join((sign + shown).split())
    return f"{shown} ({shown_number(text)})" if thousands else shown


@lru_cache(1024)
def _without_thousands(code: str) -> tuple[str, int]:
    """The format without commas that divide by a thousand, and the number of these."""
    commas = sum(len(match["commas"] or "") for match in _THOUSANDS.finditer(code))
    return _THOUSANDS.sub(lambda match: "" if match["commas"] else match[0], code), commas


@lru_cache(1024)
def _form(form: str) -> _Form | None:
    """The section as placeholders and texts; None if it would drop digits."""
    texts, places = [""], list[str]()
    for token in _FORM.finditer(form):
        if token["digits"] or token["general"]:
            places.append(token["digits"] or _GENERAL)
            texts.append("")
        elif (text := token["text"] or token["sign"] or token["currency"] or token["other"] or "") in _OTHERWISE_SHOWN:
            texts[-1] += "" if text == "@" else text
            places.append(",")
        else:
            texts[-1] += text
    digits = [place for place in places if place != ","]
    has_point = ["." in place for place in digits]
    if digits and (any(place.endswith(",") for place in places) or any(has_point[:-1])):
        return None
    return _Form(texts, digits)


class _Form:
    """One part of a number format: digit placeholders with texts around them, len(texts) == len(places) + 1."""

    def __init__(self, texts: list[str], places: list[str]) -> None:
        self.places = places
        self.text = "".join(texts).strip()
        self._texts = texts
        whole = "".join(place.partition(".")[0] for place in places)
        broken = "".join(place.partition(".")[2] for place in places)
        self._counts = [len(place.partition(".")[0].replace(",", "")) for place in places]
        self._with_point = max((at for at, place in enumerate(places) if "." in place), default=-1)
        self._least = broken.rfind("0") + 1  # a 0 shows all places between it and the point
        self._zeros = len(whole.replace(",", "").lstrip("#?"))
        self._step = Decimal(1).scaleb(-min(len(broken), _MAX_DIGITS))
        self._is_grouped = "," in whole
        self._factor = 100 if "%" in self.text else 1

    def shown(self, value: Decimal) -> str:
        """Formats `value`; the first placeholder takes all digits left over. Raises InvalidOperation above 28
        digits."""
        whole, _, broken = f"{(value * self._factor).quantize(self._step, ROUND_HALF_UP):f}".partition(".")
        broken = broken[: self._least] + broken[self._least :].rstrip("0")
        whole = whole.lstrip("0").rjust(self._zeros, "0")
        shown = self._texts[-1]
        for at in range(len(self.places) - 1, -1, -1):
            count = min(self._counts[at], len(whole)) if at else len(whole)
            own, whole = whole[len(whole) - count :], whole[: len(whole) - count]
            if self._is_grouped and not at and own:
                own = f"{int(own):,}".rjust(len(own), "0")
            if at == self._with_point and broken:
                own = f"{own}.{broken}"
            shown = self._texts[at] + own + shown
        return shown
