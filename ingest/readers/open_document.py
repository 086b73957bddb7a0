"""OpenDocument texts, spreadsheets and presentations (odt, ods, odp), zipped or as one flat file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from lxml import etree

from app.errors import DocumentError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.grids import SPANNED, render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import ODP, ODS, ODT
from ingest.readers.members import ReadMember
from ingest.readers.opc import Element, Package, attribute, children, first, local, parse_part
from ingest.readers.open_document_forms import FormControls
from ingest.readers.open_document_lists import ListNumbers
from ingest.readers.package import check_package, iso_date
from ingest.readers.parts import Block, blocks_of
from ingest.readers.payloads import Payloads
from ingest.readers.sheets import message_block, under_heading
from ingest.readers.shown_files import ShownFiles, read_package
from ingest.readers.slides import check_slides, join_pages
from ingest.readers.tables import join_blocks

_MEDIA_TYPES = {"text": ODT, "spreadsheet": ODS, "presentation": ODP, "drawing": ODP}
_SILENT = {"tracked-changes", "forms", "note-citation", "settings"}
# Numbers written for programs that do not count list items themselves.
_SILENT |= {"number"}
# Silent in a comment; elsewhere these names are fields, such as the date of a letter.
_ABOUT_COMMENTS = {"creator", "date", "date-string", "sender-initials"}
_SHAPES = {
    *(
        "frame",
        "custom-shape",
        "rect",
        "g",
        "line",
        "polyline",
        "polygon",
        "regular-polygon",
        "path",
        "circle",
        "ellipse",
    ),
    *("connector", "caption", "measure"),
}
_ON_SLIDES = ("header", "footer", "date-time")
_CELL_VALUES = ("string-value", "value", "date-value", "time-value", "boolean-value")
_MAX_SPAN = 1_000
_MAX_REPEATED = 1_000  # equal rows
_MOST_NESTED = 2  # objects within objects
_LOWEST_LEVEL = 6
_SPACES = re.compile(r"[ \t\r\n]+")
_MARGIN = re.compile(r"(?:header|footer)(?:-left|-first)?")
_FIELDS_OF_PAGES = {"page-number", "page-count", "sheet-name", "file-name", "title", "date", "time"}


def read_open_document(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A text, spreadsheet, presentation or drawing. `read_member` parses embedded files of Office that it shows."""
    if data.lstrip()[:5] == b"<?xml":
        content = parse_part(data)
        return _read(None, None, content, content, content, limits)
    check_package(data, limits, kind="OpenDocument file", folder="content.xml")
    return read_package(data, limits, read_member, lambda package, files: _read_package(package, files, limits))


def _read_package(package: Package, files: ShownFiles, limits: ReadLimits) -> ExtractedText:
    manifest, styles, meta = (
        package.optional(part) if package.has(part) else None
        for part in ("META-INF/manifest.xml", "styles.xml", "meta.xml")
    )
    if manifest is not None and next(manifest.iter("{*}encryption-data"), None) is not None:
        raise DocumentError("This OpenDocument file is protected by a password. Save a copy without one.")
    return _read(package, files, package.root("content.xml"), styles, meta, limits)


def _read(
    package: Package | None,
    shown_files: ShownFiles | None,
    content: Element,
    styles: Element | None,
    meta: Element | None,
    limits: ReadLimits,
) -> ExtractedText:
    body = next(content.iter("{*}body"), None)
    if body is not None and (earlier := attribute(content, "class")) and first(body, earlier) is None:
        _modernize(body, earlier)
    root = None if body is None else next((node for node in body if local(node) in _MEDIA_TYPES), None)
    if root is None:
        raise DocumentError("This is not an OpenDocument text, spreadsheet or presentation. Save it as one of these.")
    kind = local(root)
    title, metadata = _properties(meta)
    numbers = ListNumbers(styles, content if content is not styles else None)
    walk = _Walk(package, shown_files, numbers, FormControls(content), _hidden_styles(styles, content))
    if _MEDIA_TYPES[kind] == ODP:
        pages = list(walk.slides(root, styles))
        check_slides(pages, limits)
        joined = join_pages(pages, limits)
        text, marks, cells, starts = joined.text, joined.marks, joined.cells, joined.page_starts
        metadata["pages"] = len(pages)
    else:
        blocks = walk.sheets(root, content, styles) if kind == "spreadsheet" else walk.text(root, styles)
        text, marks, cells = join_blocks(blocks, limits)
        starts = ()
    heading = next((text[mark.start : mark.end] for mark in marks if mark.level), "") if kind != "spreadsheet" else ""
    return ExtractedText(
        text,
        title=" ".join(heading.split()) or title,
        media_type=_MEDIA_TYPES[kind],
        metadata=walk.payloads.skipped.added_to(metadata | (package.notes() if package else {})),
        page_starts=starts,
        marks=marks,
        cells=cells,
    )


def _modernize(body: Element, kind: str) -> None:
    """Gives the body of a document of OpenOffice 1 the elements of OpenDocument. `kind`: of `_MEDIA_TYPES`."""
    inner = etree.Element(f"{{office}}{kind}")
    inner.extend(list(body))
    body.append(inner)
    for listed in inner.iter("{*}ordered-list", "{*}unordered-list"):
        listed.tag = f"{{{etree.QName(listed).namespace}}}list"


def _properties(root: Element | None) -> tuple[str, dict[str, MetadataValue]]:
    meta = None if root is None else next(root.iter("{*}meta"), None)
    by_name = {} if meta is None else {local(node): " ".join((node.text or "").split()) for node in meta}
    values = (
        ("author", by_name.get("initial-creator") or by_name.get("creator", "")),
        ("created", iso_date(by_name.get("creation-date", ""))),
        ("modified", iso_date(by_name.get("date", ""))),
    )
    return by_name.get("title", ""), {key: value for key, value in values if value}


class _Walk:
    def __init__(
        self,
        package: Package | None,
        shown_files: ShownFiles | None,
        numbers: ListNumbers,
        controls: FormControls,
        hidden: Collection[tuple[str, str]],
    ) -> None:
        self._package = package
        self._shown_files = shown_files
        self._numbers = numbers
        self._controls = controls
        self._hidden = hidden  # families and names of styles
        self._messages: dict[str, Block] = {}  # of cells, by the names of their rules, until they are shown
        self._object_depth = 0
        self.payloads = Payloads()  # in cells
        self._is_in_cell = False

    def text(self, root: Element, styles: Element | None) -> Iterator[Block]:
        yield from self._margins(styles, "header")
        yield from self.blocks(root)
        yield from self._margins(styles, "footer")

    def _margins(self, styles: Element | None, tag: str) -> Iterator[Block]:
        margins = [] if styles is None else styles.iter(f"{{*}}{tag}")
        own = (node for node in margins if local(node.getparent()) == "master-page")
        yield from map(Block, dict.fromkeys(block.text for node in own for block in self.blocks(node)))

    def slides(self, root: Element, styles: Element | None) -> Iterator[list[Block]]:
        """Yields the blocks of each slide. Footers and texts of a master slide follow on the first slide that shows
        them."""
        master_pages = [] if styles is None else styles.iter("{*}master-page")
        masters = {attribute(master, "name"): master for master in master_pages}
        declared = {
            (local(node), attribute(node, "name")): " ".join((node.text or "").split())
            for node in root.iterchildren(*(f"{{*}}{kind}-decl" for kind in _ON_SLIDES))
        }
        shown: set[str] = set()
        for page in root.iterchildren("{*}page"):
            blocks = list(self.blocks(page))
            used = ((f"{kind}-decl", attribute(page, f"use-{kind}-name")) for kind in _ON_SLIDES)
            beside = [declared.get(key, "") for key in used]
            if (master := masters.pop(attribute(page, "master-page-name"), None)) is not None:
                shapes = (
                    shape
                    for shape in children(master)
                    if attribute(shape, "class") in ("", *_ON_SLIDES) and local(shape) != "notes"
                )
                beside += [block.text for shape in shapes for block in self._block(shape)]
            blocks += [Block(text) for text in dict.fromkeys(beside) if text and text not in shown]
            shown.update(beside)
            yield blocks

    def sheets(self, root: Element, content: Element, styles: Element | None) -> Iterator[Block]:
        """Yields the blocks of each sheet. Headers and footers of printed pages follow the first sheet that has
        them."""
        master_pages = [] if styles is None else styles.iter("{*}master-page")
        masters = {attribute(master, "name"): master for master in master_pages}
        used = {
            attribute(style, "name"): attribute(style, "master-page-name")
            for style in content.iter("{*}style")
            if attribute(style, "family") == "table"
        }
        self._messages = dict(self._messages_of(root))
        for table in root.iterchildren("{*}table"):
            beside: list[Block] = []
            rows = render_rows(self._rows(table, beside), has_gaps=True, payloads=self.payloads)
            master = masters.pop(used.get(attribute(table, "style-name"), ""), None)
            blocks = self._with(rows, beside, [] if master is None else _printed(master))
            yield from under_heading(attribute(table, "name"), blocks)

    def _messages_of(self, root: Element) -> Iterator[tuple[str, Block]]:
        for rule in root.iter("{*}content-validation"):
            message = first(rule, "help-message")
            if message is not None and attribute(message, "display") == "true":
                text = "\n".join(block.text for block in self.blocks(message))
                for block in message_block(attribute(message, "title"), text):
                    yield attribute(rule, "name"), block

    def _with(self, rows: Iterator[Block], beside: list[Block], printed: Iterable[Block]) -> Iterator[Block]:
        yield from rows
        yield from beside
        yield from printed

    def blocks(self, parent: Element) -> Iterator[Block]:
        for child in children(parent):
            yield from self._block(child)

    def _block(self, element: Element) -> Iterator[Block]:
        tag = local(element)
        if self._is_unseen(element):
            return
        if tag in ("p", "h"):
            yield from self._paragraph(element)
        elif tag == "list":
            yield from self._list(element)
        elif tag == "table":
            beside: list[Block] = []
            yield from render_rows(self._rows(element, beside), payloads=self.payloads)
            yield from beside
        elif tag == "frame" and attribute(element, "class") == "title":
            yield from (Block(block.text, 1) for block in self.blocks(element))
        elif tag == "notes":
            yield from (Block(f"Notes: {block.text}") for block in self.blocks(element))
        elif tag in ("note", "annotation"):
            yield from self._note(element)
        elif tag in ("title", "desc") and element.text and element.text.strip():
            yield Block(f"Picture: {' '.join(element.text.split())}")
        elif tag == "title" and local(element.getparent()) == "chart":
            yield from (Block(f"Chart: {block.text}") for block in self.blocks(element))
        elif tag == "control":
            if text := self._controls.shown(attribute(element, "control")):
                yield Block(text)
        elif tag in ("object-ole", "plugin", "applet") and self._package and self._shown_files:
            place = attribute(element, "href").removeprefix("./")
            if tag == "object-ole" and (embedded := self._shown_files.text(place)) is not None:
                yield from blocks_of(embedded)
            else:
                self._package.note(place, "An embedded file is not read.")
        elif tag == "object" and self._package:
            yield from self._object(self._package, attribute(element, "href"))
        else:
            yield from self.blocks(element)

    def _is_unseen(self, element: Element) -> bool:
        tag = local(element)
        if tag in ("span", "p", "h"):
            return ("text" if tag == "span" else "paragraph", attribute(element, "style-name")) in self._hidden
        if tag in ("section", "hidden-text"):
            return attribute(element, "display") == "none" or attribute(element, "is-hidden") == "true"
        return _is_silent(element)

    def _list(self, element: Element) -> Iterator[Block]:
        self._numbers.enter_list(element)
        for item in children(element):
            self._numbers.enter_item(item)
            yield from self.blocks(item)
        self._numbers.leave_list()

    def _note(self, note: Element) -> Iterator[Block]:
        is_comment = local(note) == "annotation"
        author = first(note, "creator")
        by = f" by {author.text}" if author is not None and author.text else ""
        kind = f"Comment{by}" if is_comment else "Endnote" if attribute(note, "note-class") == "endnote" else "Footnote"
        text = "\n".join(block.text for block in self.blocks(note))
        if text:
            yield Block(f"{kind}: {text}")

    def _object(self, package: Package, name: str) -> Iterator[Block]:
        """The table of a chart, or the text of a formula. Below a depth, objects within objects are left out: one may
        hold itself."""
        part = f"{name.removeprefix('./')}/content.xml"
        if self._object_depth == _MOST_NESTED:
            package.note(part, "It is nested too deeply.")
            return
        root = package.optional(part) if name else None
        if root is None:
            return
        if local(root) == "math":
            texts = (_of_formula(node) for node in root.iter("{*}mi", "{*}mn", "{*}mo", "{*}mtext"))
            yield Block(" ".join("".join(texts).split()))
        else:
            self._object_depth += 1
            yield from list(self.blocks(root))
            self._object_depth -= 1

    def _paragraph(self, paragraph: Element) -> Iterator[Block]:
        texts: list[str] = []
        beside: list[Block] = []
        self._inline(paragraph, texts, beside)
        text = "".join(texts).strip()
        number = self._numbers.before(paragraph)
        if text:
            level = attribute(paragraph, "outline-level") if local(paragraph) == "h" else ""
            yield Block(number + text, min(int(level), _LOWEST_LEVEL) if level.isdecimal() else None)
        elif number and self._is_in_cell:  # a column of row numbers
            yield Block(number.strip())
        yield from (block for block in beside if block.text)

    def _inline(self, parent: Element, texts: list[str], beside: list[Block]) -> None:
        texts.append(_joined(parent.text))
        for child in children(parent):
            tag = local(child)
            if tag == "s":
                texts.append(" " * min(int(attribute(child, "c") or 1), _MAX_SPAN))
            elif tag in ("tab", "line-break"):
                texts.append("\t" if tag == "tab" else "\n")
            elif tag in ("note", "annotation"):
                beside += self._note(child)
            elif tag == "ruby-text":
                beside.append(Block(_joined(child.text)))
            elif tag in _SHAPES:
                beside += self.blocks(child)
            elif tag == "control":
                texts.append(self._controls.shown(attribute(child, "control")))
            elif not self._is_unseen(child):
                self._inline(child, texts, beside)
            texts.append(_joined(child.tail))

    def _rows(self, table: Element, beside: list[Block]) -> Iterator[list[str]]:
        below: dict[int, tuple[str, int]] = {}  # column → a text that spans further rows, and how many
        for row in _within(table):
            cells: list[str] = []
            for cell in row.iterchildren("{*}table-cell", "{*}covered-table-cell"):
                repeated = min(int(attribute(cell, "number-columns-repeated") or 1), _MAX_SPAN)
                text = self._cell(cell, beside)
                rows = int(attribute(cell, "number-rows-spanned") or 1)
                columns = min(int(attribute(cell, "number-columns-spanned") or 1), _MAX_SPAN)
                if local(cell) == "covered-table-cell":
                    for _ in range(repeated):
                        over, left = below.get(len(cells), (SPANNED, 0))
                        below[len(cells)] = (over if left > 1 else SPANNED, left - 1)
                        cells.append(over if left > 0 else SPANNED)
                    continue
                for column in range(len(cells), len(cells) + columns) if rows > 1 else ():
                    below[column] = (text if column == len(cells) else SPANNED, rows - 1)
                cells += [text] * repeated
            while cells and not cells[-1]:
                cells.pop()
            times = int(attribute(row, "number-rows-repeated") or 1)
            if cells and times > _MAX_REPEATED and self._package:
                self._package.note(
                    attribute(table, "name"), f"Equal rows that are left out: {times - _MAX_REPEATED:,}."
                )
            for _ in range(min(times, _MAX_REPEATED) if cells else 1):
                yield list(cells)
        for shape in table.iterchildren("{*}shapes"):
            beside += self.blocks(shape)

    def _cell(self, cell: Element, beside: list[Block]) -> str:
        texts: list[str] = []
        if message := self._messages.pop(attribute(cell, "content-validation-name"), None):
            beside.append(message)
        was_in_cell, self._is_in_cell = self._is_in_cell, True
        for child in children(cell):
            if local(child) == "annotation" or local(child) in _SHAPES:
                beside += self._note(child) if local(child) == "annotation" else self.blocks(child)
            else:
                texts.extend(block.text for block in self._block(child))
        self._is_in_cell = was_in_cell
        text = "\n".join(texts)
        text = text or next(filter(None, (attribute(cell, name) for name in _CELL_VALUES)), "")
        if text or attribute(cell, "value-type") == "string":  # the result of a formula may be an empty text
            return text
        return attribute(cell, "formula").removeprefix("of:")


def _hidden_styles(*roots: Element | None) -> set[tuple[str, str]]:
    return {
        (attribute(style, "family"), attribute(style, "name"))
        for root in roots
        for style in (() if root is None else root.iter("{*}style"))
        if attribute(first(style, "text-properties"), "display") == "none"
    }


def _printed(master: Element) -> Iterator[Block]:
    """The headers and footers of printed pages, without page numbers, dates and names of files and sheets."""
    texts = dict[str, None]()
    for margin in children(master):
        if not _MARGIN.fullmatch(local(margin)) or attribute(margin, "display") == "false":
            continue
        for paragraph in margin.iter("{*}p"):
            text = " ".join("".join(_without_fields(paragraph)).split())
            numbers = sum(1 for _ in paragraph.iter("{*}page-number", "{*}page-count"))  # "Page 1 of 9"
            if any(map(str.isalnum, text)) and len(text.split()) > numbers:
                texts[text] = None
    yield from map(Block, texts)


def _without_fields(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in children(element):
        if local(child) not in _FIELDS_OF_PAGES:
            yield from _without_fields(child)
        yield child.tail or ""


def _is_silent(element: Element) -> bool:
    tag = local(element)
    return tag in _SILENT or (tag in _ABOUT_COMMENTS and local(element.getparent()) == "annotation")


def _within(table: Element) -> Iterator[Element]:
    for child in children(table):
        if local(child) == "table-row":
            yield child
        elif local(child) in ("table-rows", "table-header-rows", "table-row-group"):
            yield from _within(child)


def _of_formula(element: Element) -> str:
    """The text of a formula's node. Words get spaces around them; one-letter names do not."""
    text = element.text or ""
    return f" {text} " if local(element) == "mtext" or (len(text) > 1 and text.isalpha()) else text


def _joined(text: str | None) -> str:
    """Text with each run of spaces and line ends as one space."""
    return _SPACES.sub(" ", text or "")
