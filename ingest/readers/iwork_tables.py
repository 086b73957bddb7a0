"""Tables of Apple's iWork since 2013: rows of cells from tiles, whose cells refer to lists of texts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from ingest.readers.iwa import Fields, Storage, Stored, fields_of, first_bytes, first_number, texts_of
from ingest.readers.skipped import Skipped

_MOST_CELLS = 5_000_000
_USUAL_TILE = 256  # rows
_EMPTY = b"\xff\xff"  # the offset of a cell without content
_EPOCH = datetime(2001, 1, 1)
_TRUE_OR_FALSE, _DURATION = 6, 7  # types of cells
# Version 5: bits that say which values follow the head of 12 bytes, in this order, and their sizes.
_HEAD = 12
_DECIMAL, _DOUBLE, _SECONDS, _TEXT, _RICH = 0x1, 0x2, 0x4, 0x8, 0x10
_SIZES = {_DECIMAL: 16, _DOUBLE: 8, _SECONDS: 8, _TEXT: 4, _RICH: 4}
# Versions 3 and 4: numbers of styles, formats and formulas come first, of four bytes each, then the values.
_OLD_BEFORE_TEXT, _OLD_BEFORE_NUMBER = 0x0D8E, 0x3F8E
_OLD_TEXT, _OLD_RICH, _OLD_DOUBLE, _OLD_SECONDS = 0x10, 0x200, 0x20, 0x40


class _Lists:
    """The texts of a table by number."""

    def __init__(self, model: Stored, storage: Storage) -> None:
        store = fields_of(first_bytes(model.fields, 4))
        self.texts = {key: texts_of(entry, 3) for key, entry in _entries(store, 4, storage)}
        self.rich = {key: _rich_text(entry, storage) for key, entry in _entries(store, 17, storage)}


def rows_of(model: Stored, storage: Storage, skipped: Skipped) -> Iterator[list[str]]:
    """The rows of a table. Notes cells in a form that is unknown."""
    lists = _Lists(model, storage)
    columns = first_number(model.fields, 7)
    tiles = fields_of(first_bytes(fields_of(first_bytes(model.fields, 4)), 3))
    size = first_number(tiles, 2) or _USUAL_TILE
    rows: dict[int, list[str]] = {}
    cells = unknown = 0
    for entry in tiles.get(1, ()):
        about = fields_of(entry) if isinstance(entry, bytes) else {}
        for tile in storage.all_at(about.get(2, ())):
            for row in tile.fields.get(5, ()):
                fields = fields_of(row) if isinstance(row, bytes) else {}
                shown: list[str] = []
                for cell in _cells(fields, columns):
                    text = _shown(cell, lists) if cell else ""
                    unknown += text is None
                    shown.append(text or "")
                cells += len(shown)
                if cells > _MOST_CELLS:
                    raise ValueError("It has too many cells.")
                rows[first_number(about, 1) * size + first_number(fields, 1)] = shown
    if unknown:
        skipped.note(texts_of(model.fields, 8) or "Row 1", f"{unknown} cells are in a form that is not known.")
    last = -1
    for number in sorted(rows):
        yield from [[]] * min(1, number - last - 1)
        yield rows[number]
        last = number


def _entries(store: Fields, number: int, storage: Storage) -> Iterator[tuple[int, Fields]]:
    for listed in storage.all_at(store.get(number, ())):
        for part in (listed, *storage.all_at(listed.fields.get(4, ()))):
            for entry in part.fields.get(3, ()):
                if isinstance(entry, bytes):
                    fields = fields_of(entry)
                    yield first_number(fields, 1), fields


def _rich_text(entry: Fields, storage: Storage) -> str:
    return " ".join(
        texts_of(text.fields, 3)
        for payload in storage.all_at(entry.get(9, ()))
        for text in storage.all_at(payload.fields.get(1, ()))
    )


def _cells(row: Fields, columns: int) -> Iterator[bytes]:
    """The bytes of each cell; empty for an empty one."""
    new, old = (6, 7), (3, 4)
    buffer, offsets = (first_bytes(row, at) for at in (new if row.get(new[0]) else old))
    scale = 4 if first_number(row, 8) and row.get(new[0]) else 1
    starts = [offsets[at : at + 2] for at in range(0, min(len(offsets), 2 * columns), 2)]
    begins = [scale * struct.unpack("<H", start)[0] if start != _EMPTY and len(start) == 2 else -1 for start in starts]
    ends = sorted({begin for begin in begins if begin >= 0} | {len(buffer)})
    following = dict(pairwise(ends))
    for begin in begins:
        yield buffer[begin : following.get(begin, len(buffer))] if begin >= 0 else b""


def _shown(cell: bytes, lists: _Lists) -> str | None:
    """The text of a cell; None if its form is unknown."""
    if len(cell) < _HEAD:
        return None
    version, kind = cell[0], cell[1]
    try:
        if version == 5:
            return _of_version_5(cell, kind, lists)
        if version in (3, 4):
            return _of_version_4(cell, cell[2] if version == 3 and not kind else kind, lists)
    except (struct.error, IndexError, OverflowError):
        return None
    return None


def _of_version_5(cell: bytes, kind: int, lists: _Lists) -> str:
    (flags,) = struct.unpack_from("<I", cell, 8)
    at, shown = _HEAD, ""
    for bit, size in _SIZES.items():
        if not flags & bit:
            continue
        value = cell[at : at + size]
        at += size
        if bit == _DECIMAL:
            shown = _number(_decimal(value), kind)
        elif bit == _DOUBLE:
            shown = _number(struct.unpack("<d", value)[0], kind)
        elif bit == _SECONDS:
            shown = shown_date(struct.unpack("<d", value)[0])
        else:
            (key,) = struct.unpack("<I", value)
            shown = (lists.texts if bit == _TEXT else lists.rich).get(key, "") or shown
    return shown


def _of_version_4(cell: bytes, kind: int, lists: _Lists) -> str:
    (flags,) = struct.unpack_from("<I", cell, 4)

    def after(mask: int) -> int:
        return _HEAD + 4 * (flags & mask).bit_count()

    if flags & (_OLD_TEXT | _OLD_RICH):
        (key,) = struct.unpack_from("<I", cell, after(_OLD_BEFORE_TEXT))
        return (lists.texts if flags & _OLD_TEXT else lists.rich).get(key, "")
    at = after(_OLD_BEFORE_NUMBER)
    if flags & _OLD_DOUBLE:
        return _number(struct.unpack_from("<d", cell, at)[0], kind)
    if flags & _OLD_SECONDS:
        return shown_date(struct.unpack_from("<d", cell, at)[0])
    return ""


def _decimal(value: bytes) -> Decimal:
    """A decimal number of 128 bits (IEEE 754)."""
    bits = int.from_bytes(value, "little")
    exponent = (bits >> 113 & 0x3FFF) - 0x1820
    digits = bits & (1 << 113) - 1
    return Decimal(-digits if bits >> 127 else digits).scaleb(exponent) if abs(exponent) < 400 else Decimal(0)


def _number(value: float | Decimal, kind: int) -> str:
    if kind == _TRUE_OR_FALSE:
        return "TRUE" if value else "FALSE"
    if kind == _DURATION:
        return str(timedelta(seconds=float(value)))
    return shown_number(value)


def shown_number(value: float | Decimal) -> str:
    """Without the digits of an inexact binary number: 872.4 for -872.39999999999998."""
    return f"{float(value):.15g}" if isinstance(value, float) else f"{value.normalize():f}"


def shown_date(seconds: float) -> str:
    date = _EPOCH + timedelta(seconds=seconds)
    return (
        date.strftime("%Y-%m-%d") if not date.time().replace(microsecond=0).isoformat().strip("0:") else str(date)[:16]
    )
