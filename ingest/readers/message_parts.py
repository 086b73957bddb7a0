"""What all formats of messages share: their parts, their headers, which of several versions is shown, and the text that
is made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from email.errors import HeaderParseError
from email.header import decode_header
from email.utils import parsedate_to_datetime

from app.errors import DocumentError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.members import Members, ReadMember
from ingest.readers.payloads import Payloads
from ingest.readers.text import decode_text

_ENCODED_WORDS = re.compile(r"(=\?[^?\s]+\?[BbQq]\?[^?\s]*\?=)\s+(?==\?[^?\s]+\?[BbQq]\?[^?\s]*\?=)")
_WORD = re.compile(r"\w{3,}")
_WORD_SIGN = re.compile(r"\w")
_ADDRESS = re.compile(r"<?\bhttps?://\S+")  # which plain text spells out, and HTML has behind a link
_OTHER_WORDS = 0.4  # least share of other words in an alternative; with fewer it differs only in layout
SHOWN_HEADERS = ("From", "Reply-To", "To", "Cc", "Bcc", "Date")


class Attachment:
    def __init__(self, name: str, media_type: str, payload: bytes) -> None:
        self.name, self.media_type, self.payload = name, media_type, payload


def message_text(
    headers: dict[str, str],
    parts: Iterator[str | Attachment],
    limits: ReadLimits,
    read_member: ReadMember,
    *,
    media_type: str,
) -> ExtractedText:
    """Builds the text of a message from headers, body texts and attachments. Attachments follow all texts.

    Raises DocumentError for a message without subject, text and readable attachment.
    """
    members = Members("message", "attachments", limits, read_member, level=2)
    subject = headers.get("Subject", "")
    if subject:
        members.write(f"# {subject}", level=1)
    if head := [f"{name}: {headers[name]}" for name in SHOWN_HEADERS if headers.get(name)]:
        members.write("\n".join(head))
    has_text, attachments, payloads = False, [], Payloads()
    for part in parts:
        if isinstance(part, str):
            members.write(payloads.text(part, "Text of the message"))
            has_text = True
        else:
            attachments.append(part)
    for attachment in attachments:
        members.add(
            attachment.name,
            lambda _, payload=attachment.payload: payload,  # type: ignore[misc]
            media_type=attachment.media_type,
        )
    if not (subject or has_text or members.read_count):
        raise DocumentError(
            f"This message is empty: it has no subject, no body and no attachment that can be read.{members.reasons}"
        )
    metadata = _metadata(headers)
    if members.has_any:
        metadata.update(members.metadata)
    metadata = dict(payloads.skipped.added_to(metadata))
    return ExtractedText(members.text, subject, media_type, metadata, marks=members.marks, cells=members.cells)


def decoded_words(raw: str) -> str:
    """Decodes encoded words (RFC 2047): drops blanks between two, and joins their bytes first, as both may share a
    character."""
    joined: list[tuple[bytes, str]] = []
    try:
        words = decode_header(_ENCODED_WORDS.sub(r"\1 ", raw))
    except (HeaderParseError, ValueError):
        return ""
    for word, charset in words:
        data = word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word
        if joined and charset and joined[-1][1] == charset:
            joined[-1] = joined[-1][0] + data, charset
        else:
            joined.append((data, charset or ""))
    return "".join(decoded_bytes(data, charset) for data, charset in joined)


def decoded_bytes(data: bytes, charset: str) -> str:
    return decode_text(data, charset).text if data else ""


def shown_alternatives(forms: Sequence[str]) -> list[int]:
    """Which of the forms of one text are shown, best first. Mail programs show the last one.

    The first form that is not blank, usually plain text, or the last, if the first lacks words of it. And others with
    at least 40 % other words: one of them may only say that an HTML viewer is needed."""
    texts = [(at, text) for at, form in enumerate(forms) if _WORD_SIGN.search(text := form.lower())]
    if not texts:
        return []
    if set(_WORD.findall(texts[-1][1])) - set(_WORD.findall(texts[0][1])):
        texts.reverse()
    shown: list[int] = []
    known: set[str] = set()
    for at, text in texts:
        words = set(_WORD.findall(_ADDRESS.sub(" ", text)))
        if not shown or len(words - known) > _OTHER_WORDS * len(words):
            shown.append(at)
            known |= words
    return shown


def _metadata(headers: dict[str, str]) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for name in ("From", "To", "Subject"):
        if value := headers.get(name):
            metadata[name.lower()] = value
    with suppress(ValueError):  # no date, or none that can be understood
        metadata["date"] = parsedate_to_datetime(headers.get("Date", "")).isoformat()
    return metadata
