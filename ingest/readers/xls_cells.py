"""What the library for the values of xls cells does not give: numbers in their formats, and errors.

The library makes dates of numbers and loses days before 1900 and after 9999, so the numbers are read here again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from ingest.readers.cell_values import error_text, packed_number
from ingest.readers.xls_records import Record, XlsRecords

_NUMBER, _RK, _FORMULA, _SEVERAL_RK, _TRUTH_OR_ERROR = 0x0203, 0x027E, 0x0006, 0x00BD, 0x0205
_BYTES_OF_RK = 6  # a format and a number
_IS_ERROR = 1
_ERROR_OF_FORMULA, _NO_NUMBER = 2, 0xFFFF  # kind of a formula's value, and the sign that it is no number


class _Number(NamedTuple):
    value: float
    style: int


class XlsCells:
    """The numbers and errors of the cells of one sheet, by row and column, which are counted from 0."""

    def __init__(self, workbook: XlsRecords) -> None:
        self._formats = workbook.formats
        self.numbers: Mapping[int, dict[int, _Number]] = defaultdict(dict)  # without those in the general format
        self.errors: Mapping[int, dict[int, str]] = defaultdict(dict)

    def add(self, record: Record) -> bool:
        """Adds what the record says of cells. Returns False if it is of another kind."""
        if record.kind == _SEVERAL_RK:
            row, column = record.numbers("HH")
            for number, at in enumerate(range(4, len(record.body) - _BYTES_OF_RK, _BYTES_OF_RK)):
                style, packed = record.numbers("Hi", at)
                self._add_number(row, column + number, style, packed_number(packed))
        elif record.kind == _RK:
            row, column, style, packed = record.numbers("HHHi")
            self._add_number(row, column, style, packed_number(packed))
        elif record.kind == _NUMBER:
            row, column, style = record.numbers("HHH")
            self._add_number(row, column, style, record.real(6))
        elif record.kind == _FORMULA:
            self._add_formula(record)
        elif record.kind == _TRUTH_OR_ERROR:
            row, column, _, code, kind = record.numbers("HHHBB")
            if kind == _IS_ERROR:
                self.errors[row][column] = error_text(code)
        else:
            return False
        return True

    def shown(self, row: int, column: int, value: object) -> str | None:
        """What the cell with the library's `value` shows; None if the library says as much."""
        if value == "":
            return self.errors.get(row, {}).get(column)
        number = None if isinstance(value, bool | str) else self.numbers.get(row, {}).get(column)
        return self._formats.shown(f"{number.value:.15g}", number.style) if number else None

    def _add_formula(self, record: Record) -> None:
        row, column, style = record.numbers("HHH")
        kind, code, sign = record.numbers("BxBxxxH", 6)
        if sign != _NO_NUMBER:
            self._add_number(row, column, style, record.real(6))
        elif kind == _ERROR_OF_FORMULA:
            self.errors[row][column] = error_text(code)

    def _add_number(self, row: int, column: int, style: int, value: float) -> None:
        if self._formats.code(style):
            self.numbers[row][column] = _Number(value, style)
