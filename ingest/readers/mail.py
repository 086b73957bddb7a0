"""Messages and mailboxes: subject, people, date, all texts of the body, and attachments through their own readers."""

from __future__ import annotations

import base64
import binascii
import codecs
import email
import email.policy
import re
from collections.abc import Iterator
from contextlib import suppress
from email.message import EmailMessage
from itertools import chain, takewhile
from typing import Any, cast

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.encodings import unmarked_utf16
from ingest.readers.errors import parser_errors
from ingest.readers.html import read_html
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import SIGNED, known_type
from ingest.readers.members import Members, ReadMember
from ingest.readers.message_parts import (
    SHOWN_HEADERS,
    Attachment,
    decoded_bytes,
    decoded_words,
    message_text,
    shown_alternatives,
)
from ingest.readers.signed_files import signed_content
from ingest.readers.text import clean_text, decode_text
from ingest.readers.tnef import SIGNATURE as TNEF_SIGNATURE
from ingest.readers.tnef import packed_parts

# A message starts at such a line if a header follows: after an empty line, or with the time of an envelope after any.
# Other lines that begin with `From ` are text, which not every program quotes.
_MESSAGE_START = re.compile(
    rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n)|(?<=\n)(?=From \S+ +\w{3} \w{3} +\d+ \d\d?:\d\d[^\n]* \d{4}))"
    rb"From [^\n]*\n(?=>?[!-9;-~]{1,76}:|(?<=\d{4}\n)\r?\n|(?<=\d{4}\r\n)\r?\n)",
)
_ENVELOPE_TIME = re.compile(rb"\d{1,2}:\d\d")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_ESCAPED_BYTES = re.compile("[\\udc80-\\udcff]")  # non-ASCII header bytes, as the parser keeps them
_MAX_HEADER = 1_000
_LONGEST_RAW = 20_000
_LONGEST_PARSED = 5_000  # characters of a header
_LONGEST_PARAMETER = 1_000
# Tokens of a header: quoted text, comment, end of a parameter, anything else. Each ends where the next one begins.
_HEADER_TOKEN = re.compile(r'"(?:[^"\\]|\\.?)*+"?|(?P<comment>\((?:[^()\\]|\\.?)*+\)?)|(?P<end>;)|[^";(]+', re.DOTALL)
_PARAMETER = re.compile(r"\s*(boundary|charset|name|filename|format|delsp)[*\d]*\s*=", re.IGNORECASE)
_MAX_PARTS = 10_000
_BODY_TYPES = ("text/plain", "text/html", "text/enriched")
# Files that a saved web page (MHTML) brings along for its look.
_OF_A_PAGE = ("text/css", "text/javascript", "application/javascript", "application/x-javascript", "font/woff2")
# Parts that no mail program shows: signatures, and what only says that the next part is encrypted.
_NOT_SHOWN = (
    *("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"),
    "application/pgp-encrypted",
)
_NAMES_OF_SIGNED = ("", "smime.p7m")  # a signed file with another name is an attachment
_END_OF_HEADERS = re.compile(rb"\r?\n\r?\n")
_BLANKS_BEFORE_COLON = re.compile(rb"^([!-9;-~]{1,76})[ \t]++:", re.MULTILINE)  # as messages before RFC 2822 have them
_APPLE_LENGTH = re.compile(rb"\s*(\d{1,9})\s*\n")  # before a message of Apple Mail; a list of its own follows it
_UUENCODED = re.compile(
    r"^begin [0-7]{3,4} (?P<name>[^\n]+)\n(?P<lines>(?:[!-`][ -`]*\n)+?)(?:[ `]*\n)?end[ \t]*$", re.MULTILINE
)
_BASE64_LINE = re.compile(r"\s*+[A-Za-z0-9+/]*+={0,2}\s*+")
_WITH_PARAMETERS = ("content-type", "content-disposition")


def read_message(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """An .eml message with its attachments. Raises DocumentError if it has no header, or nothing readable."""
    message = parse_message(data)
    if not message.keys():
        raise DocumentError("This is not a mail message: it has no header. Save it again as .eml in a mail program.")
    headers = {name: value for name in (*SHOWN_HEADERS, "Subject") if (value := _header(message, name))}
    return message_text(
        headers, iter(_unpacked(list(_parts(message)), limits)), limits, read_member, media_type="message/rfc822"
    )


class _ShortHeaders(email.policy.EmailPolicy):
    """Parses only the begin of a long header, and the parameters that a reader needs: the time for parameters grows
    with the square of their length."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        if len(value) > _LONGEST_PARSED:
            value = _shortened(value) if name.lower() in _WITH_PARAMETERS else value[:_LONGEST_PARSED]
        return super().header_fetch_parse(name, value)


_POLICY = cast("email.policy.Policy[EmailMessage]", _ShortHeaders())  # its type stub has no way to say so


def _shortened(value: str) -> str:
    """The value of a header with its needed parameters alone, in at most 5,000 characters."""
    begin, *parameters = _split_at_semicolons(value)
    kept = [begin[:_LONGEST_PARAMETER]]
    left = _LONGEST_PARSED - len(kept[0])
    for parameter in parameters:
        if len(parameter) <= _LONGEST_PARAMETER and _PARAMETER.match(parameter) and len(parameter) < left:
            kept.append(parameter)
            left -= len(parameter) + 1
    return ";".join(kept)


def _split_at_semicolons(value: str) -> list[str]:
    """The value and the parameters of a header, without comments."""
    pieces: list[list[str]] = [[]]
    for token in _HEADER_TOKEN.finditer(value):
        if token["end"]:
            pieces.append([])
        elif not token["comment"]:
            pieces[-1].append(token[0])
    return ["".join(piece) for piece in pieces]


def parse_message(data: bytes) -> EmailMessage:
    if _is_utf16(data):
        data = decode_text(data).text.encode()
    data = data.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    if length := _APPLE_LENGTH.match(data):
        data = data[length.end() : length.end() + int(length[1])]
    body = end.start() if (end := _END_OF_HEADERS.search(data)) else len(data)
    headers = _BLANKS_BEFORE_COLON.sub(rb"\1:", data[:body])
    return email.message_from_bytes(headers + data[body:], policy=_POLICY)


def _is_utf16(data: bytes) -> bool:
    head = data[:1_000]
    return head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or (
        b"\0" in head and unmarked_utf16(head) is not None
    )


def read_mailbox(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """An mbox file: each message under a heading. Raises DocumentError without a `From ` line at its start."""
    data = data.removeprefix(codecs.BOM_UTF8)
    starts = [start for start in _MESSAGE_START.finditer(data) if _ENVELOPE_TIME.search(start[0]) or not start.start()]
    if not starts or data[: starts[0].start()].strip():
        raise DocumentError("This is not a mailbox: it does not begin with a `From ` line. Export it again as mbox.")
    members = Members("mailbox", "messages", limits, read_member)
    ends = [start.start() for start in starts[1:]] + [len(data)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), start=1):
        message = _QUOTED_FROM.sub(rb"\1", data[start.end() : end])
        has_headers = not message.startswith((b"\n", b"\r"))
        members.add(
            f"Message {number}",
            lambda _, message=message: message,  # type: ignore[misc]
            media_type="message/rfc822" if has_headers else "text/plain",
        )
    members.require_one()
    return ExtractedText(
        members.text, "", "application/mbox", members.metadata, marks=members.marks, cells=members.cells
    )


def _header(message: EmailMessage, name: str) -> str:
    raw = str(next((raw for key, raw in message.raw_items() if key.lower() == name.lower()), ""))
    if len(raw) > _LONGEST_RAW:  # the email parser would take seconds
        return " ".join(clean_text(decoded_words(raw[:_LONGEST_RAW])).split())[:_MAX_HEADER]
    try:
        value = str(message.get(name, ""))
    except parser_errors():  # headers are parsed on access, and the parser fails on some
        value = ""
    if "=?" in raw or "\ufffd" in value or _ESCAPED_BYTES.search(raw):
        value = decoded_words(raw) or value
    return " ".join(clean_text(value).split())[:_MAX_HEADER]


def _unpacked(parts: list[str | Attachment], limits: ReadLimits) -> list[str | Attachment]:
    """Replaces winmail.dat by the parts that Outlook packed into it. Its text is another version of the body."""
    for at, part in enumerate(parts):
        if isinstance(part, str) or not part.payload.startswith(TNEF_SIGNATURE):
            continue
        try:
            packed = list(packed_parts(part.payload, limits))
        except parser_errors():  # its reader reports what is wrong
            continue
        forms = [[each for each in some if isinstance(each, str)] for some in (parts, packed)]
        shown = shown_alternatives(["\n".join(form) for form in forms])
        files = [each for each in (*parts[:at], *packed, *parts[at + 1 :]) if isinstance(each, Attachment)]
        return [*chain.from_iterable(forms[form] for form in shown), *files]
    return parts


def _parts(message: EmailMessage) -> Iterator[str | Attachment]:
    """Yields body texts in the order shown, and attachments wherever they are."""
    seen = 0
    stack: list[tuple[EmailMessage, bool]] = [(message, True)]
    while stack:
        part, is_body = stack.pop()
        seen += 1
        if seen > _MAX_PARTS:
            raise DocumentError(f"This message has more than {_MAX_PARTS:,} parts, which is the limit. Split it.")
        children = _children(part)
        if not children:
            yield from _leaf(part, is_body)
        elif part.get_content_subtype() == "alternative":
            shown = shown_alternatives(list(map(_texts_in, children)))
            stack.extend((child, is_body and at in shown) for at, child in reversed(list(enumerate(children))))
        else:
            stack.extend((child, is_body) for child in reversed(children))


def _children(part: EmailMessage) -> list[EmailMessage]:
    if part.get_content_maintype() != "multipart" or not part.is_multipart():
        return []
    return [child for child in part.iter_parts() if isinstance(child, EmailMessage)]


def _texts_in(part: EmailMessage) -> str:
    if children := _children(part):
        return "\n".join(map(_texts_in, children))
    is_text = part.get_content_type() in _BODY_TYPES and not _is_attached(part)
    return _text_of(part) if is_text else ""


def _is_attached(part: EmailMessage) -> bool:
    return part.get_content_disposition() == "attachment" or (
        part.get_content_type() not in ("text/plain", "text/html") and bool(part.get_filename())
    )


def _leaf(part: EmailMessage, is_body: bool) -> Iterator[str | Attachment]:
    media_type = part.get_content_type()
    name = part.get_filename() or ""
    if media_type == "message/rfc822" and part.is_multipart():
        inner = part.get_payload(0)
        if isinstance(inner, EmailMessage):
            yield Attachment(name or "message", media_type, _bytes_of_message(part, inner))
        return
    if media_type in _NOT_SHOWN:
        return
    if media_type.startswith("multipart/"):  # its declared boundary is missing
        if is_body and (text := _text_of(part).strip()):
            yield text
        return
    if media_type in _BODY_TYPES and not _is_attached(part):
        if is_body:
            yield from _body(_text_of(part))
        return
    if part.is_multipart():  # a delivery report, which has parts of its own
        payloads = [inner.as_bytes() for inner in part.iter_parts() if isinstance(inner, EmailMessage)]
        yield Attachment(name or media_type.partition("/")[2], "text/plain", b"\n".join(payloads))
        return
    is_signed = known_type(media_type) == SIGNED and name.lower() in _NAMES_OF_SIGNED
    if is_signed and (content := signed_content(part.get_payload(decode=True) or b"")):  # type: ignore[arg-type]
        yield from _parts(parse_message(content))
        return
    identity = part.get("Content-ID") or part.get("Content-Location")
    if is_inline_picture(part.get_content_maintype(), part.get_content_disposition(), identity):
        return
    if media_type in _OF_A_PAGE and identity and part.get_content_disposition() != "attachment":
        return
    payload = part.get_payload(decode=True)
    if isinstance(payload, bytes) and (payload or name):
        charset = part.get_content_charset()
        declared = f"{media_type}; charset={charset}" if charset else media_type
        yield Attachment(name or "attachment", declared, payload)


def _body(text: str) -> Iterator[str | Attachment]:
    """The text of a body, and the files that old programs wrote into it (uuencode)."""
    files: list[Attachment] = []

    def without_file(match: re.Match[str]) -> str:
        if not (data := _uudecoded(match["lines"])):
            return match[0]
        files.append(Attachment(match["name"].strip(), "", data))
        return ""

    text = _UUENCODED.sub(without_file, text)
    if text.strip():
        yield text.strip()
    yield from files


def _uudecoded(lines: str) -> bytes:
    """The file in lines of uuencode; empty if they are something else."""
    try:
        pieces = [(line, binascii.a2b_uu(line.encode("ascii"))) for line in lines.splitlines()]
    except ValueError:  # binascii.Error, and characters beyond ASCII
        return b""
    # A line begins with its count of bytes, and four characters hold three of them; binascii lets some be missing.
    is_whole = all(4 * len(piece) <= 3 * len(line[1:]) for line, piece in pieces)
    return b"".join(piece for _, piece in pieces) if is_whole else b""


def _bytes_of_message(part: EmailMessage, inner: EmailMessage) -> bytes:
    """An attached message. Some programs encode it, although RFC 2046 forbids that; its parser then sees one body."""
    data = inner.as_bytes()
    encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    if encoding == "base64" and not inner.keys():
        with suppress(ValueError):
            return base64.b64decode(data)
    return data


def is_inline_picture(maintype: str, disposition: str | None, content_id: object) -> bool:
    """Whether it is a picture shown inside the HTML of a message, such as a logo."""
    return maintype == "image" and disposition != "attachment" and content_id is not None


def _text_of(part: EmailMessage) -> str:
    payload = _with_appended_lines(part) or part.get_payload(decode=True)
    if not isinstance(payload, bytes) or not payload:
        return ""
    charset = part.get_content_charset() or ""
    if part.get_content_subtype() == "html":
        try:
            return read_html(payload, ReadLimits(), charset).text
        except DocumentError:
            return ""
    text = decoded_bytes(payload, charset)
    if str(part.get_param("format", "")).lower() == "flowed":
        text = _unflowed(text, is_spaced=str(part.get_param("delsp", "")).lower() == "yes")
    return text


def _with_appended_lines(part: EmailMessage) -> bytes:
    """A base64 body with the lines that a mailing list appended without encoding them; empty if there are none."""
    raw = part.get_payload()
    if str(part.get("Content-Transfer-Encoding", "")).strip().lower() != "base64" or not isinstance(raw, str):
        return b""
    lines = raw.strip().splitlines()
    encoded = list(takewhile(_BASE64_LINE.fullmatch, lines))
    is_all = len(encoded) == len(lines)
    padded = next((number for number, line in enumerate(encoded, 1) if line.rstrip().endswith("=")), 0)
    if padded:
        encoded = encoded[:padded]
    elif not is_all:
        encoded = list(takewhile(str.strip, encoded))
    if not encoded or len(encoded) == len(lines):
        return b""
    with suppress(ValueError):
        body = base64.b64decode("".join(encoded))
        return b"\n".join([body, *(line.encode("utf-8", "surrogateescape") for line in lines[len(encoded) :])])
    return b""


def _unflowed(text: str, *, is_spaced: bool) -> str:
    """Joins lines to paragraphs (RFC 3676): a line that ends with a blank continues in the next line of equal quoting.

    `is_spaced` (DelSp): that blank is not part of the text.
    """
    lines: list[list[str]] = []  # pieces per output line
    open_depth = -1
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        content = line[depth:].removeprefix(" ")
        if depth == open_depth and content != "-- ":
            lines[-1].append(content)
        else:
            lines.append([(">" * depth + " " if depth else "") + content])
        is_soft = content.endswith(" ") and content != "-- "
        open_depth = depth if is_soft else -1
        if is_soft and is_spaced:
            lines[-1][-1] = lines[-1][-1][:-1]
    return "\n".join("".join(pieces).rstrip() for pieces in lines)
