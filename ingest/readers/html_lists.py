"""The numbers that a browser shows before the items of an ordered list."""

from __future__ import annotations

import re

from lxml.html import HtmlElement

_PLAIN_STYLE = re.compile(
    r"list-style(?:-type)?\s*:[^;]*\bnone\b|display\s*:\s*(?:inline|flex|grid|block)", re.IGNORECASE
)
_ROMANS = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_MOST_ROMAN = 3_999


class ItemNumbers:
    """Counts the items of each list, in document order."""

    def __init__(self) -> None:
        self._next: dict[HtmlElement, int] = {}

    def before(self, item: HtmlElement) -> str:
        """The number of a list item, such as `3.` or `b.`; empty for an item of another list."""
        parent = item.getparent()
        if (
            parent is None
            or parent.tag != "ol"
            or any(_PLAIN_STYLE.search(node.get("style", "")) for node in (parent, item))
        ):
            return ""
        is_reversed = parent.get("reversed") is not None
        if parent not in self._next:
            count = sum(1 for _ in parent.iterchildren("li")) if is_reversed else 1
            self._next[parent] = _number(parent.get("start"), count)
        number = _number(item.get("value"), self._next[parent])
        self._next[parent] = number - 1 if is_reversed else number + 1
        return f"{_written(number, item.get('type') or parent.get('type', '1'))}."


def _number(text: str | None, default: int) -> int:
    text = (text or "").strip()
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else default


def _written(number: int, kind: str) -> str:
    if kind in ("a", "A") and number > 0:
        letters = ""
        while number:
            number, letter = divmod(number - 1, 26)
            letters = chr(ord(kind) + letter) + letters
        return letters
    if kind in ("i", "I") and 0 < number <= _MOST_ROMAN:
        roman = ""
        for value, sign in _ROMANS:
            roman += number // value * sign
            number %= value
        return roman.upper() if kind == "I" else roman
    return str(number)
