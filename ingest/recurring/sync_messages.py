"""Messages between a worker and the child that syncs a source: frames of a length and JSON, never pickle.

The child gets one source and only its credentials. Its answers are validated, because a server may have taken it over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError

from app.types.credentials import Credentials
from app.types.sources import ItemMark, RecurringSource
from ingest.readers.limits import MEGABYTE, ProcessLimits
from ingest.readers.messages import MessageError, read_frame, write_frame

ITEMS_PER_PART = 500
MAX_LISTED_CHARACTERS = 20_000_000  # all addresses of a listing together
MAX_ADDRESS, MAX_MARK = 8_000, 500  # characters
MAX_REASON, _MAX_NAME = 2_000, 8_000
_MAX_REQUEST_BYTES = 500 * MEGABYTE  # includes the marks of all items
_MAX_ANSWER_BYTES = 6 * ITEMS_PER_PART * (MAX_ADDRESS + 2 * MAX_MARK) + MEGABYTE  # JSON may take six bytes a character

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Open this source and list its items. `folder` holds temporary files."""

    source: RecurringSource
    marks: Mapping[str, ItemMark]
    credentials: Credentials | None
    may_be_private: bool  # whether addresses outside the public internet are allowed
    folder: str
    limits: ProcessLimits


@dataclass(frozen=True, slots=True)
class FetchRequest:
    address: str
    mark: ItemMark
    limits: ProcessLimits


@dataclass(frozen=True, slots=True)
class Progress:
    """Another page of the listing has arrived."""


@dataclass(frozen=True, slots=True)
class ItemsPart:
    """The next items of a listing: address → mark, or None."""

    items: dict[str, ItemMark | None]


@dataclass(frozen=True, slots=True)
class ItemsEnd:
    is_whole: bool
    note: str | None


@dataclass(frozen=True, slots=True)
class ItemHead:
    """Describes a fetched document; its bytes follow in a frame of their own."""

    name: str
    uri: str
    media_type: str
    mark: ItemMark
    byte_count: int


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The item has not changed."""


class Kind(StrEnum):
    """The kind of a refusal, by which the worker chooses the error to raise."""

    INPUT = "input"
    DOCUMENT = "document"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class SyncRefusal:
    kind: Kind
    reason: str


ChildRequest = SyncRequest | FetchRequest
Answer = Progress | ItemsPart | ItemsEnd | ItemHead | Unchanged | SyncRefusal


@dataclass(frozen=True, slots=True)
class _RequestEnvelope:
    """Exactly one field is set."""

    sync: SyncRequest | None = None
    fetch: FetchRequest | None = None


@dataclass(frozen=True, slots=True)
class _AnswerEnvelope:
    """Exactly one field is set."""

    progress: Progress | None = None
    part: ItemsPart | None = None
    end: ItemsEnd | None = None
    head: ItemHead | None = None
    unchanged: Unchanged | None = None
    refusal: SyncRefusal | None = None


_REQUEST, _ANSWER = TypeAdapter(_RequestEnvelope), TypeAdapter(_AnswerEnvelope)


def write_sync_request(stream: BinaryIO, request: ChildRequest) -> None:
    envelope = _RequestEnvelope(sync=request) if isinstance(request, SyncRequest) else _RequestEnvelope(fetch=request)
    write_frame(stream, _REQUEST.dump_json(envelope))


def read_sync_request(stream: BinaryIO) -> ChildRequest:
    """Reads the next request. Raises EOFError at the end of the stream."""
    envelope = _REQUEST.validate_json(read_frame(stream, max_bytes=_MAX_REQUEST_BYTES))
    request = envelope.sync or envelope.fetch
    assert request is not None
    return request


def write_answer(stream: BinaryIO, answer: Answer) -> None:
    match answer:
        case Progress():
            envelope = _AnswerEnvelope(progress=answer)
        case ItemsPart():
            envelope = _AnswerEnvelope(part=answer)
        case ItemsEnd():
            envelope = _AnswerEnvelope(end=answer)
        case ItemHead():
            envelope = _AnswerEnvelope(head=answer)
        case Unchanged():
            envelope = _AnswerEnvelope(unchanged=answer)
        case SyncRefusal():
            envelope = _AnswerEnvelope(refusal=answer)
    write_frame(stream, _ANSWER.dump_json(envelope))


def read_answer(stream: BinaryIO) -> Answer:
    """Reads and validates the next answer. Raises MessageError for an invalid one, EOFError at the end of the
    stream."""
    try:
        envelope = _ANSWER.validate_json(read_frame(stream, max_bytes=_MAX_ANSWER_BYTES), strict=True)
    except ValidationError as error:
        raise MessageError(f"{error.error_count()} values of the answer are invalid") from error
    answer: Answer | None = (
        envelope.progress or envelope.part or envelope.end or envelope.head or envelope.unchanged or envelope.refusal
    )
    if answer is None:
        raise MessageError("the answer is empty")
    if any(len(text) > longest or "\0" in text for text, longest in _texts(answer)):
        raise MessageError("a text of the answer is too long, or holds NUL characters")
    return answer


def _texts(answer: Answer) -> list[tuple[str, int]]:
    """The texts of an answer, each with its longest allowed length in characters."""
    if isinstance(answer, ItemsPart):
        texts = [(address, MAX_ADDRESS) for address in answer.items]
        marks = [mark for mark in answer.items.values() if mark is not None]
    elif isinstance(answer, ItemHead):
        texts, marks = [(text, _MAX_NAME) for text in (answer.name, answer.uri, answer.media_type)], [answer.mark]
    else:
        reason = answer.reason if isinstance(answer, SyncRefusal) else getattr(answer, "note", None)
        return [(reason or "", MAX_REASON)]
    return [*texts, *((text, MAX_MARK) for mark in marks for text in (mark.etag, mark.modified))]
