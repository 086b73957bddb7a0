"""Messages between a worker and its reader child over pipes: frames of a length and JSON.

A request names a file. The answer is its text in parts, followed by findings or a refusal. Never pickle: a document may
have taken over the child, and data from the child must not run code in the worker.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from itertools import pairwise
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from app.types.pages import PageWords
from app.types.texts import NAVIGATION, POSITIONS, ROW, Findings, TextPart
from ingest.readers.limits import LONGEST_VALUE, MOST_VALUES, ProcessLimits, ReadLimits
from ingest.readers.parts import LONGEST_PART

READY = b"ready"
OUT_OF_MEMORY_EXIT_CODE = 77
_LENGTH = struct.Struct(">Q")
_MAX_HEADER_BYTES = 1_000_000
_PIECE_BYTES = 1_000_000
_MAX_REFUSAL_CHARS = 2_000
# JSON bytes per character of text: a blank line follows a mark, a separator a cell, a space a word.
_MARK_BYTES, _CELL_BYTES, _WORD_BYTES = 30 // 3, 40 // 2, 70 // 2
_MAX_COLUMNS = 2**31
_MAX_IMAGE_BYTES = 30_000_000
_JPEG = b"\xff\xd8\xff"


class MessageError(Exception):
    """The other side violates the protocol."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    path: str
    uri: str
    media_type: str | None
    limits: ReadLimits
    process_limits: ProcessLimits


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the document cannot be parsed, or only that its file is missing. `is_limit`: by a ServerLimitError."""

    reason: str
    is_missing: bool = False
    is_limit: bool = False


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Asks for one page: a JPEG image `width` pixels wide, or its words if `width` is 0."""

    path: str
    media_type: str
    page: int
    width: int
    limits: ReadLimits
    process_limits: ProcessLimits


@dataclass(frozen=True, slots=True)
class Advance:
    """The share of the document that is parsed, 0 to 1. The next page takes long (text recognition)."""

    share: float


@dataclass(frozen=True, slots=True)
class PageImage:
    """Announces a JPEG, which follows in a frame of its own."""

    byte_count: int


# A document: parts and advances, then findings. A page: words or an image. Either may end with a refusal.
ReadMessage = TextPart | Advance | Findings | Refusal | PageWords | PageImage


@dataclass(frozen=True, slots=True)
class _Envelope:
    """Exactly one field is set."""

    part: TextPart | None = None
    found: Findings | None = None
    refusal: Refusal | None = None
    advance: Advance | None = None
    words: PageWords | None = None
    image: PageImage | None = None


_ENVELOPE = TypeAdapter(_Envelope)
_NAMES: dict[type, str] = {
    TextPart: "part",
    Findings: "found",
    Refusal: "refusal",
    Advance: "advance",
    PageWords: "words",
    PageImage: "image",
}


def write_frame(stream: BinaryIO, payload: bytes) -> None:
    stream.write(_LENGTH.pack(len(payload)))
    stream.write(payload)
    stream.flush()


def read_frame(stream: BinaryIO, *, max_bytes: int) -> bytes:
    """Reads the next frame. Raises EOFError when the other side is gone, MessageError for one above `max_bytes`."""
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    if length > max_bytes:
        raise MessageError(f"a message of {length:,} bytes was announced; at most {max_bytes:,} were expected")
    return _read_exactly(stream, length)


def read_frame_into(stream: BinaryIO, file: BinaryIO, *, byte_count: int) -> None:
    """Copies a frame of exactly `byte_count` bytes into `file`, piece by piece. Raises EOFError and MessageError."""
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    if length != byte_count:
        raise MessageError(f"{length:,} bytes came where {byte_count:,} were announced")
    for start in range(0, byte_count, _PIECE_BYTES):
        file.write(_read_exactly(stream, min(_PIECE_BYTES, byte_count - start)))


def write_request(stream: BinaryIO, request: ReadRequest | PageRequest) -> None:
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    for name in ("limits", "process_limits"):
        values[name] = _values_of(values[name])
    write_frame(stream, json.dumps(values).encode("ascii"))


@lru_cache(maxsize=8)
def _values_of(limits: ReadLimits | ProcessLimits) -> dict[str, object]:
    """Cached, because limits are the same for every document."""
    return asdict(limits)


def read_request(stream: BinaryIO) -> ReadRequest | PageRequest:
    values = json.loads(read_frame(stream, max_bytes=_MAX_HEADER_BYTES))
    limits, process_limits = ReadLimits(**values.pop("limits")), ProcessLimits(**values.pop("process_limits"))
    make = PageRequest if "page" in values else ReadRequest
    return make(**values, limits=limits, process_limits=process_limits)


def write_message(stream: BinaryIO, message: ReadMessage) -> None:
    if isinstance(message, Refusal):
        # Libraries quote content of the file, which may be unprintable.
        reason = message.reason[:_MAX_REFUSAL_CHARS]
        readable = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in reason)
        message = replace(message, reason=readable)
    write_frame(stream, _ENVELOPE.dump_json(_Envelope(**{_NAMES[type(message)]: message})))  # type: ignore[arg-type]


def write_image(stream: BinaryIO, image: bytes) -> None:
    write_message(stream, PageImage(len(image)))
    write_frame(stream, image)


class AnswerReader:
    """Reads one answer of an untrusted child: checks sizes, structure and values."""

    def __init__(self, stream: BinaryIO, limits: ReadLimits) -> None:
        self._stream = stream
        self._limits = limits
        self._length = 0
        self._last_page = 0
        self._last_mark = 0
        self._last_cell = 0
        self._last_word = 0
        self._advances = 0

    def next(self) -> ReadMessage:
        """The next message. Raises MessageError or EOFError."""
        # JSON takes at most six bytes per character; titles and metadata are short.
        per_character = 6 + _MARK_BYTES + _CELL_BYTES + _WORD_BYTES
        max_bytes = per_character * LONGEST_PART + 16 * self._limits.max_pages + _MAX_HEADER_BYTES
        message = _parsed(read_frame(self._stream, max_bytes=max_bytes))
        texts: tuple[str, ...] = ()
        if isinstance(message, TextPart):
            self._check_place(message)
            texts = (message.text,)
        elif isinstance(message, Findings):
            texts = (message.title, message.media_type, *message.metadata, *map(str, message.metadata.values()))
            if len(message.metadata) > MOST_VALUES or max(map(len, texts)) > LONGEST_VALUE:
                raise MessageError("the title or the metadata of the answer are too long")
        elif isinstance(message, Advance):
            self._check_advance(message)
        elif isinstance(message, PageWords):
            self._check_words(message)
            texts = tuple(word.text for word in message.words)
        if any("\0" in text for text in texts):
            raise MessageError("the answer holds NUL characters, which no database stores")
        return message

    def _check_place(self, part: TextPart) -> None:
        begin, self._length = self._length, self._length + len(part.text)
        if self._length > self._limits.max_characters:
            raise MessageError("the text is too long")
        starts = [max(begin, self._last_page), *part.page_starts, self._length]
        if any(start > end for start, end in pairwise(starts)):
            raise MessageError("the pages of the answer do not lie within its text")
        self._last_page = starts[-2]
        for mark in part.marks:
            is_in_place = max(begin, self._last_mark) <= mark.start < mark.end <= self._limits.max_characters
            if not is_in_place or not ROW <= mark.level <= NAVIGATION:
                raise MessageError("the marks of the answer do not lie within its text")
            self._last_mark = mark.end
        if part.marks and part.marks[-1].start >= self._length:
            raise MessageError("the marks of the answer do not lie within its text")
        self._check_cells(begin, part)
        self._check_places(begin, part)

    def _check_cells(self, begin: int, part: TextPart) -> None:
        most = self._limits.max_characters
        for cell in part.cells:
            is_in_text = max(begin, self._last_cell) <= cell.start <= cell.value <= cell.end <= most
            if not is_in_text or cell.start >= self._length or not 0 <= cell.column < _MAX_COLUMNS:
                raise MessageError("the cells of the answer do not lie within its text")
            self._last_cell = cell.end

    def _check_places(self, begin: int, part: TextPart) -> None:
        for word in part.words:
            is_in_text = max(begin, self._last_word) <= word.start < word.end <= self._limits.max_characters
            is_on_page = 0 <= word.left <= word.right <= POSITIONS and 0 <= word.top <= word.bottom <= POSITIONS
            is_counted = 1 <= word.page <= self._limits.max_pages and 0 <= word.confidence <= 100
            if word.start >= self._length or not (is_in_text and is_on_page and is_counted):
                raise MessageError("the words of the answer do not lie on its pages")
            self._last_word = word.end

    def _check_advance(self, advance: Advance) -> None:
        """Limits advances, because each gives the child more time."""
        self._advances += 1
        if not 0 <= advance.share <= 1 or self._advances > self._limits.max_recognized_pages:
            raise MessageError("more pages were announced than are recognised")

    def _check_words(self, page: PageWords) -> None:
        places = (0 <= word.left <= word.right <= 1 and 0 <= word.top <= word.bottom <= 1 for word in page.words)
        if not all(places) or not (page.width > 0 and page.height > 0) or page.count < 1:
            raise MessageError("the words of the page do not lie on it")

    def image(self, announced: PageImage) -> bytes:
        """The image that follows `announced`. Raises MessageError or EOFError."""
        image = read_frame(self._stream, max_bytes=_MAX_IMAGE_BYTES)
        if len(image) != announced.byte_count or not image.startswith(_JPEG):
            raise MessageError("the image of the page is not the announced JPEG")
        return image


def _parsed(payload: bytes) -> ReadMessage:
    try:
        envelope = _ENVELOPE.validate_json(payload, strict=True)
    except ValidationError as error:
        raise MessageError(f"{error.error_count()} values of the answer are invalid") from error
    messages = [value for name in _NAMES.values() if (value := getattr(envelope, name)) is not None]
    if len(messages) != 1:
        raise MessageError("the answer is not exactly one message")
    message: ReadMessage = messages[0]
    return message


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
