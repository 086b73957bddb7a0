"""Messages that Outlook packs into one attachment, winmail.dat: the Transport Neutral Encapsulation Format
([MS-OXTNEF])."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime

from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.mapi import (
    BINARY,
    BODY,
    CODE_PAGE,
    DEEPEST,
    EPOCH,
    FILE,
    FILE_NAMES,
    NARROW,
    OBJECT,
    RECEIVED,
    SENDER,
    SENT,
    SUBJECT,
    WIDE,
    AttachedItem,
    MessageItem,
    Properties,
    headers_of,
    parts_of,
)
from ingest.readers.media_types import TNEF
from ingest.readers.members import ReadMember
from ingest.readers.message_parts import Attachment, message_text

SIGNATURE = b"\x78\x9f\x3e\x22"
_BEGIN = len(SIGNATURE) + 2  # after the signature and a key
# Attributes, by the lower half of their number.
_FROM, _SUBJECT, _SENT, _RECEIVED, _BODY = 0x8000, 0x8004, 0x8005, 0x8006, 0x800C
_CODE_PAGE, _PROPERTIES, _RECIPIENTS = 0x9007, 0x9003, 0x9004
_NEW_ATTACHMENT, _FILE, _TITLE, _ATTACHED = 0x9002, 0x800F, 0x8010, 0x9005
_DATES = {_SENT: SENT, _RECEIVED: RECEIVED}
_TEXTS = {_SUBJECT: SUBJECT, _BODY: BODY}
# Sizes of values by their kind; the others begin with their length.
_SIZES = {0x02: 4, 0x03: 4, 0x04: 4, 0x05: 8, 0x06: 8, 0x07: 8, 0x0A: 4, 0x0B: 4, 0x14: 8, 0x40: 8, 0x48: 16}
_LONG = (NARROW, WIDE, BINARY, OBJECT)
_MULTIPLE, _NAMED, _NAMED_BY_TEXT = 0x1000, 0x8000, 1
_IDENTIFIER = 16  # bytes that name the program of an object
_MESSAGE = b"\x07\x03\x02\x00\x00\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x46"
_MOST_ROWS = 10_000


class _Found:
    """The properties found so far, of a message, a recipient or an attachment."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.contents: dict[tuple[int, int], bytes] = {}

    def closed(self, labels: tuple[str, ...] = ()) -> Properties:
        return Properties(self.values, self.contents, labels)

    def add_text(self, number: int, text: bytes) -> None:
        """Adds a text of before properties, unless there is a property of it."""
        if (number, WIDE) not in self.contents:
            self.contents.setdefault((number, NARROW), text)


def read_tnef(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A message with its attachments. Raises DocumentError if nothing in it is readable."""
    item = _item(data)
    return message_text(headers_of(item), parts_of(item, limits), limits, read_member, media_type=TNEF)


def packed_parts(data: bytes, limits: ReadLimits) -> Iterator[str | Attachment]:
    """The texts of the body, and the attachments. Raises an error of `parser_errors` for damage at the begin."""
    return parts_of(_item(data), limits)


def _item(data: bytes, depth: int = 0) -> MessageItem:
    if not data.startswith(SIGNATURE):
        raise ValueError("It does not begin with the signature of TNEF.")
    message = _Found()
    recipients: list[_Found] = []
    attachments: list[_Found] = []
    for number, content in _attributes(data):
        if number == _NEW_ATTACHMENT:
            attachments.append(_Found())
        elif number in (_FILE, _TITLE, _ATTACHED):
            attachments = attachments or [_Found()]
            _add_to_attachment(attachments[-1], number, content)
        elif number == _RECIPIENTS:
            recipients += _rows(content)
        else:
            _add_to_message(message, number, content)
    properties = message.closed()
    labels = properties.labels
    return MessageItem(
        properties,
        [each.closed(labels) for each in recipients],
        [_attached(each, labels, depth) for each in attachments],
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields number and content. Of a truncated file, the attributes that are whole, and what there is of the last."""
    at = _BEGIN
    while at + 9 <= len(data):
        number, size = struct.unpack_from("<xH2xI", data, at)
        yield number, data[at + 9 : at + 9 + size]
        at += 9 + size + 2  # with a checksum


def _add_to_message(message: _Found, number: int, content: bytes) -> None:
    if number == _PROPERTIES:
        _Scanner(content).add_to(message)
    elif number in _TEXTS:
        message.add_text(_TEXTS[number], content)
    elif number in _DATES:
        message.values.setdefault(_DATES[number], _ticks(content))
    elif number == _CODE_PAGE and len(content) >= 4:
        message.values.setdefault(CODE_PAGE, content[:4])
    elif number == _FROM and len(content) >= 8:
        name_size, address_size = struct.unpack_from("<2H", content, 4)
        name, address = SENDER
        message.add_text(name, content[8 : 8 + name_size])
        message.add_text(address, content[8 + name_size :][:address_size].rpartition(b":")[2])


def _add_to_attachment(attachment: _Found, number: int, content: bytes) -> None:
    if number == _FILE:
        attachment.contents[FILE, BINARY] = content
    elif number == _TITLE:
        attachment.add_text(FILE_NAMES[1], content)
    else:
        _Scanner(content).add_to(attachment)


def _attached(attachment: _Found, labels: tuple[str, ...], depth: int) -> AttachedItem:
    inner = attachment.contents.get((FILE, OBJECT), b"")
    message = None
    if inner.startswith(_MESSAGE + SIGNATURE) and depth < DEEPEST:
        message = _item(inner[_IDENTIFIER:], depth + 1)
    elif inner:
        attachment.contents.setdefault((FILE, BINARY), inner[_IDENTIFIER:])
    return AttachedItem(attachment.closed(labels), message)


def _rows(content: bytes) -> Iterator[_Found]:
    scanner = _Scanner(content)
    for _ in range(min(scanner.number(), _MOST_ROWS)):
        row = _Found()
        if not scanner.add_to(row):
            return
        yield row


class _Scanner:
    """Reads lists of properties one after another (2.1.3.5)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        """The next four bytes; 0 at the end."""
        return int.from_bytes(self._take(4), "little")

    def _take(self, size: int) -> bytes:
        """The next bytes, without the fill to a multiple of four."""
        taken = self._data[self._at : self._at + size]
        self._at += (size + 3) // 4 * 4
        return taken

    def add_to(self, found: _Found) -> bool:
        """Adds the next list. False at the end, and for a kind of value that is unknown: the rest cannot be read."""
        if self._at >= len(self._data):
            return False
        for _ in range(self.number()):
            if self._at >= len(self._data):
                return False
            kind, number = struct.unpack("<2H", self._take(4).ljust(4, b"\0"))
            if number >= _NAMED:
                self._skip_name()
            values = self._values(kind)
            if values is None:
                return False
            if number < _NAMED and values and kind in _LONG:
                found.contents.setdefault((number, kind), values[0])
            elif number < _NAMED and values:
                found.values[number] = values[0].ljust(8, b"\0")
        return True

    def _skip_name(self) -> None:
        self._take(16)
        if self.number() == _NAMED_BY_TEXT:
            self._take(self.number())
        else:
            self._take(4)

    def _values(self, kind: int) -> list[bytes] | None:
        is_multiple, kind = bool(kind & _MULTIPLE), kind & ~_MULTIPLE
        if kind not in _SIZES and kind not in _LONG:
            return None
        values: list[bytes] = []
        for _ in range(self.number() if is_multiple or kind in _LONG else 1):
            if self._at >= len(self._data):
                break
            values.append(self._take(self.number() if kind in _LONG else _SIZES[kind]))
        return values


def _ticks(content: bytes) -> bytes:
    """A date of before properties as one of a property: tenths of microseconds since 1601."""
    try:
        year, month, day, hour, minute, second = struct.unpack_from("<6H", content)
        date = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except (ValueError, struct.error):
        return bytes(8)
    return struct.pack("<Q", max(0, int((date - EPOCH).total_seconds())) * 10**7)
