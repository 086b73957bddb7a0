"""Files of layouts: fixed-size records in text order, so that a part can be read alone, then the SHA-256 of all.

Files of the first version have no SHA-256.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO, Generic, TypeVar

from app.types.texts import Cell, Mark, TextLayout, Word

_HEAD = struct.Struct("<8sQQQQ")
_SIGNATURE, _FIRST_SIGNATURE = b"gircse-2", b"gircse-1"
_DIGEST_BYTES = hashlib.sha256().digest_size
_PAGE = struct.Struct("<Q")
_MARK = struct.Struct("<QQB")
_CELL = struct.Struct("<QQQI")
_WORD = struct.Struct("<QQIHHHHB")
_FORMS = (_PAGE, _MARK, _CELL, _WORD)
_ROWS_PER_WRITE = 10_000
_PIECE_BYTES = 1 << 20

Row = TypeVar("Row")


def is_empty(layout: TextLayout) -> bool:
    return not (layout.page_starts or layout.marks or layout.cells or layout.words)


def layout_bytes(layout: TextLayout) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for part in _parts(layout):
        digest.update(part)
        yield part
    yield digest.digest()


def _parts(layout: TextLayout) -> Iterator[bytes]:
    kinds = (layout.page_starts, layout.marks, layout.cells, layout.words)
    yield _HEAD.pack(_SIGNATURE, *map(len, kinds))
    yield from _packed(_PAGE, ((start,) for start in layout.page_starts))
    for form, rows in ((_MARK, layout.marks), (_CELL, layout.cells), (_WORD, layout.words)):
        yield from _packed(form, rows)


def is_whole_layout(file: BinaryIO) -> bool:
    """Whether the file matches its SHA-256; in the first version, whether it has the right length."""
    head = file.read(_HEAD.size)
    size = file.seek(0, 2)
    if len(head) < _HEAD.size:
        return False
    signature, *counts = _HEAD.unpack(head)
    whole = _HEAD.size + sum(count * form.size for count, form in zip(counts, _FORMS, strict=True))
    if signature == _FIRST_SIGNATURE:
        return size == whole
    return signature == _SIGNATURE and size == whole + _DIGEST_BYTES and _has_digest(file, whole)


def _has_digest(file: BinaryIO, length: int) -> bool:
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(min(length, _PIECE_BYTES)):
        digest.update(piece)
        length -= len(piece)
    return file.read() == digest.digest()


def read_layout(file: BinaryIO, start: int, end: int) -> TextLayout:
    """All page starts, and the records that overlap characters [start, end). The file must be whole."""
    file.seek(0)
    _, *counts = _HEAD.unpack(file.read(_HEAD.size))
    sizes = [count * form.size for count, form in zip(counts, _FORMS, strict=True)]
    begins = [_HEAD.size + sum(sizes[:number]) for number in range(len(_FORMS))]
    pages = _Table(file, begins[0], counts[0], _PAGE, lambda page: page)
    marks = _Table(file, begins[1], counts[1], _MARK, Mark)
    cells = _Table(file, begins[2], counts[2], _CELL, Cell)
    words = _Table(file, begins[3], counts[3], _WORD, Word)
    return TextLayout(
        pages[0 : len(pages)],
        [mark for mark in marks.within(start, end) if mark.end > start],
        [cell for cell in cells.within(start, end) if cell.end > start],
        [word for word in words.within(start, end) if word.end > start],
    )


def _packed(form: struct.Struct, rows: Iterator[Sequence[int]] | Sequence[Sequence[int]]) -> Iterator[bytes]:
    left = iter(rows)
    while batch := b"".join(form.pack(*row) for row in islice(left, _ROWS_PER_WRITE)):
        yield batch


class _Table(Generic[Row]):
    """Fixed-size records in a file, sorted by their first field, the start character."""

    def __init__(self, file: BinaryIO, begin: int, count: int, form: struct.Struct, make: Callable[..., Row]) -> None:
        self._file = file
        self._begin = begin
        self._count = count
        self._form = form
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, chosen: slice) -> list[Row]:
        first, last, _ = chosen.indices(self._count)
        self._file.seek(self._begin + first * self._form.size)
        data = self._file.read(max(0, last - first) * self._form.size)
        return [self._make(*row) for row in self._form.iter_unpack(data)]

    def within(self, start: int, end: int) -> list[Row]:
        """Records that start in [start, end), and the last record before, which may reach into it."""
        first = bisect_left(range(self._count), start, key=self._character)
        return self[max(0, first - 1) : bisect_left(range(self._count), end, lo=first, key=self._character)]

    def _character(self, number: int) -> int:
        self._file.seek(self._begin + number * self._form.size)
        (character,) = _PAGE.unpack(self._file.read(_PAGE.size))
        return int(character)
