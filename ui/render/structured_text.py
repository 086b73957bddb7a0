"""HTML of a document's text with headings and tables, and a marked passage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from app.types.texts import NAVIGATION, ROW, Cell, Mark, TextLayout
from ui.render.text import clean, join

_DEEPEST = 6  # heading level in HTML; the dialog's title has level 2
_SIGNS = re.compile(r"\A\s*#{1,6}[ \t]+")
_MOST_COLUMNS = 200


class Marked(NamedTuple):
    """Character range [start, end) of the passage; `sentence` is the range of its best sentence."""

    start: int
    end: int
    sentence: tuple[int, int] = (0, 0)


class StructuredText:
    """Renders characters [begin, end) of a document; `text` starts at its character `offset`."""

    def __init__(self, text: str, offset: int, layout: TextLayout, passage: Marked) -> None:
        self._text = text
        self._offset = offset
        self._layout = layout
        self._passage = passage
        self._has_passage = self._has_sentence = False
        self._level = 2

    def render(self, begin: int, end: int) -> Markup:
        return join(self._blocks(begin, end))

    def _blocks(self, begin: int, end: int) -> Iterator[Markup]:
        at = begin
        for is_table, group in groupby(self._runs(begin, end), key=lambda mark: mark.level == ROW):
            for marks in self._tables(list(group)) if is_table else ([mark] for mark in group):
                yield self._prose(at, marks[0].start)
                yield self._table(marks) if is_table else self._heading(marks[0])
                at = marks[-1].end
        yield self._prose(at, end)

    def _runs(self, begin: int, end: int) -> Iterator[Mark]:
        """Marks clipped to the range."""
        for mark in self._layout.marks:
            start, stop = max(mark.start, begin), min(mark.end, end)
            if start < stop and mark.level != NAVIGATION:
                yield Mark(start, stop, mark.level)

    def _tables(self, rows: Sequence[Mark]) -> Iterator[list[Mark]]:
        """Groups of rows separated only by whitespace."""
        table: list[Mark] = []
        for row in rows:
            if table and self._between(table[-1].end, row.start).strip():
                yield table
                table = []
            table.append(row)
        yield table

    def _between(self, start: int, end: int) -> str:
        return self._text[max(0, start - self._offset) : max(0, end - self._offset)]

    def _prose(self, start: int, end: int) -> Markup:
        text = self._between(start, end)
        if not text.strip():
            return Markup("")
        lead = len(text) - len(text.lstrip("\n")) if self._layout.marks else 0
        trail = len(text) - len(text.rstrip("\n")) if self._layout.marks else 0
        return self._marked(start + lead, end - trail)

    def _heading(self, mark: Mark) -> Markup:
        found = _SIGNS.match(self._between(mark.start, mark.end))
        self._level = min(mark.level + 2, self._level + 1, _DEEPEST)
        return Markup('<h{0} class="text-heading">{1}</h{0}>').format(
            self._level, self._marked(mark.start + (found.end() if found else 0), mark.end)
        )

    def _table(self, rows: Sequence[Mark]) -> Markup:
        columns: dict[tuple[int, str], None] = {}
        filled = [self._row(row) for row in rows]
        for cells in filled:
            columns.update(dict.fromkeys(cells))
        names = list(columns)[:_MOST_COLUMNS]
        if not names:
            return join(Markup('<p class="text-row">{}</p>').format(self._marked(row.start, row.end)) for row in rows)
        names.sort(key=lambda name: name[0])
        head = join(Markup('<th scope="col">{}</th>').format(clean(name)) for _, name in names)
        body = join(self._render_row(row, cells, names) for row, cells in zip(rows, filled, strict=True))
        return Markup(
            '<div class="text-table" tabindex="0"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
        ).format(head, body)

    def _row(self, row: Mark) -> dict[tuple[int, str], list[Cell]]:
        """Cell values by column number and name."""
        found: dict[tuple[int, str], list[Cell]] = {}
        for cell in self._layout.cells:
            if row.start <= cell.start and cell.end <= row.end:
                name = self._between(cell.start, cell.value).removesuffix(": ")
                found.setdefault((cell.column, name), []).append(cell)
        return found

    def _render_row(
        self, row: Mark, cells: dict[tuple[int, str], list[Cell]], names: Sequence[tuple[int, str]]
    ) -> Markup:
        if not cells:
            whole = self._marked(row.start, row.end)
            return Markup('<tr><td colspan="{}">{}</td></tr>').format(len(names), whole)
        is_passage = row.start < self._passage.end and row.end > self._passage.start
        values = join(
            Markup("<td>{}</td>").format(
                Markup(" ").join(self._marked(cell.value, cell.end) for cell in cells.get(name, ()))
            )
            for name in names
        )
        return Markup("<tr{}>{}</tr>").format(Markup(' class="is-passage"') if is_passage else "", values)

    def _marked(self, start: int, end: int) -> Markup:
        low = min(max(self._passage.start, start), end)
        high = min(max(self._passage.end, low), end)
        if low >= high:
            return Markup("{}").format(clean(self._between(start, end)))
        place = Markup("") if self._has_passage else Markup(' id="passage"')
        self._has_passage = True
        inner = self._with_sentence(low, high)
        before, after = clean(self._between(start, low)), clean(self._between(high, end))
        return Markup("{}<mark{}>{}</mark>{}").format(before, place, inner, after)

    def _with_sentence(self, start: int, end: int) -> Markup:
        low = min(max(self._passage.sentence[0], start), end)
        high = min(max(self._passage.sentence[1], low), end)
        if low >= high:
            return Markup("{}").format(clean(self._between(start, end)))
        place = Markup("") if self._has_sentence else Markup(' id="sentence"')
        self._has_sentence = True
        return Markup("{}<strong{}>{}</strong>{}").format(
            clean(self._between(start, low)), place, clean(self._between(low, high)), clean(self._between(high, end))
        )
