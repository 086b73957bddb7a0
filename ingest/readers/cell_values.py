"""Numbers of a spreadsheet as its formats show them: dates, times, durations, percentages."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from ingest.readers.opc import Element, attribute, first

_DATES = dict.fromkeys((14, 15, 16, 17, 22, *range(27, 37), *range(50, 59)), "yyyy-mm-dd")
_TIMES = dict.fromkeys((18, 19, 20, 21, 45, 47), "h:mm")
_BUILT_IN = {9: "0%", 10: "0.00%", 46: "[h]:mm:ss", **_DATES, **_TIMES}
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.I)
_DAY = timedelta(days=1)
_DAYS = range(-693_593, 2_958_466)  # of the years 1 to 9999
_DIGITS = 15  # that a spreadsheet keeps of a number


class CellFormats:
    def __init__(self, styles: Element | None, *, is_1904: bool) -> None:
        codes = dict(_BUILT_IN)
        for each in () if styles is None else styles.iter("{*}numFmt"):
            if attribute(each, "numFmtId").isdecimal():
                codes[int(attribute(each, "numFmtId"))] = attribute(each, "formatCode")
        formats = first(styles, "cellXfs")
        numbers = [] if formats is None else [attribute(each, "numFmtId") for each in formats.iterchildren("{*}xf")]
        self._codes = [_plain(codes.get(int(each), "")) if each.isdecimal() else "" for each in numbers]
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
        if "%" in code:
            return f"{value:.{len(code.partition('.')[2].partition('%')[0])}%}"
        if int(value) not in _DAYS or not set(code) & set("ymdhs"):
            return shown_number(text)
        return self._moment(value, code)

    def _moment(self, value: float, code: str) -> str:
        if "[" in code:
            seconds = round(value * _DAY.total_seconds())
            return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if 0 < value < 60 and self._epoch.year == 1899:
            value += 1  # Excel counts a 29 February 1900
        moment = self._epoch + timedelta(seconds=round(value * _DAY.total_seconds()))
        if not set(code) & set("yd"):
            return moment.time().isoformat()
        return moment.date().isoformat() if moment.time() == datetime.min.time() else moment.isoformat()


def shown_number(text: str) -> str:
    """Without the digits that only rounding left."""
    if len(text) <= _DIGITS or not text.replace(".", "", 1).lstrip("-").isdecimal():
        return text
    return f"{float(text):.{_DIGITS}g}"


def _plain(code: str) -> str:
    """The form for positive numbers, without texts, colours and conditions."""
    code = _LITERAL.sub("", code.split(";")[0]).lower()
    return "" if code == "general" else code
