"""Jupyter notebooks: cells in order, with headings, code unchanged, and the text of outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeGuard
from xml.etree.ElementTree import ParseError

from app.errors import DocumentError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.errors import too_deep
from ingest.readers.html import read_html
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import NOTEBOOK
from ingest.readers.parts import Block
from ingest.readers.payloads import Payloads
from ingest.readers.records import read_json
from ingest.readers.skipped import Skipped
from ingest.readers.tables import join_blocks
from ingest.readers.text import as_printed, decode_text
from ingest.readers.xml import parse_xml, words_of_drawing
from ingest.text_headings import MarkdownHeadings
from ingest.titles import heading_text

# What stands for an object of which another form holds the content.
_OBJECT = re.compile(r"<IPython\.[\w.]+ object>")
_MOST_OUTPUT = 20_000  # characters of one output: progress bars and printed arrays can be endless


def read_notebook(data: bytes, limits: ReadLimits) -> ExtractedText:
    try:
        notebook = json.loads(decode_text(data).text)
    except RecursionError:
        raise too_deep("notebook") from None
    except ValueError as error:
        raise DocumentError(f"This notebook cannot be read ({error}). Save it again in Jupyter.") from error
    if not _is_notebook(notebook):
        return read_json(data, limits, "")
    metadata = notebook.get("metadata")
    cut, payloads = Skipped("results"), Payloads()
    blocks = list(_blocks(notebook, limits, cut, payloads))
    text, marks, cells = join_blocks(blocks, limits)
    title = next((heading_text(block.text) for block in blocks if block.level), "")
    return ExtractedText(
        text, title, NOTEBOOK, payloads.skipped.added_to(cut.added_to(_language(metadata))), marks=marks, cells=cells
    )


def _is_notebook(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and ("nbformat" in value or any("cell_type" in cell for cell in _cells(value)))


def _language(metadata: object) -> dict[str, MetadataValue]:
    about = metadata if isinstance(metadata, dict) else {}
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        value = about.get(key)
        if isinstance(value, dict) and isinstance(value.get(name), str) and value[name]:
            return {"language": value[name]}
    return {}


def _blocks(notebook: dict[str, Any], limits: ReadLimits, cut: Skipped, payloads: Payloads) -> Iterator[Block]:
    for number, cell in enumerate(_cells(notebook), start=1):
        source = payloads.text(_joined(cell.get("source", cell.get("input", ""))), f"Cell {number}")
        kind = cell.get("cell_type")
        if kind == "markdown":
            yield from _markdown(source)
        elif kind == "heading":  # format version 3
            yield Block(source.strip(), min(max(int(cell.get("level", 1)), 1), 6))
        elif source.strip():
            yield Block(source.strip("\n"))
        for output in cell.get("outputs") or ():
            shown = payloads.text(_output(output, limits), f"Cell {number}") if isinstance(output, dict) else ""
            if (text := shown.strip("\n")).strip():
                if len(text) > _MOST_OUTPUT:
                    cut.note(f"Cell {number}", f"The output beyond {_MOST_OUTPUT:,} characters is left out.")
                yield Block(text[:_MOST_OUTPUT])


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    sheets = notebook.get("worksheets")  # format version 3
    for sheet in sheets if isinstance(sheets, list) else [notebook]:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        yield from (cell for cell in cells or () if isinstance(cell, dict))


def _markdown(source: str) -> Iterator[Block]:
    at = 0
    for mark in MarkdownHeadings().marks(source, 0):
        if before := source[at : mark.start].strip("\n"):
            yield Block(before)
        yield Block(source[mark.start : mark.end], mark.level)
        at = mark.end
    if rest := source[at:].strip("\n"):
        yield Block(rest)


def _output(output: dict[str, Any], limits: ReadLimits) -> str:
    """The text of the richest form that Jupyter shows; empty for pictures."""
    if output.get("output_type") in ("error", "pyerr"):
        return _error(output)
    bundle = output.get("data")
    data = bundle if isinstance(bundle, dict) else output
    for key in ("text/html", "html"):
        if (markup := _joined(data.get(key))).strip() and (text := _text_of_markup(markup, limits)):
            return text
    for key in ("image/svg+xml", "svg"):
        if (drawing := _joined(data.get(key))).strip() and (text := _text_of_drawing(drawing)):
            return text
    for key in ("text/markdown", "text/latex", "latex"):
        if (text := _joined(data.get(key))).strip():
            return text
    plain = next((text for key in ("text/plain", "text") if (text := _joined(data.get(key))).strip()), "")
    if not _OBJECT.fullmatch(plain.strip()):
        return "".join(as_printed([plain]))
    value = data.get("application/json")
    return json.dumps(value, ensure_ascii=False, indent=1) if value else ""


def _error(output: dict[str, Any]) -> str:
    message = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    lines = output.get("traceback")
    shown = "\n".join(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else ""
    traceback = "".join(as_printed([shown]))
    return traceback if message in traceback else f"{traceback}\n{message}".strip()


def _text_of_markup(markup: str, limits: ReadLimits) -> str:
    try:
        return read_html(markup.encode("utf-8", "replace"), limits, "utf-8").text
    except DocumentError:  # without elements
        return ""


def _text_of_drawing(drawing: str) -> str:
    """The words of an SVG, without its metadata and styles."""
    try:
        root = parse_xml(drawing.encode("utf-8", "replace"))
    except (DocumentError, ParseError):
        return ""
    return "\n".join(words_of_drawing(root))


def _joined(source: object) -> str:
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""
