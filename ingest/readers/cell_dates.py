"""Dates and times of a spreadsheet as their formats show them (ECMA-376 part 1, 18.8.31).

Names of months and days are shown in the language of the format, as are words, with the date in ISO 8601 behind them,
since they often lack the century: `17-May-07 (2007-05-17)`, `5月17日 (2007-05-17)`. Dates of digits alone become ISO
8601, because their order depends on the language of the program."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from functools import lru_cache
from itertools import chain
from locale import windows_locale
from typing import NamedTuple

from babel import Locale, UnknownLocaleError

EPOCH, EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
_DAY = timedelta(days=1)
_ENGLISH = "en"
# The tokens of a format for dates: text, escaped character, language, elapsed time, other brackets and padding, halves
# of the day, date and time, any other character.
_TOKEN = re.compile(
    r'"(?P<text>[^"]*)"|\\(?P<sign>.)|\[\$[^\]-]*+-(?P<language>[^\]]*+)\]|\[(?P<elapsed>h+|m+|s+)\]'
    r"|(?P<nothing>_.|\*.|\[[^\]]*\])|(?P<halves>am/pm|a/p|上午/下午|午前/午後|오전/오후)"
    r"|(?P<part>y+|m+|d+|h+|s+|\.0+)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_HEXADECIMAL = re.compile(r"[0-9A-F]+", re.IGNORECASE)
_DATE, _TIME = {"y", "month", "d"}, {"h", "minute", "s", "elapsed"}
_SECONDS = {"h": 3600, "m": 60, "s": 1}
_ERAS = {"e", "g"}  # years of emperors
_SIGNS_OF_ISO = {"T", "Z"}
_MOST_PLACES = 6  # of a second: datetime knows no more


class _Piece(NamedTuple):
    kind: str  # y, month, d, h, minute, s, fraction, halves, elapsed, era; empty for text
    text: str


_NOTHING = _Piece("", "")


def shows_moment(code: str) -> bool:
    """Whether a format shows a date or a time; `code` is its section for positive numbers."""
    return any(piece.kind in _DATE | _TIME for piece in _pieces(code))


def shown_moment(value: float, code: str, epoch: datetime) -> str | None:
    """The date or time that a cell shows; None if the calendar ends before. `epoch` is the day before the first.

    Times of day below zero are shown with a sign, as in the calendar of 1904; in that of 1900, Excel shows none."""
    pieces = _pieces(code)
    kinds = {piece.kind for piece in pieces}
    if "elapsed" in kinds:
        return _elapsed(value, pieces)
    if value < 0 and not kinds & _DATE:
        shown = shown_moment(-value, code, epoch)
        return f"-{shown}" if shown and re.search("[1-9]", shown) else shown
    if 0 < value < 60 and epoch == EPOCH:
        value += 1  # Excel counts a 29 February 1900, which did not exist
    try:
        moment = epoch + timedelta(seconds=round(value * _DAY.total_seconds(), _places(pieces)))
    except OverflowError:  # after the year 9999
        return None
    if not kinds & _DATE:
        return _text(moment, pieces, _ENGLISH)
    date = moment.date().isoformat()
    if any(map(_is_name, pieces)) and "era" not in kinds:
        return f"{_text(moment, pieces, _language(code))} ({date})"
    at = [number for number, piece in enumerate(pieces) if piece.kind in _TIME | {"fraction", "halves"}]
    if not at or moment.time() == time():
        return date
    return f"{date} {_text(moment, pieces[at[0] : at[-1] + 1], _ENGLISH)}"


@lru_cache(1024)
def _pieces(code: str) -> tuple[_Piece, ...]:
    pieces = [_Piece(*_kind(token)) for token in _TOKEN.finditer(code)]
    parts = [number for number, piece in enumerate(pieces) if piece.kind]
    for place, number in enumerate(parts):
        before = pieces[parts[place - 1]] if place else _NOTHING
        after = pieces[parts[place + 1]] if place + 1 < len(parts) else _NOTHING
        kind, text = pieces[number]
        is_by_a_time = before.kind == "h" or (before.kind == "elapsed" and before.text[0] == "h") or after.kind == "s"
        if kind == "month" and len(text) < 3 and is_by_a_time:
            pieces[number] = _Piece("minute", text)
    return tuple(pieces)


def _kind(token: re.Match[str]) -> tuple[str, str]:
    if part := (token["part"] or "").lower():
        return {".": "fraction", "m": "month"}.get(part[0], part[0]), part
    if token["elapsed"]:
        return "elapsed", token["elapsed"].lower()
    if token["halves"]:
        return "halves", token["halves"]
    kind = "era" if (token["other"] or "").lower() in _ERAS else ""
    return kind, token["text"] or token["sign"] or token["other"] or ""


def _is_name(piece: _Piece) -> bool:
    """Whether it shows the name of a month or day, or a word, as in `m月d日`. T and Z of ISO 8601 are no words."""
    if piece.kind:
        return piece.kind in ("month", "d") and len(piece.text) > 2
    return piece.text.strip().isalpha() and piece.text not in _SIGNS_OF_ISO


def _places(pieces: tuple[_Piece, ...]) -> int:
    """The decimal places of the seconds that a format shows; digits beyond them are rounded."""
    longest = max((len(piece.text) - 1 for piece in pieces if piece.kind == "fraction"), default=0)
    return min(longest, _MOST_PLACES)


def _elapsed(value: float, pieces: tuple[_Piece, ...]) -> str:
    places = _places(pieces)
    parts = round(abs(value) * _DAY.total_seconds() * 10**places)
    seconds, fraction = divmod(parts, 10**places)
    texts = ["-" if value < 0 and parts else ""]
    for kind, text in pieces:
        unit = {"month": "m", "minute": "m"}.get(kind, text[:1] if kind == "elapsed" else kind)
        if kind == "elapsed":
            texts.append(str(seconds // _SECONDS[unit]).rjust(len(text), "0"))
        elif unit in _SECONDS:
            texts.append(str(seconds // _SECONDS[unit] % 60).rjust(len(text), "0"))
        elif kind == "fraction":
            texts.append(f".{fraction:0{places}}")
        elif not kind:
            texts.append(text)
    return " ".join("".join(texts).split())


def _text(moment: datetime, pieces: tuple[_Piece, ...], language: str) -> str:
    has_halves = any(piece.kind == "halves" for piece in pieces)
    shown = (_shown(moment, piece, language, has_halves=has_halves) for piece in pieces)
    return " ".join("".join(shown).split())


def _shown(moment: datetime, piece: _Piece, language: str, *, has_halves: bool) -> str:
    kind, text = piece
    if kind == "y":
        return f"{moment.year:04}" if len(text) > 2 else f"{moment.year % 100:02}"
    if kind in ("month", "d") and len(text) > 2:
        return _name(moment, piece, language)
    if kind == "halves":
        half = text.split("/")[moment.hour >= 12]
        return half.upper() if len(half) == 2 else half
    if kind == "fraction":
        return f"{moment.microsecond / 1e6:.{min(len(text) - 1, _MOST_PLACES)}f}"[1:]
    hour = (moment.hour % 12 or 12) if has_halves else moment.hour
    number = {"month": moment.month, "d": moment.day, "h": hour, "minute": moment.minute, "s": moment.second}.get(kind)
    return text if number is None else str(number).rjust(min(len(text), 2), "0")


def _name(moment: datetime, piece: _Piece, language: str) -> str:
    """The name of the month or day; in lists of names, short ones are without a full stop, as in spreadsheets."""
    kind, text = piece
    locale = _locale(language)
    width = "abbreviated" if len(text) == 3 else "wide"
    context = "stand-alone" if len(text) == 3 else "format"
    names = locale.months if kind == "month" else locale.days
    name = str(names[context][width][moment.month if kind == "month" else moment.weekday()])
    return name[0] if len(text) == 5 else name.rstrip(".")


def _language(code: str) -> str:
    """The language of a format: `[$-407]` and `[$-de-DE]` are German; English without one."""
    tags = (token["language"] for token in _TOKEN.finditer(code) if token["language"])
    tag = next(chain(tags, [_ENGLISH])).partition(",")[0]
    if _HEXADECIMAL.fullmatch(tag):
        tag = windows_locale.get(int(tag, 16) & 0xFFFF, _ENGLISH)
    return re.split("[-_]", tag)[0]


@lru_cache(64)
def _locale(language: str) -> Locale:
    try:
        return Locale(language)
    except (UnknownLocaleError, ValueError):
        return Locale(_ENGLISH)
