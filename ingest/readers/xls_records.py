"""Records of a workbook from before 2007 ([MS-XLS], BIFF5 and BIFF8), and its number formats and sheets."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import NamedTuple

from ingest.readers.cell_dates import EPOCH, EPOCH_1904
from ingest.readers.cell_values import CellFormats
from ingest.readers.code_pages import DEFAULT, codec_of_code_page
from ingest.readers.compound_files import compound_file, folder_of
from ingest.readers.containers import open_compound_file
from ingest.readers.errors import parser_errors

BEGIN, END, CONTINUED = 0x0809, 0x000A, 0x003C  # of a part of the stream, and of a record
_ENCRYPTED, _DATE_MODE, _CODE_PAGE = 0x002F, 0x0022, 0x0042
_SHEET, _STYLE, _FORMAT = 0x0085, 0x00E0, 0x041E
_BIFF_8, _GRAPH = 0x0600, 0x0680
_WORKSHEET = 0


class Record(NamedTuple):
    kind: int
    chunks: list[bytes]  # the body, and those of the records that continue it
    depth: int  # 1 in a part of the stream, 2 in a chart within a sheet
    encoding: str  # of texts in BIFF5; empty in BIFF8, whose texts are Unicode

    @property
    def body(self) -> bytes:
        return self.chunks[0]

    def numbers(self, form: str, at: int = 0) -> tuple[int, ...]:
        """Little-endian numbers from `at` on. Raises struct.error if the record is too short, as do `number`, `real`
        and `string`."""
        return struct.unpack_from(f"<{form}", self.body, at)

    def number(self, at: int) -> int:
        """The 16-bit number at `at`."""
        return self.numbers("H", at)[0]

    def real(self, at: int) -> float:
        value: float = struct.unpack_from("<d", self.body, at)[0]
        return value

    def string(self, at: int, *, is_short: bool = False) -> tuple[str, int]:
        """The text at `at`, and the place after it. Its length precedes it: in BIFF8 in 16 bits (8 if `is_short`), and
        a flag; in BIFF5 in 8 bits."""
        if self.encoding:
            (end,) = self.numbers("B", at)
            return self.body[at + 1 : at + 1 + end].decode(self.encoding, "replace"), at + 1 + end
        count, flag = self.numbers("BB" if is_short else "HB", at)
        begin = at + (2 if is_short else 3)
        end = begin + count * (1 + (flag & 1))
        return decoded(self.body[begin:end], flag), end


class Sheet(NamedTuple):
    start: int  # of its part of the stream
    is_worksheet: bool  # not a chart or macros


class XlsRecords:
    """What a workbook says before its sheets. Without sheets for files that are no compound files, and for damaged or
    encrypted ones."""

    def __init__(self, data: bytes) -> None:
        self.is_encrypted = self.is_biff_8 = self.is_graph = False
        self._epoch = EPOCH
        self.sheets: list[Sheet] = []
        self._codes: dict[int, str] = {}
        self._styles: list[int] = []  # number of the format, by style
        self._stream = _workbook(data)
        if len(self._stream) >= 6:
            begin, _, version = struct.unpack_from("<HHH", self._stream)
            self.is_biff_8 = (begin, version) == (BEGIN, _BIFF_8)
            self.is_graph = (begin, version) == (BEGIN, _GRAPH)  # a chart of Microsoft Graph
        self._encoding = "" if self.is_biff_8 or self.is_graph else DEFAULT
        self.is_whole = self.is_biff_8  # whether the records say all that sheets show beside their cells
        for record in self._part(0):
            try:
                self._add(record)
            except struct.error:
                self.is_whole = False
        self.formats = CellFormats(self._codes, self._styles, epoch=self._epoch)

    def records(self, sheet: Sheet) -> Iterator[Record]:
        """The records of a sheet, with those of charts within it."""
        return self._part(sheet.start)

    def _add(self, record: Record) -> None:
        if record.kind == _ENCRYPTED:
            self.is_encrypted = True
        elif record.kind == _DATE_MODE and record.number(0) == 1:
            self._epoch = EPOCH_1904
        elif record.kind == _CODE_PAGE and self._encoding:
            self._encoding = codec_of_code_page(record.number(0))
        elif record.kind == _FORMAT:
            self._codes[record.number(0)] = record.string(2)[0]
        elif record.kind == _STYLE:
            self._styles.append(record.number(2))
        elif record.kind == _SHEET:
            start, _, kind = record.numbers("IBB")
            self.sheets.append(Sheet(start, kind == _WORKSHEET))

    def _part(self, at: int) -> Iterator[Record]:
        """The records from `at` to the end of the part that begins there, with those of parts within it."""
        stream, depth = self._stream, 0
        held: Record | None = None
        while at + 4 <= len(stream):
            kind, size = struct.unpack_from("<HH", stream, at)
            body = stream[at + 4 : at + 4 + size]
            at += 4 + size
            if kind == CONTINUED:
                if held:
                    held.chunks.append(body)
                continue
            if held:
                yield held
            depth += kind == BEGIN
            held = Record(kind, [body], depth, self._encoding)
            depth -= kind == END
            if depth <= 0:
                break
        if held:
            yield held


def decoded(data: bytes, flag: int) -> str:
    """A text of one byte a character, or of two if bit 0 of `flag` is set."""
    return data.decode("utf-16-le", "replace") if flag & 1 else data.decode("latin-1")


def without_formats(data: bytes) -> bytes:
    """The workbook with the general format in all cells; unchanged if it is damaged."""
    try:
        with open_compound_file(io.BytesIO(data)) as compound:
            tree = dict(folder_of(compound, [], len(data)))
    except parser_errors():
        return data
    for name, content in tree.items():
        if name.lower() in ("workbook", "book") and isinstance(content, bytes):
            tree[name] = _in_general_format(content)
    return compound_file(tree)


def _in_general_format(stream: bytes) -> bytes:
    changed, at = bytearray(stream), 0
    while at + 8 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        if kind == _STYLE and size >= 4:
            changed[at + 6 : at + 8] = b"\0\0"
        at += 4 + size
    return bytes(changed)


def _workbook(data: bytes) -> bytes:
    """The stream of the workbook. Empty if it is damaged."""
    try:
        with open_compound_file(io.BytesIO(data)) as compound:
            name = next((name for name in ("Workbook", "Book") if compound.exists(name)), "")
            return compound.openstream(name).read() if name else b""
    except parser_errors():
        return b""  # the libraries say what is damaged
