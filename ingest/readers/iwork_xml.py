"""Documents of Pages, Numbers and Keynote from before 2013: one XML file, with texts and tables in it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from app.errors import DocumentError
from ingest.readers.errors import parser_errors
from ingest.readers.grids import render_rows
from ingest.readers.iwork_tables import shown_date, shown_number
from ingest.readers.opc import Element, attribute, local, parse_part
from ingest.readers.parts import Block
from ingest.readers.skipped import Skipped

# Layouts, styles, and what the program keeps for itself.
_NOT_SHOWN = {
    *("theme", "theme-list", "stylesheet", "master-slide", "metadata", "section-prototypes", "versions", "text-body"),
}
_BODY, _OTHER, _FOOTNOTE, _COMMENT = range(4)
_RANKS = {"body": _BODY, "footnote": _FOOTNOTE}
_LABELS = {"footnote": "Footnote: ", "note": "Notes: "}
_ROW = 256  # places of cells
_MOST_ROWS = 1_000_000


def blocks_of_index(archive: zipfile.ZipFile, name: str, skipped: Skipped) -> Iterator[Block]:
    """The blocks of the file `name`: the body first. Notes damage. Raises DocumentError if it is encrypted."""
    try:
        root = parse_part(archive.read(name))
    except parser_errors() as error:
        if _is_locked(archive, name):
            raise DocumentError("This file is protected by a password. Save it without one.") from error
        skipped.note(name, f"It is damaged ({type(error).__name__}).")
        return
    ranked = list(_blocks(root))
    if any(rank == _BODY for rank, _ in ranked):
        ranked.sort(key=lambda item: item[0])
    yield from (block for _, block in ranked)


def _is_locked(archive: zipfile.ZipFile, name: str) -> bool:
    """Whether the file is compressed in a way that only iWork knows: so it marks encrypted ones."""
    return archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def _blocks(root: Element) -> Iterator[tuple[int, Block]]:
    """The blocks as they are stored, each with its rank in a document that has a body."""
    pending = [root]
    while pending:
        element = pending.pop()
        name = local(element)
        if name == "workspace" and (title := attribute(element, "workspace-name")):
            yield _OTHER, Block(title, 1)
        if name == "tabular-model":
            if attribute(element, "name-is-visible") != "false" and (title := attribute(element, "name")):
                yield _OTHER, Block(title, 2)
            yield from ((_OTHER, block) for block in render_rows(_rows(element), has_gaps=True))
        elif name == "text-storage":
            rank = _RANKS.get(attribute(element, "kind"), _OTHER)
            yield from ((rank, block) for block in _paragraphs(element))
            pending += reversed(list(element.iterchildren("*")))  # footnotes, tables and pictures in the text
        elif name in ("annotation", "sticky-note"):
            for storage in element.iter("{*}text-storage"):
                yield from ((_COMMENT, Block(f"Comment: {block.text}")) for block in _paragraphs(storage))
        elif name not in _NOT_SHOWN:
            pending += reversed(list(element.iterchildren("*")))


def _paragraphs(storage: Element) -> Iterator[Block]:
    label = _LABELS.get(attribute(storage, "kind"), "")
    for paragraph in chain.from_iterable(body.iter("{*}p") for body in storage.iterchildren("{*}text-body")):
        lines = "".join(_pieces(paragraph)).split("\n")
        if text := "\n".join(filter(None, (" ".join(line.split()) for line in lines))):
            yield Block(text if text.startswith(label) else label + text)


def _pieces(paragraph: Element) -> Iterator[str]:
    yield paragraph.text or ""
    for element in paragraph.iterdescendants("*"):
        name = local(element)
        yield "\n" if name in ("br", "lnbr", "pgbr") else "\t" if name == "tab" else ""
        yield element.text or ""
        yield element.tail or ""


def _rows(table: Element) -> Iterator[list[str]]:
    """Each cell says how many places it lies after the one before, in rows of 256 places."""
    source = next(table.iter("{*}datasource"), None)
    row: list[str] = []
    at = row_number = 0
    for cell in () if source is None else source.iterchildren("*"):
        step = attribute(cell, "ct")
        at += int(step) if step.isdecimal() else 1 if row or row_number else 0
        while row_number < at // _ROW and row_number < _MOST_ROWS:
            yield row
            row, row_number = [], row_number + 1
        row += [""] * (at % _ROW - len(row)) + [_shown(cell)]
    yield row


def _shown(cell: Element) -> str:
    """What the cell shows: of a formula, its result; of a menu, the choice."""
    name = local(cell)
    if name == "f":
        results = (child for result in cell.iterchildren("{*}r") for child in result.iterchildren("*"))
        return next(filter(None, map(_shown, results)), "")
    if name == "pm":
        chosen = {attribute(link, "IDREF") for link in cell.iterchildren("{*}proxied-cell-ref")}
        choices = (choice for menu in cell.iterchildren("{*}menu-choices") for choice in menu.iterchildren("*"))
        return next((_shown(choice) for choice in choices if attribute(choice, "ID") in chosen), "")
    for content in cell.iterdescendants("{*}ct"):
        if text := attribute(content, "s") or " ".join("".join(content.itertext()).split()):
            return text
    if date := attribute(cell, "cell-date"):
        with suppress(ValueError, OverflowError):
            return shown_date(float(date))
    value = attribute(cell, "v")
    try:
        return shown_number(float(value))
    except ValueError:
        return value
