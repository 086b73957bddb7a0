"""What a worker and its reader child say to each other over pipes: frames of a length and JSON, a document as it is.

Never pickle: a document may have taken the child over, and what the child sends must not run in the worker.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from app.types import ExtractedText
from ingest.readers.limits import ProcessLimits, ReadLimits

READY = b"ready"
OUT_OF_MEMORY_EXIT_CODE = 77
_LENGTH = struct.Struct(">Q")
_MAX_HEADER_BYTES = 1_000_000
_MAX_REFUSAL_CHARS = 2_000


class MessageError(Exception):
    """The other side does not keep to the protocol."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    data: bytes
    uri: str
    media_type: str | None
    limits: ReadLimits
    process_limits: ProcessLimits


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """Either what was found or why the document is refused."""

    found: ExtractedText | None = None
    refusal: str | None = None


_ANSWER = TypeAdapter(ReadAnswer)


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
    header = {
        "uri": request.uri,
        "media_type": request.media_type,
        "limits": asdict(request.limits),
        "process_limits": asdict(request.process_limits),
        "byte_count": len(request.data),
    }
    write_frame(stream, json.dumps(header).encode("ascii"))
    write_frame(stream, request.data)


def read_request(stream: BinaryIO) -> ReadRequest:
    header = json.loads(read_frame(stream, max_bytes=_MAX_HEADER_BYTES))
    return ReadRequest(
        data=read_frame(stream, max_bytes=header["byte_count"]),
        uri=header["uri"],
        media_type=header["media_type"],
        limits=ReadLimits(**header["limits"]),
        process_limits=ProcessLimits(**header["process_limits"]),
    )


def write_answer(stream: BinaryIO, answer: ReadAnswer) -> None:
    if answer.refusal is not None:
        # Libraries quote the file, whatever stands in it.
        readable = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in answer.refusal[:_MAX_REFUSAL_CHARS])
        answer = ReadAnswer(refusal=readable)
    write_frame(stream, _ANSWER.dump_json(answer))


def read_answer(stream: BinaryIO, limits: ReadLimits) -> ReadAnswer:
    """Believes nothing: size, shape and values are checked. Raises MessageError or EOFError."""
    # JSON writes a character in at most six bytes; titles and metadata are short.
    max_bytes = 6 * limits.max_characters + 16 * limits.max_pages + _MAX_HEADER_BYTES
    try:
        answer = _ANSWER.validate_json(read_frame(stream, max_bytes=max_bytes), strict=True)
    except ValidationError as error:
        raise MessageError(f"{error.error_count()} values of the answer have another form than agreed") from error
    found = answer.found
    if (found is None) == (answer.refusal is None):
        raise MessageError("the answer is neither a text nor a refusal")
    if found is not None:
        starts = [0, *found.page_starts, len(found.text)]
        if any(start > end for start, end in pairwise(starts)):
            raise MessageError("the pages of the answer do not lie within its text")
        texts = (found.text, found.title, found.media_type, *found.metadata, *map(str, found.metadata.values()))
        if any("\0" in text for text in texts):
            raise MessageError("the answer holds NUL characters, which no database stores")
        answer = replace(answer, found=replace(found, page_starts=tuple(found.page_starts)))
    return answer


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
