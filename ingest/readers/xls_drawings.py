"""What Excel 97 to 2003 shows beside the cells of a sheet ([MS-XLS]): text boxes, labels of forms, charts, comments,
and headers and footers of printed pages."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ingest.readers.cell_values import shown_number
from ingest.readers.charts import point_blocks
from ingest.readers.grids import render_rows
from ingest.readers.parts import Block
from ingest.readers.sheets import cell_name, comment_block, margin_texts, message_block
from ingest.readers.xls_records import BEGIN, Record, decoded

# Kinds of records.
_OBJECT, _OBJECT_TEXT, _NOTE = 0x005D, 0x01B6, 0x001C
_HEADER, _FOOTER, _FURTHER_MARGINS = 0x0014, 0x0015, 0x089C
MARGINS = frozenset((_HEADER, _FOOTER))  # which BIFF5 has, too
_SERIES, _CHART_TEXT, _SHOWN_TEXT, _LINK = 0x1003, 0x1025, 0x100D, 0x1027
_POINTS, _NUMBER, _LABEL = 0x1065, 0x0203, 0x0204
_CHART_PART = 0x0020
_TITLE = 1  # link of the title of a chart
_VALUES, _CATEGORIES, _SIZES = 1, 2, 3  # kinds of points
_MAX_POINTS = 100_000
_RULE, _SHOWS_MESSAGE = 0x01BE, 1 << 18
_CELL_NUMBER, _CELL_TEXT = 0x0003, 0x0004  # of a datasheet
_MAX_LINES = 4_000  # rows, and columns, of a datasheet


class _Chart:
    def __init__(self) -> None:
        self.title = self.text = ""
        self.others: list[str] = []
        self.names: list[str] = []
        self.is_in_series = False
        self.points: dict[int, dict[int, dict[int, str]]] = {_VALUES: {}, _CATEGORIES: {}, _SIZES: {}}
        self.kind = 0
        self.count = 0

    def add(self, record: Record) -> None:
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
            self.text = ""
        elif kind == _POINTS:
            self.kind = record.number(0)
        elif kind in (_NUMBER, _LABEL) and self.kind in self.points and self.count < _MAX_POINTS:
            text = record.string(6)[0] if kind == _LABEL else _shown(record.real(6))
            self.points[self.kind].setdefault(record.number(2), {})[record.number(0)] = text
            self.count += 1

    def titles(self) -> Iterator[Block]:
        if self.title:
            yield Block(f"Chart: {self.title}")
        if self.others:  # axes and labels
            yield Block("\n".join(dict.fromkeys(self.others)))

    def blocks(self) -> Iterator[Block]:
        yield from self.titles()
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


def graph_blocks(records: Iterable[Record]) -> Iterator[Block]:
    """A chart of Microsoft Graph ([MS-OGRAPH]): its titles, and the rows of its datasheet."""
    chart, cells = _Chart(), defaultdict[int, dict[int, str]](dict)
    for record in records:
        with suppress(struct.error):
            if record.kind in (_CELL_NUMBER, _CELL_TEXT):
                row, column = record.numbers("HH")
                is_text = record.kind == _CELL_TEXT
                if max(row, column) < _MAX_LINES:
                    cells[row][column] = record.string(7, is_short=True)[0] if is_text else _shown(record.real(7))
            else:
                chart.add(record)
    yield from chart.titles()
    rows = (cells[row] for row in sorted(cells))
    yield from render_rows([row.get(column, "") for column in range(max(row) + 1)] for row in rows)


class XlsDrawings:
    """What one sheet of Excel 97 to 2003 shows beside its cells."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}  # of objects, by their ids, which damaged files give twice
        self._inner: list[str] = []  # of objects within charts
        self._notes: list[tuple[int, int, int, str]] = []  # row, column, id of the object, author
        self._margins: list[str] = []
        self._messages: list[Block] = []
        self._charts: list[_Chart] = []
        self._identity = 0  # of the object whose text may follow

    def add(self, record: Record) -> None:
        """Adds what the record says. Raises struct.error if it is too short."""
        kind = record.kind
        if kind == BEGIN:
            if record.number(2) == _CHART_PART:
                self._charts.append(_Chart())
        elif kind == _OBJECT and len(record.body) >= 8:
            self._identity = record.number(6)
        elif kind == _OBJECT_TEXT:
            self._add_text(_object_text(record).strip(), record.depth)
        elif kind == _NOTE:
            row, column, _, note = record.numbers("HHHH")
            self._notes.append((row, column, note, record.string(8)[0]))
        elif kind == _RULE:
            self._messages += _message_of(record)
        elif kind in (_HEADER, _FOOTER):
            self._margins += [record.string(0)[0]] if record.body else []
        elif kind == _FURTHER_MARGINS:
            self._margins += _further_margins(record)
        elif self._charts:
            self._charts[-1].add(record)

    def _add_text(self, text: str, depth: int) -> None:
        if text and depth > 1:
            self._inner.append(text)
        elif text:
            self._texts.setdefault(self._identity, []).append(text)

    def blocks(self) -> Iterator[Block]:
        noted = {identity for _, _, identity, _ in self._notes}
        yield from (Block(text) for identity, texts in self._texts.items() if identity not in noted for text in texts)
        yield from map(Block, self._inner)
        yield from self._messages
        for chart in self._charts:
            yield from chart.blocks()
        for row, column, identity, author in self._notes:
            yield from comment_block(cell_name(row, column), author, "\n".join(self._texts.get(identity, [])))
        yield from (Block(text) for text in dict.fromkeys(margin_texts(self._margins)))


def _object_text(record: Record) -> str:
    """The text of an object: it stands in the records after its own, each with a flag before it."""
    left, texts = record.number(10), list[str]()
    for chunk in record.chunks[1:]:
        if left <= 0 or not chunk:
            break
        texts.append(decoded(chunk[1:], chunk[0])[:left])
        left -= len(texts[-1])
    return "".join(texts).replace("\r\n", "\n").replace("\r", "\n")


def _message_of(record: Record) -> Iterator[Block]:
    """The message of a rule for cells. An empty text is stored as a NUL."""
    title, at = record.string(4)
    _, at = record.string(at)  # title of the message on wrong values
    text, _ = record.string(at)
    if record.numbers("I")[0] & _SHOWS_MESSAGE:
        yield from message_block(title.strip("\0"), text.strip("\0"))


def _further_margins(record: Record) -> Iterator[str]:
    """Headers and footers of even and first pages, which Excel writes since 2007."""
    at = 38
    for counted_at in (30, 32, 34, 36):
        if record.number(counted_at):
            text, at = record.string(at)
            yield text


def _shown(value: float) -> str:
    return shown_number(str(int(value)) if value.is_integer() else repr(value))
