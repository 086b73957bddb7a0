"""Rich Text Format 1.9.1: paragraphs, headings, tables, notes, comments, text boxes, headers and footers.

List numbers are stored in the file as text. Of a field, the shown result is parsed, or what its code says without one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.field_instructions import shown_instruction
from ingest.readers.grids import SPANNED, render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import RTF
from ingest.readers.package import iso_date
from ingest.readers.parts import Block
from ingest.readers.rtf_tokens import Token, code_page, code_page_of_font, tokens
from ingest.readers.tables import join_blocks
from ingest.readers.text import raised

_TEXTS = {"tab": "\t", "line": "\n", "lbr": "\n", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’"}
_TEXTS |= {"ldblquote": "“", "rdblquote": "”", "bullet": "•", "emspace": " ", "enspace": " ", "qmspace": " "}
_SIGNS = {"~": " ", "_": "-", "\n": "\n", "\r": "\n"}  # others, such as the soft hyphen, have no text
_PARAGRAPH_ENDS = {"par", "sect", "page", "column"}
_MARGINS = {f"{name}{side}": name for name in ("header", "footer") for side in ("", "l", "r", "f")}
_NOTES = {"footnote": "Footnote", "annotation": "Comment"}
_BOXES = {"shptxt", "dptxbxtext"}
_NUMBERS = {"listtext", "pntext"}  # numbers or bullets of list items
_INFO = {"title", "author", "creatim", "revtim"}
_PROPERTY = {"sn", "sv"}  # name and value of a property of a shape or picture
_ALTERNATIVE_TEXT = "wzDescription"
_DRAWN_TEXT = "gtextUNICODE"  # WordArt
_FORM = {"formfield", "ffl", "ffdeftext"}  # a form field, the entries of its list, and its first text
_CHECKBOX, _LIST = 1, 2  # kinds of form fields
_UNCHANGED = 25  # the result of a form field that still has its default
# Groups whose content is never shown. Groups that begin with \* are skipped, too, unless in _SEEN_STARRED.
_UNSEEN = {"colortbl", "filetbl", "stylesheet", "pict", "objdata", "objclass", "objname", "nonshppict", "shprslt"}
_UNSEEN |= {"fldinst", "xe", "tc", "rxe", "bkmkstart", "bkmkend", "pntxta", "pntxtb", "listtable", "info"}
_UNSEEN |= {
    "sp",
    "sn",
    "sv",
    "listoverridetable",
    "revtbl",
    "rsidtbl",
    "generator",
    "themedata",
    "datafield",
    "mmathPict",
    "private",
}
_SEEN_STARRED = {"shpinst", "annotation", "atnauthor", "ud", "moMath", "moMathPara", "oMath", "oMathPara", "do"}
_SEEN_STARRED |= {"footnote", "nesttableprops", "shptxt"}
_READ = {
    "fldinst",
    "ffl",
    "atnauthor",
    "fonttbl",
    "stylesheet",
    *_INFO,
    *_PROPERTY,
}  # parsed, but not text of the document
_LOWEST_LEVEL = 6
_MAX_DEPTH = 8  # of nested tables
_SAME_EDGE = 60  # twips
_MAX_COLUMNS = 1_000


@dataclass(slots=True)
class _State:
    """The state that a group inherits and restores at its end."""

    page: str
    flow: _Flow
    destination: str = ""
    is_silent: bool = False
    is_hidden: bool = False
    is_deleted: bool = False  # by a tracked change
    is_raised: bool = False
    skipped_after_unicode: int = 1
    level: int | None = None  # of a heading
    depth: int = 0  # of the table around the paragraph; 0: none


@dataclass(slots=True)
class _Row:
    cells: list[str] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)  # right edges, in twips
    merges: list[str] = field(default_factory=list)  # per cell: merged with the one "left" or "above", or ""


@dataclass(slots=True)
class _Flow:
    """A separate text: the body, a note, a header, or a text box."""

    blocks: list[Block] = field(default_factory=list)
    beside: list[Block] = field(default_factory=list)  # notes and boxes anchored in the current paragraph
    texts: list[str] = field(default_factory=list)
    tables: dict[int, list[_Row]] = field(default_factory=dict)
    rows: dict[int, _Row] = field(default_factory=dict)
    cell: dict[int, list[str]] = field(default_factory=dict)  # depth → paragraphs of the open cell

    def end_paragraph(self, depth: int = 0, level: int | None = None) -> None:
        text = "".join(self.texts).strip()
        self.texts.clear()
        self._close_tables(depth)
        if depth:
            self.cell.setdefault(depth, []).append(text)
        else:
            if text:
                self.blocks.append(Block(text, level))
            self.blocks += self.beside
            self.beside = []

    def end_cell(self, depth: int) -> None:
        self.end_paragraph(depth)
        row = self.rows.setdefault(depth, _Row())
        row.cells.append("\n".join(filter(None, self.cell.pop(depth, []))))

    def end_row(self, depth: int) -> None:
        row = self.rows.pop(depth, None)
        if row is None or not row.cells:
            return
        self.tables.setdefault(depth, []).append(row)
        self.rows[depth] = _Row(edges=row.edges, merges=row.merges)  # a row definition holds until the next one

    def end(self, depth: int = 0, level: int | None = None) -> list[Block]:
        self.end_paragraph(depth, level)
        self.end_paragraph()
        return self.blocks

    def _close_tables(self, depth: int) -> None:
        """Ends tables deeper than the current paragraph, with their open cells and rows."""
        for inner in sorted({key for key in (*self.tables, *self.rows, *self.cell) if key > depth}, reverse=True):
            if any(self.cell.get(inner, ())):
                row = self.rows.setdefault(inner, _Row())
                row.cells.append("\n".join(filter(None, self.cell[inner])))
            self.cell.pop(inner, None)
            self.end_row(inner)
            self.rows.pop(inner, None)
            rendered = list(render_rows(_grid(self.tables.pop(inner, []))))
            if inner > 1:
                self.cell.setdefault(inner - 1, []).extend(block.text for block in rendered)
            else:
                self.blocks += rendered


class _Reader:
    def __init__(self) -> None:
        self.body, self.margins = _Flow(), {"header": list[Block](), "footer": list[Block]()}
        self.metadata: dict[str, MetadataValue] = {}
        self.title = ""
        self._levels: dict[int, int] = {}  # number of a heading style → level
        self._fonts: dict[int, str] = {}
        self._default_font = 0
        self._state = _State("cp1252", self.body)
        self._outer: list[_State] = []
        self._page = "cp1252"  # code page of the document
        self._pending: list[bytes] = []  # bytes not decoded yet: a character may take two
        self._to_skip = 0
        self._author = self._property = ""
        self._aside: list[str] = []  # text of a destination in _READ
        self._numbers: dict[str, int] = {}  # the last number of a font, a style, or parts of a date
        self._entries: list[str] = []  # of the list of a form field
        self._field = 0  # number of groups around the innermost field
        self._value = ""  # of a form field, until its field ends or has text
        self._is_new = self._is_starred = False

    def read(self, data: bytes) -> None:
        for token in tokens(data):
            if token.kind == "bytes":
                self._take(token)
                continue
            self._write()
            if token.kind == "{":
                self._outer.append(replace(self._state))
                self._is_new, self._is_starred, self._to_skip = True, False, 0
            elif token.kind == "}":
                self._leave()
            elif token.kind == "sign":
                self._sign(token.word)
            else:
                self._word(token.word, token.number)
        self._write()
        while self._outer:  # the file is truncated
            self._leave()
        self.body.end(self._state.depth, self._state.level)

    def _take(self, token: Token) -> None:
        data = token.data
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        self._is_new = False
        if not self._state.is_silent or self._state.destination in _READ:
            self._pending.append(data)

    def _write(self) -> None:
        if self._pending:
            text = b"".join(self._pending).decode(self._state.page, "replace")
            self._pending.clear()
            self._add(text)

    def _add(self, text: str) -> None:
        state = self._state
        if state.destination not in _READ and not state.is_silent and not state.is_hidden:
            state.flow.texts.append(raised(text) if state.is_raised else text)
            self._value = "" if text.strip() else self._value
        elif state.destination in _READ:
            self._aside.append(text)
            if state.destination == "stylesheet" and ";" in text:
                self._name_style("".join(self._aside))
                self._aside.clear()

    def _leave(self) -> None:
        if not self._outer:
            return
        state, self._state = self._state, self._outer.pop()
        self._is_new, self._to_skip = False, 0
        if state.destination in _READ and self._state.destination != state.destination:
            self._take_aside(state, " ".join(_joined("".join(self._aside)).split()))
            self._aside.clear()
        if state.destination in ("creatim", "revtim") and self._state.destination != state.destination:
            year, month, day = (self._numbers.get(name, 1) for name in ("yr", "mo", "dy"))
            if date := iso_date(f"{year:04}-{month:02}-{day:02}"):
                self.metadata["created" if state.destination == "creatim" else "modified"] = date
        if state.destination == "formfield" and self._state.destination != state.destination:
            self._value = self._form_value()
        if self._value and len(self._outer) <= self._field:
            self._state.flow.texts.append(self._value)
            self._value = ""
        if state.flow is not self._state.flow:
            self._end_flow(state.destination, state.flow.end(state.depth, state.level))

    def _take_aside(self, state: _State, text: str) -> None:
        if state.destination == "sn":
            self._property = text
        elif state.destination == "sv" and self._property == _ALTERNATIVE_TEXT and text:
            state.flow.beside.append(Block(f"Picture: {text}"))
        elif state.destination == "sv" and self._property == _DRAWN_TEXT and text:
            state.flow.beside.append(Block(text))
        elif state.destination == "fldinst":
            shown, reading = shown_instruction(text)
            self._value = shown or self._value
            state.flow.beside += [Block(reading)] if reading else []
        elif state.destination == "ffl":
            self._entries.append(text)
        elif state.destination == "atnauthor":
            self._author = text
        elif state.destination == "title":
            self.title = self.title or text
        elif state.destination == "author" and text:
            self.metadata.setdefault("author", text)
        elif state.destination == "fonttbl":  # text before the first \f uses the default font
            self._state.page = self._fonts.get(self._default_font, self._page)

    def _form_value(self) -> str:
        """What a form field shows that has no text: the chosen entry of a list, or a check mark."""
        kind, chosen = self._numbers.get("fftype", 0), self._numbers.get("ffres", _UNCHANGED)
        if chosen == _UNCHANGED:
            chosen = self._numbers.get("ffdefres", 0)
        if kind == _CHECKBOX:
            return "☒" if chosen else "☐"
        return "".join(self._entries[chosen : chosen + 1]) if kind == _LIST else ""

    def _end_flow(self, destination: str, blocks: list[Block]) -> None:
        if destination in _MARGINS:
            self.margins[_MARGINS[destination]] += blocks
        elif destination in _BOXES:
            self._state.flow.beside += blocks
        elif not (text := "\n".join(block.text for block in blocks)):
            return
        elif destination in _NUMBERS:
            self._state.flow.texts += [text, " "] if any(map(str.isalnum, text)) else []
        else:
            kind = _NOTES.get(destination, "Endnote")
            by = f" by {self._author}" if kind == "Comment" and self._author else ""
            self._state.flow.beside.append(Block(f"{kind}{by}: {text}"))

    def _sign(self, sign: str) -> None:
        if sign == "*":
            self._is_starred = self._is_new
            return
        self._is_new = False
        if self._to_skip:
            self._to_skip -= 1
        elif sign in "\r\n":
            self._word("par", None)
        elif sign in "\\{}":
            self._add(sign)
        else:
            self._add(_SIGNS.get(sign, ""))

    def _word(self, word: str, number: int | None) -> None:
        is_first, self._is_new = self._is_new, False
        if self._to_skip:
            self._to_skip -= 1
            return
        state = self._state
        if is_first and self._enter(word):
            return
        if is_first and word == "field":
            self._field = len(self._outer) - 1
        if word == "u":
            code = (number or 0) % 65_536
            self._unicode(code)
            self._to_skip = state.skipped_after_unicode
        elif word == "uc":
            state.skipped_after_unicode = max(number or 0, 0)
        elif word in ("ansi", "mac", "pc", "pca", "ansicpg"):
            self._page = state.page = code_page(word, number)
        elif state.destination == "fonttbl":
            self._font_table(word, number)
        elif word in ("deff", "f", "af"):
            self._font(word, number)
        elif word in ("super", "up"):
            state.is_raised = number != 0
        elif word in ("nosupersub", "sub"):
            state.is_raised = False
        elif word == "plain":
            state.is_hidden = state.is_deleted = state.is_raised = False
            state.page = self._fonts.get(self._default_font, self._page)
        elif word in ("v", "deleted", "htmlrtf"):  # htmlrtf: for programs that cannot show HTML
            state.is_hidden = number != 0
            state.is_deleted = state.is_hidden and word == "deleted"
        elif word == "ftnalt":
            state.destination = "endnote"
        elif state.destination == "stylesheet" and word in ("s", "cs", "ds"):
            self._numbers["style"] = number or 0 if word == "s" else -1
        elif word in ("yr", "mo", "dy", "fftype", "ffres", "ffdefres"):
            self._numbers[word] = number or 0
        elif not state.is_silent and not (state.is_deleted and word == "par"):
            self._layout(word, number)

    def _enter(self, word: str) -> bool:
        """Enters a group by its first word. True if the word names a destination, so that it is done with."""
        state, is_starred = self._state, self._is_starred
        self._is_starred = False
        if word in _PROPERTY or word in _FORM:
            state.destination, state.is_silent = word, True
            if word == "formfield":
                self._entries = []
                self._numbers |= {"fftype": 0, "ffres": _UNCHANGED, "ffdefres": 0}
        elif word == "ud" and state.destination == "upr":  # the same content again, in Unicode
            before = self._outer[-2]
            state.destination, state.is_silent = before.destination, before.is_silent
        elif word == "upr":
            state.destination, state.is_silent = word, True
        elif word in ("stylesheet", "fonttbl") or (word in _INFO and state.destination == "info"):
            state.destination, state.is_silent = word, word != "fonttbl"
        elif word in _UNSEEN:
            state.destination, state.is_silent = word, True
        elif state.is_silent:
            return False
        elif is_starred and word not in _SEEN_STARRED:
            state.destination, state.is_silent = word, True
        elif word in _MARGINS or word in _NOTES or word in _BOXES or word in _NUMBERS:
            state.destination, state.flow, state.is_hidden = word, _Flow(), False
            state.depth, state.level = 0, None
        elif word == "atnauthor":
            state.destination = word
        else:
            return False
        return True

    def _font_table(self, word: str, number: int | None) -> None:
        if word == "f":
            self._numbers["font"] = number or 0
        elif word == "fcharset" and (page := code_page_of_font(number or 0)):
            self._fonts[self._numbers.get("font", 0)] = page
        elif word == "cpg":
            self._fonts[self._numbers.get("font", 0)] = code_page("ansicpg", number)

    def _font(self, word: str, number: int | None) -> None:
        if word == "deff":
            self._default_font = number or 0
        elif word == "f":
            self._state.page = self._fonts.get(number or 0, self._page)

    def _name_style(self, text: str) -> None:
        name = text.partition(";")[0].strip().lower()
        kind, _, level = name.rpartition(" ")
        style = self._numbers.get("style", 0)
        if kind == "heading" and level.isdecimal():
            self._levels[style] = min(max(int(level), 1), _LOWEST_LEVEL)
        elif name == "title":
            self._levels[style] = 1

    def _unicode(self, code: int) -> None:
        """Adds a UTF-16 code unit. `_joined` combines surrogate pairs later."""
        self._add(chr(code - 0xF000 if 0xF020 <= code <= 0xF0FF else code))

    def _layout(self, word: str, number: int | None) -> None:
        state, flow = self._state, self._state.flow
        if word in _TEXTS:
            self._add(_TEXTS[word])
        elif word in _PARAGRAPH_ENDS:
            flow.end_paragraph(state.depth, state.level)
        elif word == "pard":
            state.level, state.depth = None, 0
        elif word == "s":
            state.level = self._levels.get(number or 0)
        elif word == "outlinelevel":
            state.level = min((number or 0) + 1, _LOWEST_LEVEL) if (number or 0) < 9 else None
        elif word == "intbl":
            state.depth = max(state.depth, 1)
        elif word == "itap":
            state.depth = min(max(number or 0, 0), _MAX_DEPTH)
        elif word == "cell":
            flow.end_cell(1)
        elif word == "nestcell":
            flow.end_cell(max(state.depth, 2))
        elif word in ("row", "nestrow"):
            flow.end_row(1 if word == "row" else max(state.depth, 2))
        else:
            self._row(word, number)

    def _row(self, word: str, number: int | None) -> None:
        flow = self._state.flow
        depth = max(self._state.depth, 1)
        if word == "trowd":
            row = flow.rows.setdefault(depth, _Row())
            row.edges, row.merges = [], [""]
        elif word in ("clmrg", "clvmrg", "cellx") and depth in flow.rows:
            row = flow.rows[depth]
            if word == "cellx":
                row.edges.append(number or 0)
                row.merges.append("")
            elif row.merges:
                row.merges[-1] = "left" if word == "clmrg" else "above"


def read_rtf(data: bytes, limits: ReadLimits) -> ExtractedText:
    """The text with headers first and footers last. Damaged files are parsed as far as possible."""
    reader = _Reader()
    reader.read(data)
    blocks = list(_without_repeats(reader.margins["header"]))
    blocks += [*reader.body.blocks, *_without_repeats(reader.margins["footer"])]
    whole = [Block(_joined(block.text), block.level, block.cells) for block in blocks]
    text, marks, cells = join_blocks(whole, limits)
    title = next((block.text for block in whole if block.level), "") or reader.title
    return ExtractedText(text, title, RTF, reader.metadata, marks=marks, cells=cells)


def _without_repeats(blocks: list[Block]) -> Iterator[Block]:
    """The distinct blocks: headers and footers of sections are mostly equal."""
    return map(Block, dict.fromkeys(block.text for block in blocks if block.text))


def _joined(text: str) -> str:
    """Combines surrogate pairs, which encode characters beyond the first 65,536."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _grid(rows: list[_Row]) -> list[list[str]]:
    """The cells of a table on common columns: a cell may span several columns of another row."""
    edges = sorted({edge for row in rows for edge in row.edges[: len(row.cells)]})
    columns = [edge for at, edge in enumerate(edges) if not at or edge - edges[at - 1] > _SAME_EDGE]
    has_spans = len({len(row.cells) for row in rows}) > 1
    grid: list[list[str]] = []
    for row in rows:
        cells: list[str] = []
        for number, text in enumerate(row.cells):
            merge = row.merges[number] if number < len(row.merges) else ""
            if merge == "above" and grid and len(cells) < len(grid[-1]):
                text = text or grid[-1][len(cells)]
            cells.append(SPANNED if merge == "left" and cells and not text else text)
            if has_spans and number < len(row.edges):
                end = min(bisect_right(columns, row.edges[number] + _SAME_EDGE), _MAX_COLUMNS)
                cells += [SPANNED] * (end - len(cells))
        grid.append(cells)
    return grid
