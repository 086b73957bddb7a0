"""The text of Word files, slides and drawings as blocks in reading order, in one walk over their XML.

Word and PowerPoint use the same names for paragraphs, runs, tables and cells in different namespaces, so namespaces are
ignored. office.py, slides.py and sheets.py parse styles, numbers, notes and sheets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ingest.readers.charts import chart_blocks, diagram_blocks
from ingest.readers.field_instructions import LONGEST_INSTRUCTION, shown_instruction, shown_sign
from ingest.readers.formulas import linear_formula
from ingest.readers.grids import SPANNED, render_rows
from ingest.readers.opc import Element, Package, attribute, children, first, is_on, local
from ingest.readers.parts import Block, blocks_of
from ingest.readers.text import raised

# Deleted and moved text, properties, and instructions of fields.
_SILENT = {
    *("del", "moveFrom", "instrText", "delText", "pPr", "rPr", "tblPr", "tcPr", "trPr", "tblGrid", "sectPr", "nvPr"),
    *("sdtPr", "sdtEndPr", "ctrlPr", "endParaRPr", "extLst", "binData"),
}
_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote", "commentReference": "comment"}
_DRAWINGS = {"drawing", "pict", "object"}
_MARKS = {  # which stand between paragraphs
    *("bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd", "proofErr", "permStart", "permEnd"),
    *("moveFromRangeStart", "moveFromRangeEnd", "moveToRangeStart", "moveToRangeEnd"),
}
_FILES = ("OLEObject", "oleObj", "altChunk")
_FILE_NAME = re.compile(r"\S+\.(?:png|jpe?g|gif|bmp|tiff?|emf|wmf|svg)", re.I)
_BLANK_LINES = re.compile(r"\n\s*\n")  # would end a block
_MAX_SPAN = 1_000
_LONG_CELL = 300  # characters: too long for a column name


def _nothing(paragraph: Element) -> str:
    return ""


def _no_text(part: str) -> str | None:
    return None


def _no_level(paragraph: Element) -> int | None:
    return None


class Walk:
    """Walks one part. `number` returns the label of a numbered paragraph, `level` the level of a heading, or None, and
    `inserted` the text of another file that the document shows, or None if it cannot be parsed."""

    def __init__(
        self,
        package: Package,
        part: str,
        *,
        number: Callable[[Element], str] = _nothing,
        level: Callable[[Element], int | None] = _no_level,
        inserted: Callable[[str], str | None] = _no_text,
    ) -> None:
        self._package = package
        self._part = part
        self._number = number
        self._level = level
        self._inserted = inserted
        self._fields: list[bool] = []  # per open field: True while its instruction, not its text, is being parsed
        self._instructions: list[str] = []  # of the open fields
        self._begin = ""  # of the next paragraph: its large first letter, or paragraphs that were joined with it
        self._alt_text = ""
        self._is_in_cell = False
        self.notes: list[tuple[str, str]] = []  # referenced footnotes, endnotes and comments: kind and id

    def blocks(self, parent: Element) -> Iterator[Block]:
        for child in children(parent):
            yield from self.block(child)

    def block(self, element: Element) -> Iterator[Block]:
        tag = local(element)
        if tag in _SILENT:
            return
        if tag == "p":
            yield from self._paragraph(element)
        elif tag == "tbl":
            yield from self._table(element)
        elif tag == "txBody":
            yield from self._text_body(element)
        elif tag in ("oMathPara", "oMath"):
            yield Block(linear_formula(element))
        elif tag in ("docPr", "cNvPr", "shape", "textpath"):
            yield from self._described(element)
            yield from self.blocks(element)
        elif tag in ("chart", "relIds") and (identity := attribute(element, "id") or attribute(element, "dm")):
            relation = self._package.relations(self._part).get(identity)
            root = self._package.optional(relation.target if relation else f"{self._part}#{identity}")
            if root is not None:
                yield from (chart_blocks if tag == "chart" else diagram_blocks)(root)
        elif tag in _FILES and (text := self._inserted_text(element)) is not None:
            yield from blocks_of(text)
        elif tag in (*_FILES, "control"):
            kind = attribute(element, "ProgID") or attribute(element, "progId") or attribute(element, "name")
            reason = f"An embedded file is not read ({kind})." if kind else "An embedded file is not read."
            self._package.note(self._part, reason)
            yield from self.blocks(element)
        else:
            yield from self.blocks(element)

    def _inserted_text(self, element: Element) -> str | None:
        relation = self._package.relations(self._part).get(attribute(element, "id"))
        return self._inserted(relation.target) if relation and self._package.has(relation.target) else None

    def _described(self, element: Element) -> Iterator[Block]:
        """The alternative text of a picture, or text drawn along a line. Skips repeats and file names."""
        drawn = attribute(element, "string")
        text = " ".join((attribute(element, "descr") or attribute(element, "alt") or drawn).split())
        if text and text != self._alt_text and not _FILE_NAME.fullmatch(text):
            yield Block(text if drawn else f"Picture: {text}")
        self._alt_text = text or self._alt_text

    def _text_body(self, body: Element) -> Iterator[Block]:
        """The paragraphs of a shape, joined into one block."""
        blocks = [block for paragraph in children(body) if local(paragraph) == "p" for block in self.block(paragraph)]
        if blocks:
            yield Block("\n".join(block.text for block in blocks))

    def _paragraph(self, paragraph: Element) -> Iterator[Block]:
        texts: list[str] = []
        beside: list[Block] = []
        self._inline(paragraph, texts, beside)
        text = self._begin + _BLANK_LINES.sub("\n", "".join(texts))
        self._begin = ""
        if _has_deleted_mark(paragraph) and (_is_before_another(paragraph) or not text.strip()):
            self._begin = text
            yield from (block for block in beside if block.text.strip())
            return
        text = text.strip()
        if _is_large_letter(paragraph):
            self._begin, text = text, ""
        number = self._number(paragraph)  # call it for empty paragraphs, too: they are counted
        if text:
            yield Block(number + text, self._level(paragraph))
        elif number and self._is_in_cell:  # a column of row numbers
            yield Block(number.strip())
        yield from (block for block in beside if block.text.strip())

    def _inline(self, parent: Element, texts: list[str], beside: list[Block]) -> None:
        """Appends text to `texts`, and blocks of text boxes and pictures to `beside`."""
        for child in children(parent):
            tag = local(child)
            if tag == "instrText" and self._fields and len(self._instructions[-1]) < LONGEST_INSTRUCTION:
                self._instructions[-1] += child.text or ""
            if tag in _SILENT or (tag == "r" and is_on(first(child, "rPr", "vanish"))):
                continue
            if tag == "fldChar":
                self._field(child, texts, beside)
            elif tag == "t":
                text = "" if any(self._fields) else child.text or ""
                texts.append(raised(text) if _is_raised(first(parent, "rPr")) else text)
            elif tag in _SIGNS:
                texts.append(_SIGNS[tag])
            elif tag == "sym":
                texts.append(_symbol(child))
            elif tag in ("oMath", "oMathPara"):
                texts.append(linear_formula(child))
            elif tag in _NOTES:
                self.notes.append((_NOTES[tag], attribute(child, "id")))
            elif tag in _DRAWINGS or tag in ("p", "tbl"):
                beside += self.blocks(child) if tag in _DRAWINGS else self.block(child)
            elif tag == "ruby":
                # The base text stays in the line; its pronunciation becomes a block after the paragraph.
                pronunciation: list[str] = []
                for name, into in (("rubyBase", texts), ("rt", pronunciation)):
                    if (element := first(child, name)) is not None:
                        self._inline(element, into, beside)
                beside.append(Block("".join(pronunciation)))
            else:
                self._inline(child, texts, beside)

    def _field(self, mark: Element, texts: list[str], beside: list[Block]) -> None:
        kind = attribute(mark, "fldCharType")
        if kind == "begin":
            self._fields.append(True)
            self._instructions.append("")
            texts.append(_form_value(first(mark, "ffData")))
        elif self._fields and kind == "separate":
            self._fields[-1] = False
        elif self._fields and kind == "end":
            instruction = self._instructions.pop()
            if self._fields.pop() and not any(self._fields):  # without a result
                text, reading = shown_instruction(instruction)
                texts.append(text)
                beside += [Block(reading)] if reading else []

    def _table(self, table: Element) -> Iterator[Block]:
        rows = [(row, list(_within(row, "tc"))) for row in _within(table, "tr") if first(row, "trPr", "del") is None]
        if all(len(cells) <= 1 for _, cells in rows):  # a frame around text
            for _, cells in rows:
                for cell in cells:
                    yield from self.blocks(cell)
            return
        was_in_cell, self._is_in_cell = self._is_in_cell, True
        grid = [[list(self.blocks(cell)) for cell in cells] for _, cells in rows]
        self._is_in_cell = was_in_cell
        flat = [cell for row in grid for cell in row]
        is_layout = any(block.level for cell in flat for block in cell) or any(
            sum(len(block.text) for block in cell) > _LONG_CELL for cell in grid[0]
        )
        if is_layout:  # cells hold chapters, or the first row is too long for column names
            for cell in flat:
                yield from cell
            return
        texts = [["\n".join(block.text for block in cell) for cell in row] for row in grid]
        filled = [(row, cells, text) for (row, cells), text in zip(rows, texts, strict=True)]
        yield from render_rows(_grid(filled), payloads=self._package.payloads)


def _grid(rows: list[tuple[Element, list[Element], list[str]]]) -> Iterator[list[str]]:
    """Yields rows of cell texts. A cell over several columns fills the first one, a cell over several rows each row."""
    above: dict[int, str] = {}
    for row, cells, texts in rows:
        grid = [""] * _count(attribute(first(row, "trPr", "gridBefore"), "val"), 0)
        for cell, text in zip(cells, texts, strict=True):
            properties = first(cell, "tcPr")
            span = _count(attribute(first(properties, "gridSpan"), "val"), 1)
            if attribute(cell, "hMerge") or attribute(first(properties, "hMerge"), "val") == "continue":
                grid.append(SPANNED)
                continue
            merge = first(properties, "vMerge")
            if attribute(cell, "vMerge") or (merge is not None and attribute(merge, "val") != "restart"):
                text = above.get(len(grid), "")
            above[len(grid)] = text
            grid += [text, *[SPANNED] * (span - 1)]
        yield grid


def _is_raised(properties: Element | None) -> bool:
    """Whether a run is a superscript, of Word or of PowerPoint."""
    if properties is None:
        return False
    baseline = attribute(properties, "baseline")
    return (baseline.isdecimal() and int(baseline) > 0) or attribute(
        first(properties, "vertAlign"), "val"
    ) == "superscript"


def _is_large_letter(paragraph: Element) -> bool:
    """Whether it is a frame of the large first letter of the next paragraph."""
    letter = attribute(first(paragraph, "pPr", "framePr"), "dropCap")
    return letter in ("drop", "margin") and _is_before_another(paragraph)


def _has_deleted_mark(paragraph: Element) -> bool:
    """Whether a tracked change deletes or moves its end, which joins it with the next paragraph."""
    return any(first(paragraph, "pPr", "rPr", change) is not None for change in ("del", "moveFrom"))


def _is_before_another(paragraph: Element) -> bool:
    after = next((each for each in paragraph.itersiblings() if local(each) not in _MARKS), None)
    return after is not None and local(after) == "p"


def _within(parent: Element, tag: str) -> Iterator[Element]:
    """Yields rows or cells, also from inside controls and tracked changes."""
    for child in children(parent):
        name = local(child)
        if name == tag:
            yield child
        elif name not in _SILENT and name not in ("tr", "tc"):
            yield from _within(child, tag)


def _count(text: str, default: int) -> int:
    return min(int(text), _MAX_SPAN) if text.isdecimal() else default


def _form_value(data: Element | None) -> str:
    """The shown value of a form field without text of its own: the chosen entry, or a check mark."""
    if (choices := first(data, "ddList")) is not None:
        entries = [attribute(entry, "val") for entry in choices.iterchildren("{*}listEntry")]
        chosen = _count(attribute(first(choices, "result"), "val") or attribute(first(choices, "default"), "val"), 0)
        return "".join(entries[chosen : chosen + 1])
    if (box := first(data, "checkBox")) is not None:
        checked = first(box, "checked")
        return "☒" if is_on(first(box, "default") if checked is None else checked) else "☐"
    return ""


def _symbol(element: Element) -> str:
    try:
        code = int(attribute(element, "char"), 16)
    except ValueError:
        return ""
    return shown_sign(code, attribute(element, "font"))
