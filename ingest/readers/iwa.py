"""The storage of Apple's iWork since 2013 (IWA): compressed streams of objects, which are protocol buffers and refer to
each other by number. Knows no kind of document."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ingest.readers.errors import parser_errors
from ingest.readers.limits import ReadLimits
from ingest.readers.skipped import Skipped

_MOST_OBJECTS = 1_000_000
_WIRE_NUMBER, _WIRE_EIGHT, _WIRE_BYTES, _WIRE_FOUR = 0, 1, 2, 5
_CHUNK_HEAD = 4  # a zero, and the size of the chunk in three bytes

Fields = Mapping[int, list[int | bytes]]


@dataclass(frozen=True, slots=True)
class Stored:
    """An object: its number, its type, and the file that holds it."""

    number: int
    kind: int
    file: str
    data: bytes = field(repr=False)

    @property
    def fields(self) -> Fields:
        return fields_of(self.data)


class Storage:
    """All objects of a document, in the order in which they are stored."""

    def __init__(self, data: bytes, limits: ReadLimits, skipped: Skipped) -> None:
        self._left = limits.max_expanded_bytes
        self.objects: dict[int, Stored] = {}
        self.files: list[str] = []
        for name, packed in _files(data, limits):
            self.files.append(name)
            try:
                stream = self._unpacked(packed)
                self.objects |= {each.number: each for each in _objects(name, stream)}
            except parser_errors() as error:
                skipped.note(name, f"It is damaged ({type(error).__name__}).")

    def _unpacked(self, packed: bytes) -> bytes:
        pieces: list[bytes] = []
        at = 0
        while at + _CHUNK_HEAD <= len(packed):
            size = int.from_bytes(packed[at + 1 : at + _CHUNK_HEAD], "little")
            at += _CHUNK_HEAD
            piece = unsnapped(packed[at : at + size], self._left)
            self._left -= len(piece)
            pieces.append(piece)
            at += size
        return b"".join(pieces)

    def at(self, reference: int | bytes | None) -> Stored | None:
        """The object that a field of another one refers to."""
        if not isinstance(reference, bytes):
            return None
        try:
            return self.objects.get(first_number(fields_of(reference), 1))
        except ValueError:  # a text, not a reference
            return None

    def all_at(self, references: Sequence[int | bytes]) -> Iterator[Stored]:
        for reference in references:
            if (stored := self.at(reference)) is not None:
                yield stored


def _files(data: bytes, limits: ReadLimits) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the streams. A document that is a folder has them in an archive of their own."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith(".iwa"):
                yield entry.filename, archive.read(entry)
            elif entry.filename.endswith("Index.zip") and entry.file_size <= limits.max_expanded_bytes:
                yield from _files(archive.read(entry), limits)


def unsnapped(data: bytes, most: int) -> bytes:
    """Decompresses a block of Snappy, which has no checksum. Raises ValueError for damage, and for more than `most`
    bytes."""
    size, at = _varint(data, 0)
    if size > most:
        raise ValueError("It unpacks to too much.")
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[at : at + extra], "little")
                at += extra
            out += data[at : at + length + 1]
            at += length + 1
        else:
            if tag & 3 == 1:
                length, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[at]
                at += 1
            else:
                width = 2 if tag & 3 == 2 else 4
                length, offset = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
                at += width
            if not 0 < offset <= len(out):
                raise ValueError("It refers to nothing.")
            begin = len(out) - offset
            copied = out[begin : begin + length]
            out += (copied * (length // len(copied) + 1))[:length]
        if len(out) > size:
            raise ValueError("It unpacks to more than it says.")
    return bytes(out)


def _objects(name: str, stream: bytes) -> Iterator[Stored]:
    at = 0
    for _ in range(_MOST_OBJECTS):
        if at >= len(stream):
            return
        size, at = _varint(stream, at)
        info = fields_of(stream[at : at + size])
        at += size
        for message in info.get(2, ()):
            if isinstance(message, bytes):
                about = fields_of(message)
                length = first_number(about, 3)
                yield Stored(first_number(info, 1), first_number(about, 1), name, stream[at : at + length])
                at += length


def fields_of(data: bytes) -> Fields:
    """The values of a protocol buffer by the numbers of their fields. Raises ValueError if it is something else."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value: int | bytes
        wire = key & 7
        if wire == _WIRE_NUMBER:
            value, at = _varint(data, at)
        elif wire == _WIRE_BYTES:
            size, at = _varint(data, at)
            value = data[at : at + size]
            at += size
        elif wire in (_WIRE_EIGHT, _WIRE_FOUR):
            size = 8 if wire == _WIRE_EIGHT else 4
            value = data[at : at + size]
            at += size
        else:
            raise ValueError("It is no protocol buffer.")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def first_number(fields: Fields, number: int) -> int:
    """The first value of the field; 0 without one."""
    value = fields.get(number, [0])[0]
    return value if isinstance(value, int) else 0


def first_bytes(fields: Fields, number: int) -> bytes:
    value = fields.get(number, [b""])[0]
    return value if isinstance(value, bytes) else b""


def texts_of(fields: Fields, number: int) -> str:
    return "".join(value.decode("utf-8", "replace") for value in fields.get(number, ()) if isinstance(value, bytes))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            raise ValueError("It is truncated.")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("It has a number that is too long.")


def unpack_double(data: bytes) -> float:
    (value,) = struct.unpack("<d", data[:8].ljust(8, b"\0"))
    return float(value)
