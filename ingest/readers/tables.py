"""Tables: each row becomes one paragraph `Header: value; Header: value`, so that every chunk keeps its headers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time

import openpyxl
from defusedxml import DefusedXmlException
from openpyxl.utils.exceptions import InvalidFileException

from app.errors import DocumentError
from app.types import ExtractedText
from ingest.readers.archive import check_archive, core_metadata, damaged
from ingest.readers.faults import PARSER_FAULTS
from ingest.readers.limits import ReadLimits, check_length
from ingest.readers.text import clean_text, decode_text

_DELIMITERS = ",;\t|"


def read_csv(data: bytes, limits: ReadLimits) -> ExtractedText:
    text = clean_text(decode_text(data))
    first_line = text.lstrip().split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=first_line.count)
    csv.field_size_limit(max(csv.field_size_limit(), limits.max_characters))
    # No newline translation: a quoted cell may span lines.
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        body = join_paragraphs(render_rows(rows), limits)
    except csv.Error as error:
        raise DocumentError(f"This table cannot be read ({error}). Export it again as CSV in UTF-8.") from error
    return ExtractedText(text=body, title="", media_type="text/csv")


def read_xlsx(data: bytes, limits: ReadLimits) -> ExtractedText:
    check_archive(data, limits, kind="Excel workbook", folder="xl/")
    try:
        workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        try:
            text = join_paragraphs(_sheet_paragraphs(workbook), limits)
        finally:
            workbook.close()
    except DocumentError:
        raise
    except (InvalidFileException, DefusedXmlException, *PARSER_FAULTS) as error:
        raise damaged("Excel workbook", error) from error
    properties = workbook.properties
    metadata = core_metadata(properties.creator, properties.created, ignored_author="openpyxl")
    media_type = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    return ExtractedText(text=text, title=properties.title or "", media_type=media_type, metadata=metadata)


def render_rows(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Takes the first row that is not empty as headers; a table of that row alone is given back as it is."""
    filled = (cells for cells in ([_cell_text(value) for value in row] for row in rows) if any(cells))
    headers = next(filled, [])
    row_count = 0
    for cells in filled:
        row_count += 1
        named = []
        for column, value in enumerate(cells):
            header = headers[column] if column < len(headers) else ""
            if value:
                named.append(f"{header or f'Column {column + 1}'}: {value}")
        yield "; ".join(named)
    if not row_count and headers:
        yield "; ".join(filter(None, headers))


def join_paragraphs(paragraphs: Iterable[str], limits: ReadLimits) -> str:
    """Stops as soon as the text is too long: repeated headers can make much of a small file."""
    kept, length = [], 0
    for paragraph in paragraphs:
        length += len(paragraph) + 2
        check_length(length, limits)
        kept.append(paragraph)
    return clean_text("\n\n".join(kept))


def _sheet_paragraphs(workbook: openpyxl.Workbook) -> Iterator[str]:
    for sheet in workbook.worksheets:
        sheet.reset_dimensions()  # the size a file declares may be wrong, or a million empty rows
        for number, row in enumerate(render_rows(sheet.iter_rows(values_only=True))):
            if number == 0:
                yield f"Sheet {sheet.title}"
            yield row


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return " ".join(str(value).split())
