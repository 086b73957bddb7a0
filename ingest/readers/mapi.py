"""Messages as Outlook stores them, in .msg files and in winmail.dat: properties by number (MAPI), recipients,
attachments. Knows neither of the two formats."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.parser import HeaderParser
from email.utils import format_datetime

from app.errors import DocumentError
from ingest.readers.code_pages import codec_of_code_page
from ingest.readers.encodings import encoding_of
from ingest.readers.html import read_html
from ingest.readers.limits import ReadLimits
from ingest.readers.message_parts import Attachment, decoded_words, shown_alternatives
from ingest.readers.rtf import read_rtf

# Kinds of properties: bytes, texts in UTF-16, 8-bit texts, a file or message of a program.
BINARY, WIDE, NARROW, OBJECT = 0x0102, 0x001F, 0x001E, 0x000D
# Properties that are read ([MS-OXPROPS]).
_RICH_TEXT = 0x1009
# [MS-OXRTFCP] 2.1.3: the two signatures, and the initial content of the window of 4,096 bytes.
_PACKED, _PLAIN = b"LZFu", b"MELA"
_WINDOW = 4_096
_BEGIN = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    rb"SymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
BODY, _PAGE, SUBJECT, _HEADERS, _NAME = 0x1000, 0x1013, 0x0037, 0x007D, 0x3001
_SENDERS = ((0x0C1A, 0x5D01, 0x0C1F), (0x0042, 0x5D02, 0x0065))  # name, SMTP address, other address
SENDER = _SENDERS[0][0], _SENDERS[0][2]
SENT, RECEIVED = 0x0039, 0x0E06
_ADDRESSES = (0x39FE, 0x3003)
_RECIPIENT_KIND = 0x0C15
_RECIPIENTS = {1: ("To", 0x0E04), 2: ("Cc", 0x0E03), 3: ("Bcc", 0x0E02)}  # and the property with all their names
CODE_PAGE, _LOCALE, _PAGE_OF_BODY = 0x3FFD, 0x3FF1, 0x3FDE
# The code pages of languages, by the lower ten bits of the locale. Those of Chinese differ by country.
_CODE_PAGES = dict.fromkeys((0x05, 0x0E, 0x15, 0x18, 0x1A, 0x1B, 0x1C, 0x24), 1250)
_CODE_PAGES |= dict.fromkeys((0x02, 0x19, 0x22, 0x23), 1251)
_CODE_PAGES |= {0x08: 1253, 0x1F: 1254, 0x0D: 1255, 0x01: 1256, 0x29: 1256, 0x2A: 1258, 0x1E: 874, 0x11: 932, 0x12: 949}
_CODE_PAGES |= {0x25: 1257, 0x26: 1257, 0x27: 1257}
_CODE_PAGES |= dict.fromkeys((0x03, 0x06, 0x07, 0x09, 0x0A, 0x0B, 0x0C, 0x10, 0x13, 0x14, 0x16, 0x1D), 1252)
FILE, FILE_NAMES, _FILE_TYPE = 0x3701, (0x3707, 0x3704, _NAME), 0x370E
EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
DEEPEST = 20  # messages attached to each other


class Properties:
    """The properties of a message, a recipient or an attachment, by number ([MS-OXPROPS])."""

    def __init__(
        self, values: Mapping[int, bytes], contents: Mapping[tuple[int, int], bytes], labels: Sequence[str] = ()
    ) -> None:
        """`values`: short ones, in 8 bytes, by number; `contents`: long ones, by number and kind. `labels`: of the
        encoding of 8-bit texts, if no property names one."""
        self._values = values
        self._contents = contents
        pages = self.number(CODE_PAGE), _CODE_PAGES.get(self.number(_LOCALE) & 0x3FF), self.number(_PAGE_OF_BODY)
        self.labels = tuple(codec_of_code_page(page) for page in pages if page) or tuple(labels)

    def bytes_of(self, number: int, kind: int = BINARY) -> bytes:
        return self._contents.get((number, kind), b"")

    def text(self, number: int) -> str:
        """Decodes a text. Detects the encoding of an 8-bit text that the declared encodings do not fit."""
        if wide := self.bytes_of(number, WIDE):
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self.bytes_of(number, NARROW).rstrip(b"\0")
        labels = self.labels[::-1] if number in (BODY, _PAGE) else self.labels
        return narrow.decode(encoding_of(io.BytesIO(narrow), *labels).codec, "replace")

    def number(self, number: int) -> int:
        value: int = struct.unpack_from("<I", self._values.get(number, bytes(4)))[0]
        return value

    def date(self, number: int) -> str:
        (ticks,) = struct.unpack_from("<Q", self._values.get(number, bytes(8)))
        try:
            return format_datetime(EPOCH + timedelta(seconds=ticks // 10**7)) if ticks else ""
        except OverflowError:
            return ""


@dataclass
class AttachedItem:
    """A file attached to a message, or another message."""

    properties: Properties
    message: MessageItem | None = None


@dataclass
class MessageItem:
    properties: Properties
    recipients: list[Properties] = field(default_factory=list)
    attachments: list[AttachedItem] = field(default_factory=list)


def headers_of(item: MessageItem) -> dict[str, str]:
    message = item.properties
    sent = HeaderParser().parsestr(message.text(_HEADERS))
    people: dict[str, list[str]] = {}
    for person in item.recipients:
        kind, _ = _RECIPIENTS.get(person.number(_RECIPIENT_KIND), _RECIPIENTS[1])
        people.setdefault(kind, []).append(_person(person, _NAME, *_ADDRESSES))
    senders = (_person(message, *numbers, quote='"') for numbers in _SENDERS)
    fields = {
        "From": str(sent["From"] or "") or next(filter(None, senders), ""),
        "Reply-To": str(sent["Reply-To"] or ""),
        **{
            kind: ", ".join(filter(None, people.get(kind, ()))) or message.text(at) for kind, at in _RECIPIENTS.values()
        },
        "Date": message.date(SENT) or str(sent["Date"] or "") or message.date(RECEIVED),
        "Subject": message.text(SUBJECT),
    }
    return {name: shown for name, value in fields.items() if (shown := " ".join(_decoded(value).split()))}


def _person(properties: Properties, name_at: int, *addresses: int, quote: str = "") -> str:
    name = properties.text(name_at).strip()
    address = next(filter(None, map(properties.text, addresses)), "")
    if not name or name == address:
        return f"<{address}>" if quote and address else address
    return f"{quote}{name}{quote} <{address}>" if address else name


def _decoded(value: str) -> str:
    """The text of a field; some programs keep the encoded words of the original message."""
    return decoded_words(value) or value if "=?" in value else value


def parts_of(item: MessageItem, limits: ReadLimits) -> Iterator[str | Attachment]:
    """The texts of the body, and the attachments."""
    message = item.properties
    texts = [message.text(BODY).strip(), _page(message, limits)]
    yield from (texts[at] for at in shown_alternatives(texts))
    if not any(texts) and (packed := message.bytes_of(_RICH_TEXT)):
        try:
            yield read_rtf(unpack_rich_text(packed, limits.max_expanded_bytes), limits).text.strip()
        except DocumentError:
            raise
        except ValueError:
            yield Attachment("the text of the message (damaged RTF)", "", b"")
    for number, attached in enumerate(item.attachments, start=1):
        file = attached.properties
        name = next(filter(None, map(file.text, FILE_NAMES)), f"attachment {number}")
        if attached.message is not None:
            yield from _attached_message(name, attached.message, limits)
        else:  # an object of another program or a link has no bytes; its reader then reports an empty attachment
            yield Attachment(name, file.text(_FILE_TYPE), file.bytes_of(FILE))


def _page(message: Properties, limits: ReadLimits) -> str:
    html, label = message.bytes_of(_PAGE), "".join(message.labels[-1:])
    if not html:
        html, label = message.text(_PAGE).encode("utf-8", "replace"), "utf-8"
    with suppress(DocumentError):
        return read_html(html, limits, label).text
    return ""


def _attached_message(name: str, item: MessageItem, limits: ReadLimits) -> Iterator[Attachment]:
    """A message in a message: its text as one attachment, and its own attachments beside it."""
    headers = headers_of(item) | {"Content-Type": "text/plain; charset=utf-8"}
    parts = list(parts_of(item, limits))
    head = "".join(f"{field}: {value}\n" for field, value in headers.items())
    body = "\n\n".join(part for part in parts if isinstance(part, str))
    yield Attachment(name, "message/rfc822", f"{head}\n{body}".encode("utf-8", "replace"))
    yield from (part for part in parts if isinstance(part, Attachment))


def unpack_rich_text(packed: bytes, most: int = 10**8) -> bytes:
    """Decompresses RTF ([MS-OXRTFCP] 3.1.4). Truncated data, and output beyond `most` bytes, end early.

    Raises ValueError for an unknown format.
    """
    if len(packed) < 16:
        raise ValueError("The header is truncated.")
    size, kind = min(struct.unpack_from("<I", packed, 4)[0], most), packed[8:12]
    if kind == _PLAIN:
        return packed[16 : 16 + size]
    if kind != _PACKED:
        raise ValueError(f"{kind!r} is no known compression of RTF.")
    window = bytearray(_BEGIN.ljust(_WINDOW, b" "))
    unpacked, at, end = bytearray(), 16, len(packed)
    to = len(_BEGIN)
    while at < end and len(unpacked) < size:
        control, at = packed[at], at + 1
        for bit in range(8):
            is_reference = control >> bit & 1
            if at + is_reference >= end:
                return bytes(unpacked)
            if is_reference:
                reference = packed[at] << 8 | packed[at + 1]
                begin, length = reference >> 4, (reference & 15) + 2
                if begin == to:
                    return bytes(unpacked)
            else:
                begin, length = -1, 1
            for step in range(length):
                value = packed[at] if begin < 0 else window[(begin + step) % _WINDOW]
                unpacked.append(value)
                window[to] = value
                to = (to + 1) % _WINDOW
            at += 1 + is_reference
    return bytes(unpacked)
