"""Messages of Outlook (.msg), with the same structure as .eml messages."""

from __future__ import annotations

import codecs
import io
import re
import struct
from collections.abc import Iterator
from email.utils import format_datetime

from oxmsg import Message

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.containers import open_compound_file
from ingest.readers.html import read_html
from ingest.readers.limits import ReadLimits
from ingest.readers.mail import Attachment, decoded_words, message_text
from ingest.readers.media_types import OUTLOOK
from ingest.readers.members import ReadMember
from ingest.readers.rtf import read_rtf

_RICH_TEXT = 0x1009  # PidTagRtfCompressed
# [MS-OXRTFCP] 2.1.3: the two signatures, and the initial content of the window of 4,096 bytes.
_PACKED, _PLAIN = b"LZFu", b"MELA"
_WINDOW = 4_096
_BEGIN = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    rb"SymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_CODE_PAGE = re.compile(r"windows[-_](\d{3,5})")


def _code_page(name: str) -> codecs.CodecInfo | None:
    """The codec of a Windows code page under the name that oxmsg gives it, which Python does not know."""
    number = _CODE_PAGE.fullmatch(name)
    try:
        return codecs.lookup(f"cp{number[1]}") if number else None
    except LookupError:
        return None


codecs.register(_code_page)


def read_outlook(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A message with its attachments. Raises DocumentError if nothing in it is readable."""
    open_compound_file(io.BytesIO(data)).close()  # its library opens it without these checks
    message = Message.load(io.BytesIO(data))
    recipients = [
        f"{person.name} <{person.email_address}>"
        if person.name and person.name != person.email_address
        else person.email_address
        for person in message.recipients
    ]
    sent = message.sent_date
    fields = {
        "From": message.sender or "",
        "To": ", ".join(filter(None, recipients)),
        "Date": format_datetime(sent) if sent else "",
        "Subject": message.subject or "",
    }
    headers = {name: " ".join(_decoded(value).split()) for name, value in fields.items() if value.strip()}
    return message_text(headers, _parts(message, limits), limits, read_member, media_type=OUTLOOK)


def _decoded(value: str) -> str:
    """The text of a field; some programs keep the encoded words of the original message."""
    return decoded_words(value) or value if "=?" in value else value


def _parts(message: Message, limits: ReadLimits) -> Iterator[str | Attachment]:
    if body := (message.body or "").strip():
        yield body
    elif html := (message.html_body or "").strip():
        yield read_html(html.encode("utf-8", "replace"), limits, "utf-8").text
    elif packed := message.properties.binary_prop_value(_RICH_TEXT):
        try:
            yield read_rtf(unpack_rich_text(packed, limits.max_expanded_bytes), limits).text
        except DocumentError:
            raise
        except ValueError:
            yield Attachment("the text of the message (damaged RTF)", "", b"")
    for number, attachment in enumerate(message.attachments, start=1):
        # A nested message or a link has no bytes; its reader then reports an empty attachment.
        name = attachment.file_name or f"attachment {number}"
        yield Attachment(name, attachment.mime_type or "", attachment.file_bytes or b"")


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
