"""What Excel 97 to 2003 shows beside the cells of a sheet ([MS-XLS]): text boxes, labels of forms, charts, comments,
and headers and footers of printed pages."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import NamedTuple

import olefile

from ingest.readers.cell_values import shown_number
from ingest.readers.charts import point_blocks
from ingest.readers.parts import Block
from ingest.readers.sheets import cell_name, comment_block, margin_texts

# Kinds of records.
_BEGIN, _END, _CONTINUED = 0x0809, 0x000A, 0x003C
_ENCRYPTED, _SHEET = 0x002F, 0x0085
_OBJECT, _OBJECT_TEXT, _NOTE = 0x005D, 0x01B6, 0x001C
_HEADER, _FOOTER, _FURTHER_MARGINS = 0x0014, 0x0015, 0x089C
_SERIES, _CHART_TEXT, _SHOWN_TEXT, _LINK = 0x1003, 0x1025, 0x100D, 0x1027
_POINTS, _NUMBER, _LABEL = 0x1065, 0x0203, 0x0204
_BIFF8 = 0x0600
_TITLE = 1  # link of the title of a chart
_VALUES, _CATEGORIES, _SIZES = 1, 2, 3  # kinds of points
_MAX_POINTS = 100_000


class OldWorkbook(NamedTuple):
    is_encrypted: bool
    sheets: dict[str, list[Block]] | None  # what is shown beside the cells, by the name of the sheet


class _Record(NamedTuple):
    kind: int
    chunks: list[bytes]  # the body, and those of the records that continue it

    @property
    def body(self) -> bytes:
        return self.chunks[0]

    def number(self, at: int) -> int:
        """The 16-bit number at `at`. Raises struct.error if the record is too short, as does `string`."""
        value: int = struct.unpack_from("<H", self.body, at)[0]
        return value

    def real(self, at: int) -> float:
        value: float = struct.unpack_from("<d", self.body, at)[0]
        return value

    def string(self, at: int, *, is_short: bool = False) -> tuple[str, int]:
        """The text at `at`, after its length (of 8 bits if `is_short`) and a flag, and the place after it."""
        count, flag = struct.unpack_from("<BB" if is_short else "<HB", self.body, at)
        begin = at + (2 if is_short else 3)
        end = begin + count * (1 + (flag & 1))
        return _decoded(self.body[begin:end], flag), end


def old_workbook(data: bytes) -> OldWorkbook:
    """The records of a workbook. `sheets` is None for those of before Excel 97, encrypted and damaged ones."""
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as compound:
            stream = compound.openstream("Workbook" if compound.exists("Workbook") else "Book").read()
        head = list(_part(stream, 0))
        is_encrypted = any(record.kind == _ENCRYPTED for record in head)
        if is_encrypted or not head or head[0].kind != _BEGIN or head[0].number(0) != _BIFF8:
            return OldWorkbook(is_encrypted, None)
        sheets: dict[str, list[Block]] = {}
        for record in head:
            if record.kind == _SHEET:
                name, _ = record.string(6, is_short=True)
                sheets[name] = list(_Drawn(stream, *struct.unpack_from("<I", record.body)).blocks())
    except (OSError, ValueError, TypeError, LookupError, AttributeError, struct.error):
        return OldWorkbook(False, None)  # the libraries say what is damaged
    return OldWorkbook(False, sheets)


def _part(stream: bytes, at: int) -> Iterator[_Record]:
    """The records from `at` to the end of the part that begins there, with those of parts within it."""
    depth, held = 0, _Record(-1, [])
    while at + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        body = stream[at + 4 : at + 4 + size]
        at += 4 + size
        if kind == _CONTINUED:
            held.chunks.append(body)
            continue
        if held.kind >= 0:
            yield held
        held = _Record(kind, [body])
        depth += (kind == _BEGIN) - (kind == _END)
        if depth <= 0:
            break
    if held.kind >= 0:
        yield held


class _Chart:
    def __init__(self) -> None:
        self.title = self.text = ""
        self.others: list[str] = []
        self.names: list[str] = []
        self.is_in_series = False
        self.points: dict[int, dict[int, dict[int, str]]] = {_VALUES: {}, _CATEGORIES: {}, _SIZES: {}}
        self.kind = 0
        self.count = 0

    def add(self, record: _Record) -> None:
        kind = record.kind
        if kind == _SERIES:
            self.is_in_series = True
            self.names.append("")
        elif kind == _CHART_TEXT:
            self.is_in_series, self.text = False, ""
        elif kind == _SHOWN_TEXT:
            text = record.string(2, is_short=True)[0].strip()
            if self.is_in_series:
                self.names[-1] = self.names[-1] or text
            elif text:
                self.text = text
                self.others.append(text)
        elif kind == _LINK and record.number(0) == _TITLE and self.text:
            self.title = self.text
            self.others.remove(self.text)
        elif kind == _POINTS:
            self.kind = record.number(0)
        elif kind in (_NUMBER, _LABEL) and self.kind in self.points and self.count < _MAX_POINTS:
            text = record.string(6)[0] if kind == _LABEL else _shown(record.real(6))
            self.points[self.kind].setdefault(record.number(2), {})[record.number(0)] = text
            self.count += 1

    def blocks(self) -> Iterator[Block]:
        if self.title:
            yield Block(f"Chart: {self.title}")
        if self.others:  # axes and labels
            yield Block("\n".join(dict.fromkeys(self.others)))
        values, sizes = self.points[_VALUES], self.points[_SIZES]
        named = [
            (self.names[at] if at < len(self.names) and self.names[at] else f"Series {at + 1}", at)
            for at in sorted(values)
        ]
        categories = max(self.points[_CATEGORIES].values(), key=len, default={})
        columns = [(name, values[at]) for name, at in named]
        bubbles = [(f"{name} (size)", sizes[at]) for name, at in named if at in sizes]
        if columns:
            yield from point_blocks(categories, [*columns, *bubbles])
        elif names := list(filter(None, self.names)):
            yield Block("\n".join(names))


class _Drawn:
    """What one sheet shows beside its cells. `at`: the place of its part in the stream."""

    def __init__(self, stream: bytes, at: int) -> None:
        self._texts: dict[int, str] = {}  # of objects, by their ids
        self._inner: list[str] = []  # of objects within charts
        self._notes: list[tuple[int, int, int, str]] = []  # row, column, id of the object, author
        self._margins: list[str] = []
        self._charts: list[_Chart] = []
        depth = identity = 0
        for record in _part(stream, at):
            if record.kind == _BEGIN:
                depth += 1
                if record.number(2) == 0x0020:
                    self._charts.append(_Chart())
            elif record.kind == _END:
                depth -= 1
            elif record.kind == _OBJECT and len(record.body) >= 8:
                identity = record.number(6)
            elif record.kind == _OBJECT_TEXT:
                if text := _object_text(record).strip():
                    if depth > 1:
                        self._inner.append(text)
                    else:
                        self._texts[identity] = text
            elif record.kind == _NOTE:
                row, column, _, note = struct.unpack_from("<HHHH", record.body)
                self._notes.append((row, column, note, record.string(8)[0]))
            elif record.kind in (_HEADER, _FOOTER):
                self._margins += [record.string(0)[0]] if record.body else []
            elif record.kind == _FURTHER_MARGINS:
                self._margins += _further_margins(record)
            elif self._charts:
                self._charts[-1].add(record)

    def blocks(self) -> Iterator[Block]:
        noted = {identity for _, _, identity, _ in self._notes}
        yield from (Block(text) for identity, text in self._texts.items() if identity not in noted)
        yield from map(Block, self._inner)
        for chart in self._charts:
            yield from chart.blocks()
        for row, column, identity, author in self._notes:
            yield from comment_block(cell_name(row, column), author, self._texts.get(identity, ""))
        yield from (Block(text) for text in dict.fromkeys(margin_texts(self._margins)))


def _object_text(record: _Record) -> str:
    """The text of an object: it stands in the records after its own, each with a flag before it."""
    left, texts = record.number(10), list[str]()
    for chunk in record.chunks[1:]:
        if left <= 0 or not chunk:
            break
        texts.append(_decoded(chunk[1:], chunk[0])[:left])
        left -= len(texts[-1])
    return "".join(texts).replace("\r\n", "\n").replace("\r", "\n")


def _further_margins(record: _Record) -> Iterator[str]:
    """Headers and footers of even and first pages, which Excel writes since 2007."""
    at = 38
    for counted_at in (30, 32, 34, 36):
        if record.number(counted_at):
            text, at = record.string(at)
            yield text


def _decoded(data: bytes, flag: int) -> str:
    return data.decode("utf-16-le", "replace") if flag & 1 else data.decode("latin-1")


def _shown(value: float) -> str:
    return shown_number(str(int(value)) if value.is_integer() else repr(value))
