"""What the library for the values of xls cells does not give: the number formats of numbers, and errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta

from ingest.readers.cell_values import error_text, formatted_value
from ingest.readers.xls_records import Record, XlsRecords

_NUMBER, _RK, _FORMULA, _SEVERAL_RK, _TRUTH_OR_ERROR = 0x0203, 0x027E, 0x0006, 0x00BD, 0x0205
_BYTES_OF_RK = 6  # a format and a number
_IS_ERROR = 1
_ERROR_OF_FORMULA, _NO_NUMBER = 2, 0xFFFF  # kind of a formula's value, and the sign that it is no number

_NUMBERS = (int, float, date, time, timedelta)


class XlsCells:
    """The formats and errors of the cells of one sheet, by row and column, which are counted from 0."""

    def __init__(self, workbook: XlsRecords) -> None:
        self._workbook = workbook
        self.codes: Mapping[int, dict[int, str]] = defaultdict(dict)  # without those of the general format
        self.errors: Mapping[int, dict[int, str]] = defaultdict(dict)

    def add(self, record: Record) -> bool:
        """Adds what the record says of cells. Returns False if it is of another kind."""
        body = record.body
        if record.kind == _SEVERAL_RK:
            row, column = record.numbers("HH")
            for number, at in enumerate(range(4, len(body) - _BYTES_OF_RK, _BYTES_OF_RK)):
                self._add_code(row, column + number, record.number(at))
        elif record.kind in (_NUMBER, _RK, _FORMULA):
            row, column, style = record.numbers("HHH")
            self._add_code(row, column, style)
            if record.kind == _FORMULA and len(body) >= 14:
                kind, code, sign = record.numbers("BxBxxxH", 6)
                if (kind, sign) == (_ERROR_OF_FORMULA, _NO_NUMBER):
                    self.errors[row][column] = error_text(code)
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
        if isinstance(value, bool) or not isinstance(value, _NUMBERS):
            return None
        code = self.codes.get(row, {}).get(column)
        return shown_value(value, code, self._workbook.epoch) if code else None

    def _add_code(self, row: int, column: int, style: int) -> None:
        if code := self._workbook.code(style):
            self.codes[row][column] = code


def shown_value(value: float | date | time | timedelta, code: str, epoch: datetime) -> str:
    """A number, or the date, time or duration that the library made of it, in its format. `epoch` is the day before
    the first."""
    if isinstance(value, time):
        value = datetime.combine(epoch, value) - epoch
    elif isinstance(value, date):
        value = (value if isinstance(value, datetime) else datetime.combine(value, time())) - epoch
    number = value / timedelta(days=1) if isinstance(value, timedelta) else value
    return formatted_value(f"{number:.15g}", code, epoch)
