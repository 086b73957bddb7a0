"""Automatic numbers of lists and headings in OpenDocument, such as `2.1` or `c)` (OpenDocument 1.3, part 3, 5.3, 16.30
to 16.33 and 19.880)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ingest.readers.numbering import formatted
from ingest.readers.opc import Element, attribute, local

_FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_LEVELS = {"list-level-style-number", "outline-level-style"}
_HEADINGS = ""  # key of the style that numbers headings
_MAX_DEPTH = 10
_PLACES = re.compile(r"%([0-9]{1,2})%(\.(?=%))?")  # with the dot, which is dropped if the level has no number


class _Level(NamedTuple):
    start: int
    form: str  # empty: no number
    text: str  # a template: %1% is the number of the outermost level


@dataclass(slots=True)
class _List:
    """An open list of the walk."""

    style: str
    counts: dict[int, int]  # depth, from 1 → current number
    start: str = ""
    is_item_new: bool = False  # the first paragraph of the current item has not been reached


class ListNumbers:
    """Counts list items and headings. `roots` are parts with styles. The walk must report lists and items it enters."""

    def __init__(self, *roots: Element | None) -> None:
        self._styles: dict[str, dict[int, _Level]] = {}
        for root in roots:
            for style in () if root is None else root.iter("{*}list-style", "{*}outline-style"):
                name = _HEADINGS if local(style) == "outline-style" else attribute(style, "name")
                levels = {attribute(node, "level"): node for node in style.iterchildren("*") if local(node) in _LEVELS}
                self._styles[name] = {
                    int(key): _level(node, int(key)) for key, node in levels.items() if key.isdecimal()
                }
        self._open: list[_List] = []
        self._counts: dict[str, dict[int, int]] = {}  # counts of the last list of each style, and of each list id
        self._headings: dict[int, int] = {}

    def enter_list(self, element: Element) -> None:
        outer = self._open[-1] if self._open else None
        style = attribute(element, "style-name") or (outer.style if outer else "")
        counts = outer.counts if outer else self._continued(element, style)
        self._open.append(_List(style, counts))
        self._counts[f"style {style}"] = self._counts[f"id {attribute(element, 'id')}"] = counts

    def enter_item(self, element: Element) -> None:
        self._open[-1].is_item_new = local(element) == "list-item"
        self._open[-1].start = attribute(element, "start-value")

    def leave_list(self) -> None:
        self._open.pop()

    def before(self, paragraph: Element) -> str:
        """Counts this paragraph and returns its label; empty for bullets and for further paragraphs of an item."""
        if self._open:
            inner = self._open[-1]
            if not inner.is_item_new:
                return ""
            inner.is_item_new = False
            return self._counted(inner.style, inner.counts, len(self._open), inner.start)
        depth = attribute(paragraph, "outline-level") if local(paragraph) == "h" else ""
        if not depth.isdecimal() or attribute(paragraph, "is-list-header") == "true":
            return ""
        start = attribute(paragraph, "start-value") or (
            "1" if attribute(paragraph, "restart-numbering") == "true" else ""
        )
        return self._counted(_HEADINGS, self._headings, int(depth), start)

    def _continued(self, element: Element, style: str) -> dict[int, int]:
        if other := attribute(element, "continue-list"):
            return self._counts.get(f"id {other}", {})
        return self._counts.get(f"style {style}", {}) if attribute(element, "continue-numbering") == "true" else {}

    def _counted(self, style: str, counts: dict[int, int], depth: int, start: str) -> str:
        levels = self._styles.get(style, {})
        if depth not in levels or depth > _MAX_DEPTH:
            return ""
        counts[depth] = int(start) if start.isdecimal() else counts.get(depth, levels[depth].start - 1) + 1
        for deeper in [other for other in counts if other > depth]:
            del counts[deeper]

        def shown(match: re.Match[str]) -> str:
            at = int(match[1])
            if at not in levels or not levels[at].form:
                return ""
            return formatted(counts.setdefault(at, levels[at].start), levels[at].form) + (match[2] or "")

        label = _PLACES.sub(shown, levels[depth].text).strip() if levels[depth].form else ""
        return f"{label} " if label else ""


def _level(element: Element, depth: int) -> _Level:
    start = attribute(element, "start-value")
    own = attribute(element, "num-list-format")
    shown = attribute(element, "display-levels")
    first = max(1, depth - int(shown) + 1) if shown.isdecimal() else depth
    places = ".".join(f"%{at}%" for at in range(first, depth + 1))
    return _Level(
        int(start) if start.isdecimal() else 1,
        _FORMS.get(attribute(element, "num-format"), ""),
        own or f"{attribute(element, 'num-prefix')}{places}{attribute(element, 'num-suffix')}",
    )
