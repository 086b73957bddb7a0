"""Automatic numbers of Word 97 to 2003 ([MS-DOC]), which the library for its text does not give: paragraphs with their
properties, styles and lists are read here."""

from __future__ import annotations

import io
import re
import struct
import unicodedata
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import olefile

from ingest.readers.containers import open_compound_file
from ingest.readers.errors import parser_errors
from ingest.readers.field_instructions import shown_instruction
from ingest.readers.numbering import Level, ListCounts, NumberedList

_PAGE = 512  # bytes of a page of paragraph properties
_FIRST_VERSION = 0xC1  # Word 97
# Places in the head of the document: flags, and places and sizes of tables.
_FLAGS, _STYLES, _PROPERTIES, _PIECES, _LISTS, _USES = 0x0A, 0xA2, 0x102, 0x1A2, 0x2E2, 0x2EA
_SECOND_TABLE = 0x0200
# Changes of a paragraph's properties: its style, the use of a list, the level in it.
_STYLE, _USE, _LEVEL = 0x4600, 0x460B, 0x260A
_OPERAND_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
_TABLE_CHANGES = {0xD608, 0xD609}  # the length of whose operands takes two bytes
_TABS = 0xC615  # the length of whose operand may be left out
_PARAGRAPH_STYLE = 1
_NO_STYLE = 0xFFF
_MOST_BASES = 10  # length of a chain of styles based on each other
_LEVELS = 9
_NOT_IN_A_LIST = range(0x07FF, 0x10000)
_FORMS = dict(enumerate(("decimal", "upperRoman", "lowerRoman", "upperLetter", "lowerLetter", "ordinal")))
_FORMS |= {22: "decimalZero", 23: "bullet", 255: "none"}
_CELL = "\a"
_ENDS = re.compile(f"[\r{_CELL}\f]")  # of paragraphs, cells, pages
_FIELD = re.compile("\x13[^\x13\x14\x15]*\x14?|\x15")  # the instruction of a field, not its result
_WITHOUT_RESULT = re.compile("\x13([^\x13\x14\x15]*)\x15")
_SIGNS = {0x0B: "\n", 0x1E: "-"} | dict.fromkeys((*range(9), *range(14, 19), 0x1F))
_LONGEST_TEMPLATE = 255


class DocLabels:
    """The automatic numbers of a Word document, by the texts of their paragraphs.

    `is_known` is False if the document is damaged, or older than Word 97, so that it has none here.
    """

    def __init__(self, data: bytes) -> None:
        self._paragraphs: Mapping[str, deque[_Shown]] = defaultdict(deque)
        self.of_fields_alone: list[str] = []  # paragraphs of nothing but fields without results
        self.numbered: list[str] = []  # the texts that got a label, or what a field says
        try:
            with open_compound_file(io.BytesIO(data)) as compound:
                for text, shown in _Document(compound).labelled():
                    if text or not shown.whole:
                        self._paragraphs[text].append(shown)
                    else:
                        self.of_fields_alone.append(shown.label + shown.whole)
            self.is_known = True
        except parser_errors():
            self._paragraphs.clear()
            self.of_fields_alone.clear()
            self.is_known = False

    def shown(self, text: str) -> str:
        """The next paragraph with this text as Word shows it: with its label, such as `2.1 `, and with what fields
        without results say."""
        paragraphs = self._paragraphs.get(packed(text))
        label, whole = paragraphs.popleft() if paragraphs else _PLAIN
        if label or whole:
            self.numbered.append(text)
        return label + (whole or text)

    @property
    def unused(self) -> int:
        """The number of labels whose paragraphs were not asked for."""
        return sum(bool(each.label) for paragraphs in self._paragraphs.values() for each in paragraphs)


def packed(text: str) -> str:
    """The letters and digits of a text, also of raised ones: the same for two readings of it."""
    return "".join(filter(str.isalnum, text if text.isascii() else unicodedata.normalize("NFKC", text)))


class _Shown(NamedTuple):
    label: str
    whole: str  # the paragraph with what its fields without results say; empty if it has none


_PLAIN = _Shown("", "")


class _Place(NamedTuple):
    """Of a paragraph in a list: the number of the list's use, from 1, and its level, from 0; None: not said."""

    use: int | None = None
    depth: int | None = None


class _Document:
    """Raises an error of `parser_errors` if it is damaged, or older than Word 97."""

    def __init__(self, compound: olefile.OleFileIO) -> None:
        self._main = compound.openstream("WordDocument").read()
        version, flags = self._number("H", 2), self._number("H", _FLAGS)
        if version < _FIRST_VERSION:
            raise ValueError(f"Version {version:#x} has other tables.")
        self._table = compound.openstream("1Table" if flags & _SECOND_TABLE else "0Table").read()
        self._pages: dict[int, tuple[tuple[int, ...], list[bytes]]] = {}
        self._styles = list(_styles(self._part(_STYLES)))
        start, size = struct.unpack_from("<II", self._main, _LISTS)
        self._lists = list(_lists(self._table, start)) if size else []
        self._uses = list(_uses(self._part(_USES), self._lists))
        places = self._part(_PROPERTIES)
        count = max(0, (len(places) - 4) // 8)
        self._starts = struct.unpack_from(f"<{count}I", places)
        self._numbers = struct.unpack_from(f"<{count}I", places, 4 * (count + 1))

    def labelled(self) -> Iterator[tuple[str, _Shown]]:
        """The packed texts of the paragraphs, and what Word shows of them, in order. Empty paragraphs count, but only
        those in cells are given: tables have columns of row numbers."""
        counts, places = ListCounts(), dict[bytes, tuple[int, int]]()
        for text, end, place in self._paragraphs():
            properties = self._properties(place)
            if properties not in places:
                places[properties] = self._list_of(properties)
            use, depth = places[properties]
            label = counts.label(str(use), self._uses[use - 1], depth) if 0 < use <= len(self._uses) else ""
            plain, whole = _FIELD.sub("", text), _said(text)
            if plain.strip() or whole or end == _CELL:
                yield packed(plain), _Shown(label, whole)

    def _paragraphs(self) -> Iterator[tuple[str, str, int]]:
        """The texts of the paragraphs, the characters that end them, and the places of these in the stream."""
        parts: list[str] = []
        for text, start, width in self._pieces():
            at = 0
            for end in _ENDS.finditer(text):
                parts.append(text[at : end.start()])
                yield "".join(parts), end[0], start + end.start() * width
                parts, at = [], end.end()
            parts.append(text[at:])

    def _pieces(self) -> Iterator[tuple[str, int, int]]:
        """The pieces of the text: each with its place in the stream and the bytes of a character."""
        data = self._part(_PIECES)
        at, left = 0, len(self._main)
        while data[at] == 1:  # changes of properties that pieces share
            at += 3 + struct.unpack_from("<H", data, at + 1)[0]
        if data[at] != 2:
            raise ValueError("The text has no list of pieces.")
        count = (struct.unpack_from("<I", data, at + 1)[0] - 4) // 12
        begins = struct.unpack_from(f"<{count + 1}I", data, at + 5)
        for number in range(count):
            (place,) = struct.unpack_from("<I", data, at + 5 + 4 * (count + 1) + 8 * number + 2)
            length, width = begins[number + 1] - begins[number], 1 if place & 1 << 30 else 2
            start = (place & 0x3FFFFFFF) // (3 - width)
            left -= length * width
            if length < 0 or left < 0:
                raise ValueError("The pieces are longer than the document.")
            found = self._main[start : start + length * width]
            yield found.decode("cp1252" if width == 1 else "utf-16-le", "replace"), start, width

    def _list_of(self, properties: bytes) -> tuple[int, int]:
        """The use of a list, 0 for none, and the level of a paragraph with these properties."""
        style, own = _read(properties[2:], struct.unpack_from("<H", properties)[0] if properties else 0)
        named = self._of_style(style)
        use = named.use if own.use is None else own.use
        depth = own.depth if own.depth is not None or own.use is not None else named.depth
        return (use if use and use not in _NOT_IN_A_LIST else 0), depth or 0

    def _of_style(self, style: int) -> _Place:
        use = depth = None
        for _ in range(_MOST_BASES):
            if style >= len(self._styles):
                break
            base, properties = self._styles[style]
            own = _read(properties, 0)[1]
            depth = own.depth if depth is None else depth
            if own.use is not None:
                use = own.use
                break
            style = base
        return _Place(use, depth)

    def _properties(self, place: int) -> bytes:
        """The number of the style, and changes to it, of the paragraph at `place`; empty if they are not stored."""
        number = bisect_right(self._starts, place) - 1
        if number < 0:
            return b""
        page = self._numbers[number] & 0x3FFFFF
        if page not in self._pages:
            self._pages[page] = _page(self._main[page * _PAGE : (page + 1) * _PAGE])
        starts, properties = self._pages[page]
        at = bisect_right(starts, place) - 1
        return properties[at] if 0 <= at < len(properties) else b""

    def _part(self, at: int) -> bytes:
        """The part of the table stream whose place and size stand at `at`."""
        start, size = struct.unpack_from("<II", self._main, at)
        return self._table[start : start + size]

    def _number(self, form: str, at: int) -> int:
        return int(struct.unpack_from(f"<{form}", self._main, at)[0])


def _said(text: str) -> str:
    """The paragraph with what its fields without results say; empty if these say nothing."""
    said = list[str]()

    def instructed(match: re.Match[str]) -> str:
        shown, reading = shown_instruction(match[1])
        said.append(shown)
        return f"{shown} ({reading})" if reading else shown

    whole = _WITHOUT_RESULT.sub(instructed, text)
    return _FIELD.sub("", whole).translate(_SIGNS).strip() if any(said) else ""


def _page(data: bytes) -> tuple[tuple[int, ...], list[bytes]]:
    """The starts of the runs of a page, and the properties of the paragraphs in each."""
    count = data[_PAGE - 1]
    starts = struct.unpack_from(f"<{count + 1}I", data)
    properties = list[bytes]()
    for number in range(count):
        at = 2 * data[4 * (count + 1) + 13 * number]
        size = 2 * data[at] - 1 if at and data[at] else 0
        if at and not size:
            at, size = at + 1, 2 * data[at + 1]
        properties.append(data[at + 1 : at + 1 + size] if size > 1 else b"")
    return starts, properties


def _read(changes: bytes, style: int) -> tuple[int, _Place]:
    """The style of a paragraph, and what its properties say of a list."""
    use = depth = None
    at = 0
    while at + 2 <= len(changes):
        (kind,) = struct.unpack_from("<H", changes, at)
        at += 2
        if (size := _OPERAND_BYTES.get(kind >> 13)) is None:
            size = _long_operand(kind, changes, at)
        operand = changes[at : at + size]
        if len(operand) < size:
            break
        if kind == _USE:
            (use,) = struct.unpack("<H", operand)
        elif kind == _LEVEL:
            depth = operand[0]
        elif kind == _STYLE:
            (style,) = struct.unpack("<H", operand)
        at += size
    return style, _Place(use, depth)


def _long_operand(kind: int, changes: bytes, at: int) -> int:
    """The bytes of an operand that its length precedes, with these."""
    if kind in _TABLE_CHANGES:
        return struct.unpack_from("<H", changes, at)[0] + 1 if at + 2 <= len(changes) else 2
    size = changes[at] if at < len(changes) else 0
    if kind == _TABS and size == 255:
        deleted = changes[at + 1] if at + 1 < len(changes) else 0
        added_at = at + 2 + 4 * deleted
        return 3 + 4 * deleted + 3 * (changes[added_at] if added_at < len(changes) else 0)
    return size + 1


def _styles(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The base of each style, and changes to it; without changes for styles of other things than paragraphs."""
    if not data:
        return
    head, count, base_size = struct.unpack_from("<HHH", data)
    at = 2 + head
    for _ in range(count):
        if at + 2 > len(data):
            return
        size = struct.unpack_from("<H", data, at)[0]
        style = data[at + 2 : at + 2 + size]
        at += 2 + size + size % 2
        yield _style(style, base_size) if size else (_NO_STYLE, b"")


def _style(style: bytes, base_size: int) -> tuple[int, bytes]:
    kind = struct.unpack_from("<H", style, 2)[0]
    if kind & 0xF != _PARAGRAPH_STYLE:
        return _NO_STYLE, b""
    length = struct.unpack_from("<H", style, base_size)[0]
    at = base_size + 2 + 2 * length + 2
    at += at % 2
    size = struct.unpack_from("<H", style, at)[0] if at + 2 <= len(style) else 0
    return kind >> 4, style[at + 4 : at + 2 + size]


class _List(NamedTuple):
    identity: int
    levels: list[Level]


def _lists(table: bytes, at: int) -> Iterator[_List]:
    """Yields the lists. The table has a record for each list, then the levels of all lists in the same order."""
    count, at = struct.unpack_from("<H", table, at)[0], at + 2
    levels_at = at + 28 * count
    for number in range(count):
        identity, is_simple = struct.unpack_from("<I22xB", table, at + 28 * number)
        levels = list[Level]()
        for _ in range(1 if is_simple & 1 else _LEVELS):
            level, levels_at = _level(table, levels_at)
            levels.append(level)
        yield _List(identity, levels)


def _level(table: bytes, at: int) -> tuple[Level, int]:
    """A level, and the place after it."""
    start, form, flags = struct.unpack_from("<IBB", table, at)
    letters, changes, restart = struct.unpack_from("<BBB", table, at + 24)
    at += 28 + letters + changes
    (length,) = struct.unpack_from("<H", table, at)
    text = table[at + 2 : at + 2 + 2 * min(length, _LONGEST_TEMPLATE)].decode("utf-16-le", "replace")
    template = "".join(f"%{ord(sign) + 1}" if ord(sign) < _LEVELS else sign for sign in text)
    level = Level(
        start, _FORMS.get(form, "decimal"), template, is_legal=bool(flags & 4), restart=restart if flags & 8 else None
    )
    return level, at + 2 + 2 * length


def _uses(data: bytes, lists: list[_List]) -> Iterator[NumberedList]:
    """The uses of lists by paragraphs, each with the levels that it changes."""
    if not data:
        return
    by_identity = {each.identity: each for each in lists}
    (count,) = struct.unpack_from("<I", data)
    at = 4 + 16 * count
    for number in range(count):
        identity, changed = struct.unpack_from("<I8xB", data, 4 + 16 * number)
        levels = dict(enumerate(by_identity[identity].levels)) if identity in by_identity else {}
        restarted = list[int]()
        at += 4
        for _ in range(changed):
            start, flags = struct.unpack_from("<II", data, at)
            depth, at = flags & 0xF, at + 8
            if flags & 0x20:
                levels[depth], at = _level(data, at)
            elif flags & 0x10 and depth in levels:
                levels[depth] = levels[depth]._replace(start=start)
            if flags & 0x10:
                restarted.append(depth)
        yield NumberedList(str(identity), levels, restarted)
