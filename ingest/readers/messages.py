"""What a worker and its reader child say to each other over pipes: frames of a length and JSON.

The request names a file; the answer is its text in parts, then what else was found, or why it is refused.
Never pickle: a document may have taken the child over, and what the child sends must not run in the worker.
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
from ingest.readers.limits import ProcessLimits, ReadLimits
from ingest.readers.parts import LONGEST_PART

READY = b"ready"
OUT_OF_MEMORY_EXIT_CODE = 77
_LENGTH = struct.Struct(">Q")
_MAX_HEADER_BYTES = 1_000_000
_PIECE_BYTES = 1_000_000
_MAX_REFUSAL_CHARS = 2_000
# In JSON, per character: a mark has a blank line after it, a cell something between, a word a space.
_MARK_BYTES, _CELL_BYTES, _WORD_BYTES = 30 // 3, 40 // 2, 70 // 2
_MAX_COLUMNS = 2**31
_MAX_IMAGE_BYTES = 30_000_000
_JPEG = b"\xff\xd8\xff"


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


@dataclass(frozen=True, slots=True)
class PageRequest:
    """For a page as it is seen: its picture, so many pixels wide, or, where `width` is 0, its words."""

    path: str
    media_type: str
    page: int
    width: int
    limits: ReadLimits
    process_limits: ProcessLimits


@dataclass(frozen=True, slots=True)
class Advance:
    """So much of the document is read; a page comes now that takes long."""

    share: float


@dataclass(frozen=True, slots=True)
class PageImage:
    """The JPEG comes in a frame of its own, after this."""

    byte_count: int


# Parts and advances, then findings; or a page; or a refusal.
ReadMessage = TextPart | Advance | Findings | Refusal | PageWords | PageImage


@dataclass(frozen=True, slots=True)
class _Envelope:
    """One of them."""

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
    """Raises EOFError when the other side is gone."""
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    if length > max_bytes:
        raise MessageError(f"a message of {length:,} bytes was announced; at most {max_bytes:,} were expected")
    return _read_exactly(stream, length)


def read_frame_into(stream: BinaryIO, file: BinaryIO, *, byte_count: int) -> None:
    """A frame of just so many bytes, never held whole. Raises EOFError and MessageError."""
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    if length != byte_count:
        raise MessageError(f"{length:,} bytes came where {byte_count:,} were announced")
    for start in range(0, byte_count, _PIECE_BYTES):
        file.write(_read_exactly(stream, min(_PIECE_BYTES, byte_count - start)))


def write_request(stream: BinaryIO, request: ReadRequest | PageRequest) -> None:
    values = {each.name: getattr(request, each.name) for each in fields(request)}
    for name in ("limits", "process_limits"):
        values[name] = _values_of(values[name])
    write_frame(stream, json.dumps(values).encode("ascii"))


@lru_cache(maxsize=8)
def _values_of(limits: ReadLimits | ProcessLimits) -> dict[str, object]:
    """The same for every document."""
    return asdict(limits)


def read_request(stream: BinaryIO) -> ReadRequest | PageRequest:
    values = json.loads(read_frame(stream, max_bytes=_MAX_HEADER_BYTES))
    limits, process_limits = ReadLimits(**values.pop("limits")), ProcessLimits(**values.pop("process_limits"))
    make = PageRequest if "page" in values else ReadRequest
    return make(**values, limits=limits, process_limits=process_limits)


def write_message(stream: BinaryIO, message: ReadMessage) -> None:
    if isinstance(message, Refusal):
        # Libraries quote the file, whatever stands in it.
        reason = message.reason[:_MAX_REFUSAL_CHARS]
        readable = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in reason)
        message = replace(message, reason=readable)
    write_frame(stream, _ENVELOPE.dump_json(_Envelope(**{_NAMES[type(message)]: message})))  # type: ignore[arg-type]


def write_image(stream: BinaryIO, image: bytes) -> None:
    write_message(stream, PageImage(len(image)))
    write_frame(stream, image)


class AnswerReader:
    """Reads one answer and believes nothing: size, shape and values are checked."""

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
        """Raises MessageError or EOFError."""
        # JSON writes a character in at most six bytes; titles and metadata are short.
        per_character = 6 + _MARK_BYTES + _CELL_BYTES + _WORD_BYTES
        max_bytes = per_character * LONGEST_PART + 16 * self._limits.max_pages + _MAX_HEADER_BYTES
        message = _parsed(read_frame(self._stream, max_bytes=max_bytes))
        texts: tuple[str, ...] = ()
        if isinstance(message, TextPart):
            self._check_place(message)
            texts = (message.text,)
        elif isinstance(message, Findings):
            texts = (message.title, message.media_type, *message.metadata, *map(str, message.metadata.values()))
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
            raise MessageError("the text is longer than was allowed")
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
        """Each gives the child more time."""
        self._advances += 1
        if not 0 <= advance.share <= 1 or self._advances > self._limits.max_recognized_pages:
            raise MessageError("more pages were announced than are recognised")

    def _check_words(self, page: PageWords) -> None:
        places = (0 <= each.left <= each.right <= 1 and 0 <= each.top <= each.bottom <= 1 for each in page.words)
        if not all(places) or not (page.width > 0 and page.height > 0) or page.count < 1:
            raise MessageError("the words of the page do not lie on it")

    def image(self, announced: PageImage) -> bytes:
        """Raises MessageError or EOFError."""
        image = read_frame(self._stream, max_bytes=_MAX_IMAGE_BYTES)
        if len(image) != announced.byte_count or not image.startswith(_JPEG):
            raise MessageError("the picture of the page is none")
        return image


def _parsed(payload: bytes) -> ReadMessage:
    try:
        envelope = _ENVELOPE.validate_json(payload, strict=True)
    except ValidationError as error:
        raise MessageError(f"{error.error_count()} values of the answer have another form than agreed") from error
    messages = [each for name in _NAMES.values() if (each := getattr(envelope, name)) is not None]
    if len(messages) != 1:
        raise MessageError("the answer is neither a text nor a refusal")
    message: ReadMessage = messages[0]
    return message


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
