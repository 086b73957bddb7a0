"""What a worker and its reader child say to each other over pipes: frames of a length and JSON.

The request names a file; the answer is its text in parts, then what else was found, or why it is refused.
Never pickle: a document may have taken the child over, and what the child sends must not run in the worker.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from app.types.texts import Findings, TextPart
from ingest.readers.limits import ProcessLimits, ReadLimits
from ingest.readers.parts import LONGEST_PART

READY = b"ready"
OUT_OF_MEMORY_EXIT_CODE = 77
_LENGTH = struct.Struct(">Q")
_MAX_HEADER_BYTES = 1_000_000
_MAX_REFUSAL_CHARS = 2_000
_MARK_BYTES = 30  # three numbers in JSON
_LOWEST_LEVEL = 6  # of headings


class MessageError(Exception):
    """The other side does not keep to the protocol."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    path: str
    uri: str
    media_type: str | None
    limits: ReadLimits
    process_limits: ProcessLimits


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the document cannot be read; or only that its file is not there."""

    reason: str
    is_missing: bool = False


ReadMessage = TextPart | Findings | Refusal  # parts, then one of the others


@dataclass(frozen=True, slots=True)
class _Envelope:
    """One of them."""

    part: TextPart | None = None
    found: Findings | None = None
    refusal: Refusal | None = None


_ENVELOPE = TypeAdapter(_Envelope)


def write_frame(stream: BinaryIO, payload: bytes) -> None:
    stream.write(_LENGTH.pack(len(payload)))
    stream.write(payload)
    stream.flush()


def read_frame(stream: BinaryIO, *, max_bytes: int) -> bytes:
    """Raises EOFError when the other side is gone."""
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    if length > max_bytes:
        raise MessageError(f"a message of {length:,} bytes was announced; at most {max_bytes:,} were expected")
    return _read_exactly(stream, length)


def write_request(stream: BinaryIO, request: ReadRequest) -> None:
    write_frame(stream, json.dumps(asdict(request)).encode("ascii"))


def read_request(stream: BinaryIO) -> ReadRequest:
    values = json.loads(read_frame(stream, max_bytes=_MAX_HEADER_BYTES))
    limits, process_limits = ReadLimits(**values.pop("limits")), ProcessLimits(**values.pop("process_limits"))
    return ReadRequest(**values, limits=limits, process_limits=process_limits)


def write_message(stream: BinaryIO, message: ReadMessage) -> None:
    if isinstance(message, Refusal):
        # Libraries quote the file, whatever stands in it.
        reason = message.reason[:_MAX_REFUSAL_CHARS]
        readable = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in reason)
        message = replace(message, reason=readable)
    name = {TextPart: "part", Findings: "found", Refusal: "refusal"}[type(message)]
    write_frame(stream, _ENVELOPE.dump_json(_Envelope(**{name: message})))  # type: ignore[arg-type]


class AnswerReader:
    """Reads one answer and believes nothing: size, shape and values are checked."""

    def __init__(self, stream: BinaryIO, limits: ReadLimits) -> None:
        self._stream = stream
        self._limits = limits
        self._length = 0
        self._last_page = 0
        self._last_mark = 0

    def next(self) -> ReadMessage:
        """Raises MessageError or EOFError."""
        # JSON writes a character in at most six bytes; titles and metadata are short. Marks have blank lines between.
        max_bytes = (6 + _MARK_BYTES // 3) * LONGEST_PART + 16 * self._limits.max_pages + _MAX_HEADER_BYTES
        message = _parsed(read_frame(self._stream, max_bytes=max_bytes))
        texts: tuple[str, ...] = ()
        if isinstance(message, TextPart):
            self._check_place(message)
            texts = (message.text,)
        elif isinstance(message, Findings):
            texts = (message.title, message.media_type, *message.metadata, *map(str, message.metadata.values()))
        if any("\0" in text for text in texts):
            raise MessageError("the answer holds NUL characters, which no database stores")
        return message

    def _check_place(self, part: TextPart) -> None:
        begin, self._length = self._length, self._length + len(part.text)
        if self._length > self._limits.max_characters:
            raise MessageError("the text is longer than was allowed")
        starts = [max(begin, self._last_page), *part.page_starts, self._length]
        if any(start > end for start, end in pairwise(starts)):
            raise MessageError("the pages of the answer do not lie within its text")
        self._last_page = starts[-2]
        for mark in part.marks:
            is_in_place = max(begin, self._last_mark) <= mark.start < mark.end <= self._limits.max_characters
            if not is_in_place or not 0 <= mark.level <= _LOWEST_LEVEL:
                raise MessageError("the marks of the answer do not lie within its text")
            self._last_mark = mark.end
        if part.marks and part.marks[-1].start >= self._length:
            raise MessageError("the marks of the answer do not lie within its text")


def _parsed(payload: bytes) -> ReadMessage:
    try:
        envelope = _ENVELOPE.validate_json(payload, strict=True)
    except ValidationError as error:
        raise MessageError(f"{error.error_count()} values of the answer have another form than agreed") from error
    messages = [each for each in (envelope.part, envelope.found, envelope.refusal) if each is not None]
    if len(messages) != 1:
        raise MessageError("the answer is neither a text nor a refusal")
    return messages[0]


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
