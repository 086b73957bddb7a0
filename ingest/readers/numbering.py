"""Automatic numbers of lists and headings in Word, such as `2.1` or `Article III.`, and heading styles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingest.readers.opc import Element, attribute, first, is_on, local

_HEADING = re.compile(r"heading ([1-9])", re.I)
_LOWEST_LEVEL = 6
_MAX_STYLES = 10  # length of a chain of styles based on each other
_MAX_ROMAN = 4_000
_ROMAN = {1000: "M", 900: "CM", 500: "D", 400: "CD", 100: "C", 90: "XC", 50: "L", 40: "XL"}
_ROMAN |= {10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
_BULLET = "bullet"
_WITHOUT_NUMBERS = {_BULLET, "none"}  # the text of a level may hold the numbers of others


class Level(NamedTuple):
    start: int
    form: str  # one of Word's formats, such as `lowerRoman`
    text: str  # a template: %1 is the number of the outermost level
    is_legal: bool
    restart: int | None  # level, from 1, after which numbering restarts; 0: never; None: after any higher level

    def begins_after(self, depth: int) -> bool:
        return self.restart is None or depth < self.restart


class Styles:
    """The paragraph styles of a document, by id."""

    def __init__(self, root: Element | None) -> None:
        self._styles = (
            {} if root is None else {attribute(style, "styleId"): style for style in root.iterchildren("{*}style")}
        )
        self._default = next((key for key, style in self._styles.items() if _is_default(style)), "")
        self._levels: dict[str, int | None] = {}

    def level_of(self, paragraph: Element) -> int | None:
        """The heading level of a paragraph, from 1; None if it is no heading. The title of a document has level 1."""
        outline = attribute(first(paragraph, "pPr", "outlineLvl"), "val")
        if outline:
            return _level(outline)
        style = self.style_of(paragraph)
        if style not in self._levels:
            self._levels[style] = next(filter(None, map(_heading_level, self.line(style))), None)
        return self._levels[style]

    def style_of(self, paragraph: Element) -> str:
        return attribute(first(paragraph, "pPr", "pStyle"), "val") or self._default

    def line(self, style: str) -> list[Element]:
        """A style and its base styles, nearest first."""
        styles: list[Element] = []
        while style in self._styles and len(styles) < _MAX_STYLES:
            styles.append(self._styles[style])
            style = attribute(first(self._styles[style], "basedOn"), "val")
        return styles


class NumberedList(NamedTuple):
    """A list by its levels, from 0. Lists with the same `kind` count together; `restarted` levels begin anew in it."""

    kind: str
    levels: Mapping[int, Level]
    restarted: Sequence[int]


class ListCounts:
    """Counts the paragraphs of lists in the order of the document."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, int]] = {}
        self._started: set[str] = set()

    def label(self, identity: str, numbered: NumberedList, depth: int) -> str:
        """Counts a paragraph of the list `identity` and returns its label, such as `2.1 `; empty for bullets, and for
        a level that the list lacks."""
        levels = numbered.levels
        if depth not in levels:
            return ""
        counts = self._counts.setdefault(numbered.kind, {})
        if identity not in self._started:  # a further list of the same kind may restart levels
            self._started.add(identity)
            for restarted in numbered.restarted:
                counts.pop(restarted, None)
        counts[depth] = counts.get(depth, levels[depth].start - 1) + 1
        for deeper in [
            other for other in counts if other > depth and (other not in levels or levels[other].begins_after(depth))
        ]:
            del counts[deeper]
        level = levels[depth]
        if level.form == _BULLET:
            return ""

        def shown(match: re.Match[str]) -> str:
            at = int(match.group(1)) - 1
            if at not in levels:
                return ""
            value = counts.setdefault(at, levels[at].start)
            return formatted(value, "decimal" if level.is_legal else levels[at].form)

        label = re.sub(r"%([1-9])", shown, level.text).strip()
        return f"{label} " if label else ""


class Numbers:
    """Counts numbered paragraphs. Ask for each paragraph once, in order."""

    def __init__(self, root: Element | None, styles: Styles) -> None:
        self._styles = styles
        self._abstract: dict[str, Element] = {}
        self._lists: dict[str, Element] = {}
        for child in () if root is None else root.iterchildren("*"):
            if local(child) == "abstractNum":
                self._abstract[attribute(child, "abstractNumId")] = child
            elif local(child) == "num":
                self._lists[attribute(child, "numId")] = child
        self._numbered: dict[str, NumberedList] = {}
        self._counts = ListCounts()

    def before(self, paragraph: Element) -> str:
        """Counts this paragraph and returns the label shown before it, such as `2.1 `; empty for bullets and plain
        text."""
        if not self._lists:
            return ""
        number, depth = self._place(paragraph)
        if number not in self._lists:
            return ""
        if number not in self._numbered:
            self._numbered[number] = NumberedList(self._key(number), self._levels_of(number), self._restarts(number))
        return self._counts.label(number, self._numbered[number], depth)

    def _place(self, paragraph: Element) -> tuple[str, int]:
        """List id and depth of a paragraph, from its own properties or its style."""
        own = first(paragraph, "pPr", "numPr")
        number, depth = attribute(first(own, "numId"), "val"), attribute(first(own, "ilvl"), "val")
        style = self._styles.style_of(paragraph)
        if not number:
            for base in self._styles.line(style):
                inherited = first(base, "pPr", "numPr")
                number = attribute(first(inherited, "numId"), "val")
                depth = depth or attribute(first(inherited, "ilvl"), "val")
                if number:
                    depth = depth or self._depth_of_style(number, attribute(base, "styleId"))
                    break
        return number, int(depth) if depth.isdecimal() else 0

    def _depth_of_style(self, number: str, style: str) -> str:
        for level in () if (root := self._root_of(number)) is None else root.iterchildren("{*}lvl"):
            if attribute(first(level, "pStyle"), "val") == style:
                return attribute(level, "ilvl")
        return ""

    def _key(self, number: str) -> str:
        return attribute(first(self._lists.get(number), "abstractNumId"), "val")

    def _root_of(self, number: str) -> Element | None:
        root = self._abstract.get(self._key(number))
        link = attribute(first(root, "numStyleLink"), "val")
        if link:
            linked = (other for other in self._abstract.values() if attribute(first(other, "styleLink"), "val") == link)
            root = next(linked, root)
        return root

    def _restarts(self, number: str) -> list[int]:
        overrides = self._lists[number].iterchildren("{*}lvlOverride")
        depths = [
            attribute(override, "ilvl") or "0" for override in overrides if first(override, "startOverride") is not None
        ]
        return [int(depth) for depth in depths if depth.isdecimal()]

    def _levels_of(self, number: str) -> dict[int, Level]:
        root = self._root_of(number)
        by_depth = (
            {}
            if root is None
            else {attribute(level, "ilvl"): _read_level(level) for level in root.iterchildren("{*}lvl")}
        )
        for override in self._lists[number].iterchildren("{*}lvlOverride"):
            depth = attribute(override, "ilvl")
            if (own := first(override, "lvl")) is not None:
                by_depth[depth] = _read_level(own)
            start = attribute(first(override, "startOverride"), "val")
            if start.isdecimal() and depth in by_depth:
                by_depth[depth] = by_depth[depth]._replace(start=int(start))
        return {int(depth): level for depth, level in by_depth.items() if depth.isdecimal()}


def _read_level(element: Element) -> Level:
    start = attribute(first(element, "start"), "val")
    return Level(
        int(start) if start.isdecimal() else 0,
        attribute(first(element, "numFmt"), "val") or "decimal",
        attribute(first(element, "lvlText"), "val"),
        (legal := first(element, "isLgl")) is not None and is_on(legal),
        int(restart) if (restart := attribute(first(element, "lvlRestart"), "val")).isdecimal() else None,
    )


def _is_default(style: Element) -> bool:
    return attribute(style, "type") == "paragraph" and attribute(style, "default") in ("1", "true", "on")


def _heading_level(style: Element) -> int | None:
    name = attribute(first(style, "name"), "val")
    if name.lower() == "title":
        return 1
    if match := _HEADING.fullmatch(name):
        return min(int(match.group(1)), _LOWEST_LEVEL)
    return _level(attribute(first(style, "pPr", "outlineLvl"), "val"))


def _level(outline: str) -> int | None:
    """The heading level of an outline level, which counts from 0; 9 means body text."""
    return min(int(outline) + 1, _LOWEST_LEVEL) if outline.isdecimal() and int(outline) < 9 else None


def formatted(value: int, form: str) -> str:
    """A number in one of Word's formats, such as `lowerRoman`; empty for formats without numbers."""
    if form in _WITHOUT_NUMBERS or value < 0:
        return ""
    if form == "decimalZero":
        return f"{value:02}"
    if form == "ordinal":
        last = 0 if 10 < value % 100 < 14 else value % 10
        return f"{value}{('th', 'st', 'nd', 'rd')[last] if last < 4 else 'th'}"
    if form in ("lowerLetter", "upperLetter") and value:
        letters = chr(ord("a") + (value - 1) % 26) * min((value - 1) // 26 + 1, 10)
        return letters if form == "lowerLetter" else letters.upper()
    if form in ("lowerRoman", "upperRoman") and value < _MAX_ROMAN:
        letters = ""
        for number, sign in _ROMAN.items():
            letters += sign * (value // number)
            value %= number
        return letters if form == "upperRoman" else letters.lower()
    return str(value)


def list_number(form: str, value: int) -> str:
    """The label of a list item on a slide; `form` is for example `arabicPeriod` or `romanLcParenBoth`."""
    kinds = {"roman": "Roman", "alpha": "Letter"}
    kind = next((name for start, name in kinds.items() if form.startswith(start)), "")
    number = formatted(value, ("lower" if "Lc" in form else "upper") + kind) if kind else str(value)
    if form.endswith("ParenBoth"):
        return f"({number}) "
    return number + (") " if form.endswith("ParenR") else ". " if form.endswith("Period") else " ")
