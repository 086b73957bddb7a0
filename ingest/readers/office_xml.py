"""Office documents that are one XML file: flat packages and Word 2003, which become packages, and Excel 2003."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element, SubElement, tostring

from app.types.documents import MetadataValue
from ingest.readers.grids import SPANNED, render_rows
from ingest.readers.opc import core_properties, parse_part
from ingest.readers.parts import Block

_PACKAGE = "http://schemas.microsoft.com/office/2006/xmlPackage"
_WORD = "http://schemas.microsoft.com/office/word/2003/wordml"
_EXCEL = "urn:schemas-microsoft-com:office:spreadsheet"
_RELATIONS = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    b'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    b'Target="word/document.xml"/><Relationship Id="r2" '
    b'Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties" '
    b'Target="docProps/core.xml"/></Relationships>'
)
_OFFICE = "urn:schemas-microsoft-com:office:office"
_MOST_EMPTY = 1_000  # cells of a row that indexes and merged cells add


def package_of(root: Element) -> bytes | None:
    """The Office file that a flat package or a document of Word 2003 is, as a package; None for other XML."""
    if root.tag == f"{{{_PACKAGE}}}package":
        parts = {_attribute(part, "name").lstrip("/"): _content(part) for part in root}
        return _zipped(parts, [_attribute(part, "contentType") for part in root])
    if root.tag == f"{{{_WORD}}}wordDocument":
        parts = {"_rels/.rels": _RELATIONS, "word/document.xml": tostring(root), "docProps/core.xml": _core(root)}
        return _zipped(parts, ["wordprocessingml"])
    return None


def properties_of(root: Element) -> tuple[str, dict[str, MetadataValue]]:
    """Title and metadata of a document of Word or Excel 2003."""
    return core_properties(parse_part(_core(root)))


def _core(root: Element) -> bytes:
    """The properties of a document of Word or Excel 2003, as a part of a package."""
    core = Element("coreProperties")
    for old, new in (("Title", "title"), ("Author", "creator"), ("Created", "created"), ("LastSaved", "modified")):
        text = root.findtext(f"{{{_OFFICE}}}DocumentProperties/{{{_OFFICE}}}{old}")
        if text:
            SubElement(core, new).text = text
    return tostring(core)


def sheets_of(root: Element) -> list[tuple[str, Iterator[Block]]]:
    """The names and rows of the sheets of a workbook of Excel 2003; empty for other XML."""
    if root.tag != f"{{{_EXCEL}}}Workbook":
        return []
    sheets = root.findall(f"{{{_EXCEL}}}Worksheet")
    return [(sheet.get(f"{{{_EXCEL}}}Name", ""), render_rows(_rows(sheet), has_gaps=True)) for sheet in sheets]


def _content(part: Element) -> bytes:
    data = part.find(f"{{{_PACKAGE}}}xmlData")
    if data is not None:
        return tostring(data[0]) if len(data) else b""
    return base64.b64decode(part.findtext(f"{{{_PACKAGE}}}binaryData") or "")


def _attribute(part: Element, name: str) -> str:
    return part.get(f"{{{_PACKAGE}}}{name}", "")


def _zipped(parts: dict[str, bytes], types: Iterable[str]) -> bytes:
    """A package of these parts. Flat ones have no list of types, by which a package is known."""
    root = Element("Types")
    for kind in dict.fromkeys(types):
        SubElement(root, "Override", ContentType=kind)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("[Content_Types].xml", tostring(root))
        for name, data in parts.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _rows(sheet: Element) -> Iterator[list[str]]:
    number = 0
    for row in sheet.iter(f"{{{_EXCEL}}}Row"):
        skipped = _count(row, "Index", number + 1) - number - 1
        if skipped > 0:
            yield []
        number += max(skipped, 0) + 1
        cells: list[str] = []
        left = _MOST_EMPTY
        for cell in row.iterfind(f"{{{_EXCEL}}}Cell"):
            gap = min(max(_count(cell, "Index", len(cells) + 1) - 1 - len(cells), 0), left)
            merged = min(_count(cell, "MergeAcross", 0), left - gap)
            left -= gap + merged
            cells += [*[""] * gap, _text(cell), *[SPANNED] * merged]
        yield cells


def _text(cell: Element) -> str:
    """The value, and a comment behind it."""
    data, comment = (cell.find(f"{{{_EXCEL}}}{name}") for name in ("Data", "Comment"))
    text = "" if data is None else "".join(data.itertext())
    if data is not None and data.get(f"{{{_EXCEL}}}Type") == "DateTime":
        text = text.removesuffix(".000").removesuffix("T00:00:00")
    said = "" if comment is None else " ".join("".join(comment.itertext()).split())
    return f"{text} (Comment: {said})" if said else text


def _count(element: Element, name: str, default: int) -> int:
    text = element.get(f"{{{_EXCEL}}}{name}", "")
    return int(text) if text.isdecimal() and len(text) < 8 else default
