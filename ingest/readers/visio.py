"""Drawings of Visio (vsdx), a page per sheet: the texts of its shapes from top to bottom; then comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import VISIO
from ingest.readers.opc import Element, Package, first
from ingest.readers.package import check_package
from ingest.readers.parts import Block
from ingest.readers.slides import check_slides, join_pages

_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def read_visio(data: bytes, limits: ReadLimits) -> ExtractedText:
    """Raises DocumentError for a drawing without text."""
    check_package(data, limits, kind="Visio drawing", folder="visio/")
    package = Package(data)
    document = package.main_part("visio/document.xml")
    masters = {sheet.get("ID", ""): part for sheet, part in _sheets(package, document, "masters")}
    sheets = list(_sheets(package, document, "pages"))
    check_slides(sheets, limits)
    pages = [
        [Block(sheet.get("Name", ""), level=1), *map(Block, _shown(package, part, masters))] for sheet, part in sheets
    ]
    comments = list(map(Block, _comments(package, document)))
    if not comments and all(len(blocks) == 1 for blocks in pages):
        raise DocumentError("This drawing has no text. Add a version with text.")
    joined = join_pages([*pages, comments] if comments else pages, limits)
    title, metadata = package.properties()
    return ExtractedText(
        joined.text,
        title=title,
        media_type=VISIO,
        metadata={**metadata, "pages": len(sheets), **package.notes()},
        page_starts=joined.page_starts[: len(sheets)],
        marks=joined.marks,
    )


def _sheets(package: Package, document: str, kind: str) -> Iterator[tuple[Element, str]]:
    """Each page or master: what the list of them says, and its part."""
    for listed in package.related(document, kind):
        root = package.optional(listed)
        relations = package.relations(listed)
        for sheet in () if root is None else root.iterchildren("{*}Page", "{*}Master"):
            link = first(sheet, "Rel")
            identity = "" if link is None else link.get(_RELATION, "")
            if identity in relations and sheet.get("Background") != "1":
                yield sheet, relations[identity].target


def _shown(package: Package, part: str, masters: Mapping[str, str]) -> Iterator[str]:
    root = package.optional(part)
    shapes = None if root is None else first(root, "Shapes")
    for shape in sorted(() if shapes is None else shapes.iterchildren("{*}Shape"), key=_place):
        texts = list(_texts(shape))
        if (
            not texts
            and not any(True for _ in shape.iter("{*}Text"))
            and (master := masters.get(shape.get("Master", "")))
        ):
            texts = _texts_of_part(package, master)
        yield from texts


def _texts_of_part(package: Package, part: str) -> list[str]:
    root = package.optional(part)
    return [] if root is None else list(_texts(root))


def _texts(element: Element) -> Iterator[str]:
    for text in element.iter("{*}Text"):
        if shown := "".join(text.itertext()).strip():
            yield shown


def _place(shape: Element) -> tuple[float, float]:
    """Sorts from top to bottom, then from left to right: Visio measures from the lower edge."""
    cells = {cell.get("N"): cell.get("V", "") for cell in shape.iterchildren("{*}Cell")}
    return -_number(cells.get("PinY", "")), _number(cells.get("PinX", ""))


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return 0.0


def _comments(package: Package, document: str) -> Iterator[str]:
    for part in package.related(document, "comments"):
        root = package.optional(part)
        for entry in () if root is None else root.iter("{*}CommentEntry"):
            if shown := "".join(entry.itertext()).strip():
                yield f"Comment: {shown}"
