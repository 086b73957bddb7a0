"""Layouts as files: fixed records in the order of the text, so that a stretch is read without the rest."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO, Generic, TypeVar

from app.types.texts import Cell, Layout, Mark, Word

_HEAD = struct.Struct("<8sQQQQ")
_SIGNATURE = b"gircse-1"
_PAGE = struct.Struct("<Q")
_MARK = struct.Struct("<QQB")
_CELL = struct.Struct("<QQQI")
_WORD = struct.Struct("<QQIHHHHB")
_ROWS_PER_WRITE = 10_000

Row = TypeVar("Row")


def is_empty(layout: Layout) -> bool:
    return not (layout.page_starts or layout.marks or layout.cells or layout.words)


def layout_bytes(layout: Layout) -> Iterator[bytes]:
    kinds = (layout.page_starts, layout.marks, layout.cells, layout.words)
    yield _HEAD.pack(_SIGNATURE, *map(len, kinds))
    yield from _packed(_PAGE, ((start,) for start in layout.page_starts))
    for form, rows in ((_MARK, layout.marks), (_CELL, layout.cells), (_WORD, layout.words)):
        yield from _packed(form, rows)


def read_layout(file: BinaryIO, start: int, end: int) -> Layout:
    """What lies in characters [start, end), or reaches into them; of the page starts all.

    Nothing of a file that is not whole: it can be made again by ingesting the document.
    """
    head = file.read(_HEAD.size)
    size = file.seek(0, 2)
    if len(head) < _HEAD.size:
        return Layout()
    signature, *counts = _HEAD.unpack(head)
    forms = (_PAGE, _MARK, _CELL, _WORD)
    sizes = [count * form.size for count, form in zip(counts, forms, strict=True)]
    if signature != _SIGNATURE or size != _HEAD.size + sum(sizes):
        return Layout()
    begins = [_HEAD.size + sum(sizes[:number]) for number in range(len(forms))]
    pages = _Table(file, begins[0], counts[0], _PAGE, lambda page: page)
    marks = _Table(file, begins[1], counts[1], _MARK, Mark)
    cells = _Table(file, begins[2], counts[2], _CELL, Cell)
    words = _Table(file, begins[3], counts[3], _WORD, Word)
    return Layout(
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
    """Records of a file, each of which begins with the character that it begins at."""

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
        """Those that begin in it, and the last one before, which may reach into it."""
        first = bisect_left(range(self._count), start, key=self._character)
        return self[max(0, first - 1) : bisect_left(range(self._count), end, lo=first, key=self._character)]

    def _character(self, number: int) -> int:
        self._file.seek(self._begin + number * self._form.size)
        (character,) = _PAGE.unpack(self._file.read(_PAGE.size))
        return int(character)
