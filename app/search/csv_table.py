"""Writes rows as CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # the wide ones in Japanese and Chinese programs


def csv_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return csv_rows([header]) + csv_rows(rows)


def csv_rows(rows: Iterable[Sequence[object]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerows([_harmless(cell) for cell in row] for row in rows)
    return written.getvalue()


def _harmless(cell: object) -> object:
    """Prefixes a text that starts like a formula with an apostrophe, so that a spreadsheet does not evaluate it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
