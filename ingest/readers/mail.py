"""Messages and mailboxes: subject, people, date, body, and the attachments by their own readers."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from contextlib import suppress
from email.message import EmailMessage, MIMEPart
from email.utils import parsedate_to_datetime
from typing import cast

from app.errors import DocumentError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.errors import parser_errors
from ingest.readers.html import read_html
from ingest.readers.limits import ReadLimits
from ingest.readers.members import Members, ReadMember
from ingest.readers.text import clean_text, decode_text

# mailbox.mbox of the standard library wants a file on disk; a message begins at such a line after an empty one.
_MESSAGE_START = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\n]*\n")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_MAX_HEADER = 1_000
_SHOWN_HEADERS = ("From", "To", "Cc", "Date")


def read_message(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    message = _parse(data)
    if not message.keys():
        raise DocumentError("This is no message: it begins with no header. Save it again as .eml from a mail program.")
    members = Members("message", limits, read_member, level=2)
    subject = _header(message, "Subject")
    if subject:
        members.write(f"# {subject}", level=1)
    head = [f"{name}: {value}" for name in _SHOWN_HEADERS if (value := _header(message, name))]
    if head:
        members.write("\n".join(head))
    body = _body(message, limits)
    if body:
        members.write(body)
    for name, media_type, payload in _attachments(message):
        members.add(name, lambda _, payload=payload: payload, media_type=media_type)  # type: ignore[misc]
    if not (subject or body or members.read_count):
        raise DocumentError("This message is empty: it has no subject, no body and no attachment that can be read.")
    metadata = _metadata(message)
    if members.has_any:
        metadata |= members.metadata("attachments")
    return ExtractedText(members.text, subject, "message/rfc822", metadata, marks=members.marks, cells=members.cells)


def read_mailbox(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    starts = list(_MESSAGE_START.finditer(data))
    if not starts or data[: starts[0].start()].strip():
        raise DocumentError("This is no mailbox: it does not begin with a `From ` line. Export it again as mbox.")
    members = Members("mailbox", limits, read_member)
    ends = [start.start() for start in starts[1:]] + [len(data)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), start=1):
        message = _QUOTED_FROM.sub(rb"\1", data[start.end() : end])
        members.add(f"Message {number}", lambda _, message=message: message, media_type="message/rfc822")  # type: ignore[misc]
    members.require_one()
    metadata = members.metadata("messages")
    return ExtractedText(members.text, "", "application/mbox", metadata, marks=members.marks, cells=members.cells)


def _parse(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=email.policy.default)


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())[:_MAX_HEADER]
    except parser_errors():
        return ""  # headers are parsed when asked for, and the parser stumbles over some; the rest is worth reading


def _body(message: EmailMessage, limits: ReadLimits) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    text = _decoded(part)
    if part.get_content_subtype() == "html" and text.strip():
        text = read_html(text.encode("utf-8"), limits).text
    return text.strip()


def _decoded(part: MIMEPart) -> str:
    payload = part.get_payload(decode=True) or b""
    assert isinstance(payload, bytes)  # a list only in multipart parts, which are no bodies
    try:
        # The header comes first: ISO-2022-JP looks like ASCII.
        return clean_text(payload.decode(part.get_content_charset() or "utf-8"))
    except (LookupError, UnicodeError):
        return clean_text(decode_text(payload)) if payload else ""


def _attachments(message: EmailMessage) -> Iterator[tuple[str, str, bytes]]:
    """File name, media type and bytes of each."""
    for part in message.iter_attachments():
        media_type = part.get_content_type()
        name = part.get_filename() or "attachment"
        inner = part.get_payload(0) if media_type == "message/rfc822" and part.is_multipart() else None
        if inner is not None:
            yield name, media_type, cast(EmailMessage, inner).as_bytes()
        else:
            payload = part.get_payload(decode=True)
            yield name, media_type, payload if isinstance(payload, bytes) else b""


def _metadata(message: EmailMessage) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for name in ("From", "To", "Subject"):
        if value := _header(message, name):
            metadata[name.lower()] = value
    with suppress(ValueError):  # no date, or none that can be understood
        metadata["date"] = parsedate_to_datetime(_header(message, "Date")).isoformat()
    return metadata
