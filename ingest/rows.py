"""Reads a JSONL or CSV file row by row: each row is a document, and its other fields are metadata.

One row is in memory at a time. An unusable row is reported by its line number and does not affect the others.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from app.errors import DocumentError, InputError
from app.types.documents import (
    MAX_KEY_CHARACTERS,
    MAX_METADATA_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    Metadata,
    MetadataValue,
    Source,
    SourceFailure,
    require_text,
)

JSONL_SUFFIXES, CSV_SUFFIXES = (".jsonl", ".ndjson"), (".csv", ".tsv")
ROW_SUFFIXES = JSONL_SUFFIXES + CSV_SUFFIXES
MAX_ROW_BYTES = 10_000_000
_DELIMITERS = ",;\t|"

Row = tuple[int, Mapping[str, Any] | str]  # line number, and the fields or the reason why there are none


@dataclass(frozen=True, slots=True)
class RowFields:
    """Which fields of a row hold its text, id and title. None: the field `id` or `title`, if the row has it."""

    text: str = "text"
    id: str | None = None
    title: str | None = None


def read_rows(file: Path, opened: BinaryIO, fields: RowFields) -> Iterator[Source | SourceFailure]:
    """Yields a source or a failure per row of `opened`, the content of `file`. The URI is the file's, `#` and the id; a
    row without an id gets `line-N`."""
    lines_by_id: dict[str, int] = {}
    try:
        rows = _json_rows(opened) if file.suffix.lower() in JSONL_SUFFIXES else _csv_rows(opened)
        for line, row in rows:
            try:
                yield _as_source(file, line, row, fields, lines_by_id)
            except InputError as error:
                yield SourceFailure(f"{file}, line {line}", str(error))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        yield SourceFailure(str(file), f"its rows cannot be read ({error}); save it in UTF-8")


def _json_rows(file: BinaryIO) -> Iterator[Row]:
    number = 0
    while line := file.readline(MAX_ROW_BYTES + 1):
        number += 1
        if len(line) > MAX_ROW_BYTES:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_ROW_BYTES)
            yield number, f"The row is longer than {MAX_ROW_BYTES:,} bytes. Split it into parts."
        elif line.strip():
            yield number, _parsed(line)


def _parsed(line: bytes) -> Mapping[str, Any] | str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # bytes that are not UTF-8 raise a ValueError, too
        return f"The row is not JSON ({error})."
    return row if isinstance(row, dict) else 'The row is not an object, as in {"text": "…"}.'


def _csv_rows(file: BinaryIO) -> Iterator[Row]:
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")  # a quoted cell may span lines
    lines = iter(lambda: text.readline(MAX_ROW_BYTES), "")
    first = next(lines, "")
    delimiter = max(_DELIMITERS, key=first.count)
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
    rows = csv.reader(itertools.chain([first], lines), delimiter=delimiter)
    header = next(rows, [])
    line = rows.line_num + 1
    for cells in rows:
        if len(cells) > len(header):
            yield line, f"The row has {len(cells)} cells, the header {len(header)}."
        elif cells:
            # pandas writes the row number as a column without a name.
            yield line, {name: cell for name, cell in zip(header, cells, strict=False) if name and cell}
        line = rows.line_num + 1


def _as_source(
    file: Path, line: int, row: Mapping[str, Any] | str, fields: RowFields, lines_by_id: dict[str, int]
) -> Source:
    if isinstance(row, str):
        raise DocumentError(row)
    text = row.get(fields.text)
    if not isinstance(text, str) or not text.strip():
        there = ", ".join(row) or "none"
        raise DocumentError(f"The field {fields.text!r} holds no text. Choose another with --text-field: {there}.")
    id_field, title_field = fields.id or "id", fields.title or "title"
    row_id = row.get(id_field)
    if isinstance(row_id, bool) or not isinstance(row_id, str | int) or row_id == "":
        if fields.id is not None or row_id is not None:
            raise DocumentError(f"The field {id_field!r} holds no id: {row_id!r} is neither a text nor a whole number.")
        row_id = f"line-{line}"
    row_id = require_text(str(row_id), name="id")
    if lines_by_id.setdefault(row_id, line) != line:
        raise DocumentError(f"The id {row_id!r} is already used on line {lines_by_id[row_id]}. Use another one.")
    title = row.get(title_field)
    taken = {fields.text, id_field, title_field}
    metadata = {key: value for key, value in row.items() if key not in taken and isinstance(value, MetadataValue)}
    return Source(
        name=f"{file}, line {line}",
        uri=f"{file.as_uri()}#{quote(row_id)}",
        media_type="text/plain",
        data=require_text(text, name="text").encode(),
        title=title[:MAX_TITLE_CHARACTERS] if isinstance(title, str) else "",
        metadata=_shortened(metadata),
    )


def _shortened(metadata: Metadata) -> Metadata:
    """With as much of long keys and values as a document may have."""
    kept = {key[:MAX_KEY_CHARACTERS]: value for key, value in metadata.items()}
    if sum(len(key) + len(str(value)) for key, value in kept.items()) <= MAX_METADATA_CHARACTERS:
        return kept
    most = max(MAX_METADATA_CHARACTERS // max(len(kept), 1) - MAX_KEY_CHARACTERS, 0)
    return {key: value[:most] if isinstance(value, str) else value for key, value in kept.items()}
