"""Calendars (iCalendar, RFC 5545) and contacts (vCard, RFC 6350, and version 2.1): what a calendar or an address book
shows of each entry."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterator
from typing import NamedTuple

from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import CALENDAR, CONTACTS
from ingest.readers.parts import Block
from ingest.readers.payloads import Payloads
from ingest.readers.tables import join_blocks
from ingest.readers.text import decode_text

# What is shown of an entry, in this order, under these names.
_SHOWN = {
    "DTSTART": "Start",
    "DTEND": "End",
    "RRULE": "Repeats",
    "DUE": "Due",
    "COMPLETED": "Completed",
    "LOCATION": "Location",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "STATUS": "Status",
    "NICKNAME": "Nickname",
    "ORG": "Organization",
    "TITLE": "Title",
    "ROLE": "Role",
    "TEL": "Phone",
    "EMAIL": "Email",
    "IMPP": "Messenger",
    "ADR": "Address",
    "LABEL": "Address label",
    "BDAY": "Birthday",
    "ANNIVERSARY": "Anniversary",
    "RELATED": "Related",
    "CONTACT": "Contact",
    "CATEGORIES": "Categories",
    "URL": "Web page",
    "DESCRIPTION": "Description",
    "NOTE": "Note",
    "COMMENT": "Comment",
}
_NAMES = ("SUMMARY", "FN", "N")  # of an entry; N only without FN
_ENTRIES = ("VEVENT", "VTODO", "VJOURNAL", "VCARD")
_CALENDAR_NAMES = ("X-WR-CALNAME", "NAME")
_QUOTED_LINE = re.compile(r"[^:]{0,200}QUOTED-PRINTABLE[^:]{0,200}:", re.IGNORECASE)
_LINE = re.compile(
    r'(?:[\w-]+\.)?(?P<name>[\w-]+)(?P<parameters>(?:;(?:[^":;]++|"[^"]*+")*+)*+):(?P<value>.*)', re.DOTALL
)
_PARAMETER = re.compile(r';(?P<name>[\w-]+)(?:=(?P<value>(?:[^";]++|"[^"]*+")*+))?')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SEPARATOR = re.compile(r"(?<!\\);")
_TIME = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?(Z?))?")
_UNITS = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year", "HOURLY": "hour"}
_DAYS = {
    "MO": "Monday",
    "TU": "Tuesday",
    "WE": "Wednesday",
    "TH": "Thursday",
    "FR": "Friday",
    "SA": "Saturday",
    "SU": "Sunday",
}
_PLACES = {"1": "1st", "2": "2nd", "3": "3rd", "4": "4th", "5": "5th", "-1": "last", "-2": "last but one"}
_LONGEST_LINE = 1_000_000  # longer ones are pictures


class _Property(NamedTuple):
    name: str
    parameters: dict[str, str]
    value: str


def read_calendar(data: bytes, limits: ReadLimits, charset: str) -> ExtractedText:
    return _read(data, limits, charset, CALENDAR)


def read_contacts(data: bytes, limits: ReadLimits, charset: str) -> ExtractedText:
    return _read(data, limits, charset, CONTACTS)


def _read(data: bytes, limits: ReadLimits, charset: str, media_type: str) -> ExtractedText:
    decoded = decode_text(data, charset)
    title = ""
    entries: list[_Entry] = []
    open_kinds: list[str] = []
    payloads = Payloads()
    for each in _properties(decoded.text):
        if each.name == "BEGIN":
            open_kinds.append(each.value.strip().upper())
            if open_kinds[-1] in _ENTRIES:
                entries.append(_Entry())
        elif each.name == "END":
            del open_kinds[-1:]
        elif each.name in _CALENDAR_NAMES and open_kinds == ["VCALENDAR"]:
            title = title or _plain(each)
        elif open_kinds and open_kinds[-1] in _ENTRIES:
            entries[-1].add(each)
            if each.name == "ATTACH":
                payloads.without(each.value, entries[-1].name or "Attachment")
    if len(entries) == 1:
        title = title or entries[0].name
    blocks = [block for entry in entries for block in entry.blocks()]
    if not blocks:  # another kind of text
        return ExtractedText(decoded.text, "", "text/plain", decoded.metadata)
    text, marks, cells = join_blocks(blocks, limits)
    metadata = payloads.skipped.added_to(decoded.metadata)
    return ExtractedText(text, title, media_type, metadata, marks=marks, cells=cells)


class _Entry:
    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def add(self, given: _Property) -> None:
        if given.name in (*_NAMES, *_SHOWN) and (value := _shown(given)):
            values = self._values.setdefault(given.name, [])
            if value not in values:
                values.append(value)

    @property
    def name(self) -> str:
        return next((self._values[each][0] for each in _NAMES if each in self._values), "")

    def blocks(self) -> Iterator[Block]:
        """The name as a heading, and a paragraph of `name: value` lines."""
        if self.name:
            yield Block(self.name, level=1)
        lines = [f"{label}: {value}" for key, label in _SHOWN.items() for value in self._values.get(key, ())]
        if lines:
            yield Block("\n".join(lines))


def _properties(text: str) -> Iterator[_Property]:
    for line in _whole_lines(text):
        match = _LINE.fullmatch(line) if len(line) < _LONGEST_LINE else None
        if match is None:
            continue
        parameters = {
            each["name"].upper(): (each["value"] or "").strip('"') for each in _PARAMETER.finditer(match["parameters"])
        }
        value = match["value"]
        if _is_quoted_printable(parameters):
            value = _decoded(value, parameters.get("CHARSET", ""))
        yield _Property(match["name"].upper(), parameters, value)


def _whole_lines(text: str) -> Iterator[str]:
    """Joins the pieces of long lines. A piece begins with a blank, or follows `=` in quoted-printable."""
    pieces = [""]
    for line in text.split("\n"):
        if pieces[-1].endswith("=") and _QUOTED_LINE.match(pieces[0]):
            pieces += [pieces.pop()[:-1], line]
        elif line.startswith((" ", "\t")):
            pieces.append(line[1:])
        else:
            yield "".join(pieces)
            pieces = [line]
    yield "".join(pieces)


def _is_quoted_printable(parameters: dict[str, str]) -> bool:
    """Version 2.1 also writes the encoding without a name."""
    return "QUOTED-PRINTABLE" in (*parameters, parameters.get("ENCODING", "").upper())


def _decoded(value: str, charset: str) -> str:
    return decode_text(quopri.decodestring(value.encode("utf-8", "replace")), charset).text if value else ""


def _shown(given: _Property) -> str:
    if given.name in ("ORGANIZER", "ATTENDEE"):
        address = re.sub("(?i)^mailto:", "", given.value)
        name = given.parameters.get("CN", "")
        return f"{name} <{address}>" if name and name != address else address
    if given.name == "N":  # family name; given name; others; prefixes; suffixes
        family, first, *others = [*_pieces(given.value), "", ""]
        return " ".join(filter(None, [first, *others, family]))
    if given.name == "RRULE":
        return _repetition(given.value)
    if given.name in ("ADR", "ORG"):
        return ", ".join(filter(None, _pieces(given.value)))
    if time := _TIME.fullmatch(given.value.strip()):
        year, month, day, hour, minute, is_utc = time.groups()
        zone = " UTC" if is_utc else f" {given.parameters['TZID']}" if "TZID" in given.parameters else ""
        return f"{year}-{month}-{day}" + (f" {hour}:{minute}{zone}" if hour else "")
    return _plain(given)


def _repetition(rule: str) -> str:
    """A recurrence rule in words, such as `every 2 weeks on Monday, 3 times`; RFC 5545, 3.3.10."""
    parts = dict(part.partition("=")[::2] for part in rule.strip().upper().split(";"))
    unit, interval = _UNITS.get(parts.get("FREQ", "")), parts.get("INTERVAL", "1")
    if unit is None:
        return rule
    words = [f"every {unit}" if interval == "1" else f"every {interval} {unit}s"]
    if days := parts.get("BYDAY"):
        words.append("on " + ", ".join(map(_day_in_words, days.split(","))))
    if days := parts.get("BYMONTHDAY"):
        words.append(f"on day {days.replace(',', ', ')}")
    if months := parts.get("BYMONTH"):
        words.append(f"in month {months.replace(',', ', ')}")
    if until := _TIME.fullmatch(parts.get("UNTIL", "")):
        words.append("until {}-{}-{}".format(*until.groups()))
    return " ".join(words) + (f", {parts['COUNT']} times" if "COUNT" in parts else "")


def _day_in_words(day: str) -> str:
    """`MO` as Monday, `2TU` as 2nd Tuesday, `-1FR` as last Friday."""
    number, name = day[:-2], _DAYS.get(day[-2:], day[-2:])
    return f"{_PLACES.get(number, number)} {name}".strip()


def _pieces(value: str) -> list[str]:
    return [_unescaped(piece) for piece in _SEPARATOR.split(value)]


def _plain(given: _Property) -> str:
    return _unescaped(given.value)


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(lambda escaped: "\n" if escaped[1] in "nN" else escaped[1], value).strip()
