"""Numbers of a spreadsheet as its formats show them (ECMA-376 part 1, 18.8.30 and 18.8.31), with units and currencies.

Dates and times are ISO's, since what a format shows of them depends on the language of the program. Numbers that a
format shows as fractions, in powers of ten, or in thousands are shown whole."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache

from ingest.readers.opc import Element, attribute, first

_DATES = dict.fromkeys((14, 15, 16, 17, 22, *range(27, 37), *range(50, 59)), "yyyy-mm-dd")
_TIMES = dict.fromkeys((18, 19, 20, 21, 45, 47), "h:mm")
_NUMBERS = {1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 37: "#,##0", 38: "#,##0"}
_NUMBERS |= {39: "#,##0.00", 40: "#,##0.00", 46: "[h]:mm:ss"}
_BUILT_IN = {**_NUMBERS, **_DATES, **_TIMES}
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.I)
# Of one form: a text, a currency, what takes room alone, a place for digits, and any other sign.
_FORM = re.compile(
    r'"(?P<text>[^"]*)"|\\(?P<sign>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]|(?P<nothing>_.|\*.|\[[^\]]*\])'
    r"|(?P<general>[Gg][Ee][Nn][Ee][Rr][Aa][Ll])|(?P<digits>[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+)|(?P<other>.)",
    re.DOTALL,
)
_SECTION_END = re.compile(r'((?:"[^"]*"|\\.|[^";\\])*)(?:;|\Z)', re.DOTALL)
_CONDITION = re.compile(r"\[[<>=]")
_OTHERWISE_SHOWN = set("eE/@,")  # powers of ten, fractions, texts, thousands
_GENERAL = "0.###############"
_MAX_DIGITS = 30
_LONGEST = 255  # characters of a form, by Excel's own limit
_DAY = timedelta(days=1)
_DAYS = range(-693_593, 2_958_466)  # of the years 1 to 9999
_DIGITS = 15  # that a spreadsheet keeps of a number


class CellFormats:
    def __init__(self, styles: Element | None, *, is_1904: bool) -> None:
        codes = dict(_BUILT_IN)
        for each in () if styles is None else styles.iter("{*}numFmt"):
            if attribute(each, "numFmtId").isdecimal():
                codes[int(attribute(each, "numFmtId"))] = attribute(each, "formatCode")[:_LONGEST]
        formats = first(styles, "cellXfs")
        numbers = [] if formats is None else [attribute(each, "numFmtId") for each in formats.iterchildren("{*}xf")]
        self._codes = [codes.get(int(each), "") if each.isdecimal() else "" for each in numbers]
        self._epoch = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)

    def shown(self, text: str, style: str) -> str:
        """`style` is the number of a format; without one the number is shown as it is."""
        code = self._codes[int(style)] if style.isdecimal() and int(style) < len(self._codes) else ""
        if not text or not code:
            return shown_number(text)
        try:
            value = float(text)
            int(value)  # neither infinite nor none
        except (ValueError, OverflowError):
            return text
        if int(value) in _DAYS and set(_plain(code)) & set("ymdhs"):
            return self._moment(value, _plain(code))
        return _number(text, code)

    def _moment(self, value: float, code: str) -> str:
        if "[" in code:
            seconds = round(value * _DAY.total_seconds())
            return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if 0 < value < 60 and self._epoch.year == 1899:
            value += 1  # Excel counts a 29 February 1900
        try:
            moment = self._epoch + timedelta(seconds=round(value * _DAY.total_seconds()))
        except OverflowError:  # behind the year 9999
            return shown_number(repr(value))
        if not set(code) & set("yd"):
            return moment.time().isoformat()
        return moment.date().isoformat() if moment.time() == datetime.min.time() else moment.isoformat()


def shown_number(text: str) -> str:
    """Without the digits that only rounding left."""
    if len(text) <= _DIGITS or not text.replace(".", "", 1).lstrip("-").isdecimal():
        return text
    return f"{float(text):.{_DIGITS}g}"


@lru_cache(1024)
def _plain(code: str) -> str:
    """The form for positive numbers, without texts, colours and conditions."""
    code = _LITERAL.sub("", code.split(";")[0]).lower()
    return "" if code == "general" else code


def _number(text: str, code: str) -> str:
    forms = _forms(code)
    try:
        value = Decimal(shown_number(text))
        has_own_form = len(forms) > 1 and value < 0
        form = forms[2] if len(forms) > 2 and not value else forms[1] if has_own_form else forms[0]
        if form is None:
            return shown_number(text)
        if not form.places:
            # A form without a place for digits shows its text alone, as "-" for nought; of colours alone, nothing.
            return form.text or shown_number(text)
        shown = form.shown(abs(value))
    except InvalidOperation:  # no number, or one of more digits than are counted with
        return text
    sign = "-" if value < 0 and not has_own_form and any("1" <= sign <= "9" for sign in shown) else ""
    return " ".join((sign + shown).split())


@lru_cache(1024)
def _forms(code: str) -> tuple[_Form | None, ...]:
    """For positive numbers, negative ones and nought; None for one that would lose digits, or has a condition."""
    forms, at = list[str](), 0
    while at < len(code):
        found = _SECTION_END.match(code, at)
        if found is None:  # a quote that is never closed
            return (None,)
        forms.append(found[1])
        at = found.end()
    if any(map(_CONDITION.search, forms)):
        return (None,)
    return tuple(_form(form) for form in forms or [""])


def _form(form: str) -> _Form | None:
    texts, places = [""], list[str]()
    for found in _FORM.finditer(form):
        if found["digits"] or found["general"]:
            places.append(found["digits"] or _GENERAL)
            texts.append("")
        elif (text := found["text"] or found["sign"] or found["currency"] or found["other"] or "") in _OTHERWISE_SHOWN:
            texts[-1] += "" if text == "@" else text
            places.append(",")
        else:
            texts[-1] += text
    digits = [each for each in places if each != ","]
    has_point = ["." in each for each in digits]
    if digits and (any(each.endswith(",") for each in places) or any(has_point[:-1])):
        return None
    return _Form(texts, digits)


class _Form:
    """Of one sign of numbers: texts, and places for digits between them."""

    def __init__(self, texts: list[str], places: list[str]) -> None:
        self.places = places
        self.text = "".join(texts).strip()
        self._texts = texts
        whole = "".join(each.partition(".")[0] for each in places)
        broken = "".join(each.partition(".")[2] for each in places)
        self._counts = [len(each.partition(".")[0].replace(",", "")) for each in places]
        self._with_point = max((at for at, each in enumerate(places) if "." in each), default=-1)
        self._least, self._zeros = broken.count("0"), whole.count("0")
        self._step = Decimal(1).scaleb(-min(len(broken), _MAX_DIGITS))
        self._is_grouped = "," in whole
        self._factor = 100 if "%" in self.text else 1

    def shown(self, value: Decimal) -> str:
        """The first place takes all digits that the others leave. Raises InvalidOperation for numbers of 28 digits."""
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
