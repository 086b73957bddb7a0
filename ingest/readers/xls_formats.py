"""Number formats of the cells of a workbook from before 2007 ([MS-XLS], BIFF5 and BIFF8), which the library for their
values does not give."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta

import olefile

from ingest.readers.cell_dates import EPOCH
from ingest.readers.cell_values import BUILT_IN, formatted_value

_END, _DATE_MODE, _BOUND_SHEET, _XF, _FORMAT, _BEGIN = 0x000A, 0x0022, 0x0085, 0x00E0, 0x041E, 0x0809
_NUMBER, _RK, _FORMULA, _SEVERAL_RK = 0x0203, 0x027E, 0x0006, 0x00BD
_BIFF_8 = 0x0600
_WORKSHEET = 0
_BYTES_OF_RK = 6  # a format and a number


class XlsFormats:
    """The number formats of the cells with numbers, by sheet. Empty for workbooks that are no compound files."""

    def __init__(self, data: bytes) -> None:
        self._stream = _workbook(data)
        self._codes = dict(BUILT_IN)
        self._styles: list[int] = []  # number of the format, by style
        self._starts: dict[str, int] = {}
        self._epoch = EPOCH
        is_biff_8 = False
        for kind, body in _records(self._stream, 0):
            if kind == _BEGIN:
                is_biff_8 = body[:2] == struct.pack("<H", _BIFF_8)
            elif kind == _DATE_MODE and body[:1] == b"\1":
                self._epoch = datetime(1904, 1, 1)
            elif kind == _FORMAT and len(body) > 3:
                self._codes[int.from_bytes(body[:2], "little")] = _text(body[2:], is_biff_8, wide_length=True)
            elif kind == _XF and len(body) > 3:
                self._styles.append(int.from_bytes(body[2:4], "little"))
            elif kind == _BOUND_SHEET and len(body) > 7 and body[5] == _WORKSHEET:
                self._starts[_text(body[6:], is_biff_8)] = int.from_bytes(body[:4], "little")

    def sheet(self, name: str) -> Mapping[int, Mapping[int, str]]:
        """Row → column → the format of the number there, counted from 0. Cells of the general format are left out."""
        codes: dict[int, dict[int, str]] = {}
        if name not in self._starts:
            return codes
        for kind, body in _records(self._stream, self._starts[name]):
            if kind in (_NUMBER, _RK, _FORMULA) and len(body) >= _BYTES_OF_RK:
                row, column, style = struct.unpack_from("<HHH", body)
                self._add(codes, row, column, style)
            elif kind == _SEVERAL_RK and len(body) >= _BYTES_OF_RK:
                row, column = struct.unpack_from("<HH", body)
                for at in range(4, len(body) - _BYTES_OF_RK, _BYTES_OF_RK):
                    self._add(codes, row, column, int.from_bytes(body[at : at + 2], "little"))
                    column += 1
        return codes

    def shown(self, value: float | date | time | timedelta, code: str) -> str:
        """A number, or the date, time or duration that the library made of it, in its format."""
        if isinstance(value, time):
            value = datetime.combine(self._epoch, value) - self._epoch
        elif isinstance(value, date):
            value = (value if isinstance(value, datetime) else datetime.combine(value, time())) - self._epoch
        number = value / timedelta(days=1) if isinstance(value, timedelta) else value
        return formatted_value(f"{number:.15g}", code, self._epoch)

    def _add(self, codes: dict[int, dict[int, str]], row: int, column: int, style: int) -> None:
        code = self._codes.get(self._styles[style], "") if style < len(self._styles) else ""
        if code:
            codes.setdefault(row, {})[column] = code


def _workbook(data: bytes) -> bytes:
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as compound:
            name = next((name for name in ("Workbook", "Book") if compound.exists(name)), "")
            return compound.openstream(name).read() if name else b""
    except (OSError, ValueError, TypeError, IndexError, AttributeError, struct.error):  # damaged: shown without formats
        return b""


def _records(stream: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """The records of one part of the stream, without those of charts within it: kind and bytes."""
    depth = 0
    while at + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        depth += (kind == _BEGIN) - (kind == _END)
        if depth == 1:
            yield kind, stream[at + 4 : at + 4 + size]
        if depth <= 0:
            return
        at += 4 + size


def _text(body: bytes, is_biff_8: bool, *, wide_length: bool = False) -> str:
    """A string with its length before it: in BIFF8 with flags, in one or two bytes a character."""
    if not is_biff_8:
        return body[1 : 1 + body[0]].decode("latin-1")
    start = 2 if wide_length else 1
    count = int.from_bytes(body[:start], "little")
    is_wide = body[start] & 1 if len(body) > start else 0
    text = body[start + 1 : start + 1 + (2 * count if is_wide else count)]
    return text.decode("utf-16-le" if is_wide else "latin-1", "replace")
