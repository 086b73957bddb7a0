"""Excel workbooks: each row of a sheet becomes a paragraph, as in tables.py."""

from __future__ import annotations

import io
from collections.abc import Iterator

import openpyxl

from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import XLSX
from ingest.readers.package import check_package, core_metadata
from ingest.readers.parts import Block
from ingest.readers.tables import join_blocks, render_rows


def read_xlsx(data: bytes, limits: ReadLimits) -> ExtractedText:
    check_package(data, limits, kind="Excel workbook", folder="xl/")
    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    try:
        text, marks, cells = join_blocks(_sheet_blocks(workbook), limits)
    finally:
        workbook.close()
    properties = workbook.properties
    metadata = core_metadata(properties.creator, properties.created, properties.modified, ignored_author="openpyxl")
    return ExtractedText(
        text, title=properties.title or "", media_type=XLSX, metadata=metadata, marks=marks, cells=cells
    )


def _sheet_blocks(workbook: openpyxl.Workbook) -> Iterator[Block]:
    for sheet in workbook.worksheets:
        sheet.reset_dimensions()  # the size a file declares may be wrong, or a million empty rows
        for number, row in enumerate(render_rows(sheet.iter_rows(values_only=True))):
            if number == 0:
                yield Block(sheet.title if sheet.title.startswith("Sheet") else f"Sheet {sheet.title}", 1)
            yield row
