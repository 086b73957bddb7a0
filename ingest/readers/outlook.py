"""Messages of Outlook (.msg), read as other messages are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from email.utils import format_datetime

from oxmsg import Message

from app.types.texts import ExtractedText
from ingest.readers.html import read_html
from ingest.readers.limits import ReadLimits
from ingest.readers.mail import Attachment, message_text
from ingest.readers.media_types import OUTLOOK
from ingest.readers.members import ReadMember

_RICH_TEXT = 0x1009  # PidTagRtfCompressed


def read_outlook(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    message = Message.load(io.BytesIO(data))
    recipients = [
        f"{each.name} <{each.email_address}>" if each.name and each.name != each.email_address else each.email_address
        for each in message.recipients
    ]
    sent = message.sent_date
    found = {
        "From": message.sender or "",
        "To": ", ".join(filter(None, recipients)),
        "Date": format_datetime(sent) if sent else "",
        "Subject": message.subject or "",
    }
    headers = {name: " ".join(value.split()) for name, value in found.items() if value.strip()}
    return message_text(headers, _parts(message, limits), limits, read_member, media_type=OUTLOOK)


def _parts(message: Message, limits: ReadLimits) -> Iterator[str | Attachment]:
    if body := (message.body or "").strip():
        yield body
    elif html := (message.html_body or "").strip():
        yield read_html(html.encode("utf-8", "replace"), limits, "utf-8").text
    elif message.properties.binary_prop_value(_RICH_TEXT):
        yield Attachment("the text of the message (compressed RTF)", "", b"")
    for number, attachment in enumerate(message.attachments, start=1):
        # Without bytes: a message within the message, or a link. That it is empty is reported then.
        name = attachment.file_name or f"attachment {number}"
        yield Attachment(name, attachment.mime_type or "", attachment.file_bytes or b"")
