"""Flattens pages that are nested deeper than libxml2 parses: libxml2 drops all content after its limit.

Such pages come from generators that open an element per line and close none. Browsers stop nesting at 512 levels and
keep the text; so does this module.
"""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

from ingest.readers.html_blocks import BLOCKS, INVISIBLE

MAX_DEPTH = 512
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_CLOSED_BY_THE_NEXT = frozenset(["dd", "dt", "li", "option", "p", "td", "th", "tr"])


def flattened(markup: str) -> str:
    """The page without tags below the deepest level. A dropped block tag becomes a line break."""
    parser = _Flattening()
    parser.feed(markup)
    parser.close()
    return "".join(parser.parts)


class _Flattening(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self._open: list[str] = []
        self._left_out: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _CLOSED_BY_THE_NEXT and self._open and self._open[-1] == tag:
            self._open.pop()
        if tag in _VOID:
            self._keep_tag()
        elif len(self._open) < MAX_DEPTH or tag in INVISIBLE:  # dropping an invisible tag would show its content
            self._open.append(tag)
            self._keep_tag()
        else:
            self._left_out[tag] += 1
            self._end_line(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._keep_tag()

    def handle_endtag(self, tag: str) -> None:
        if self._left_out[tag]:
            self._left_out[tag] -= 1
            self._end_line(tag)
        elif tag in self._open:
            while self._open.pop() != tag:
                pass
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_entityref(self, name: str) -> None:
        self.parts.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.parts.append(f"&#{name};")

    def _keep_tag(self) -> None:
        self.parts.append(self.get_starttag_text() or "")

    def _end_line(self, tag: str) -> None:
        if tag in BLOCKS:
            self.parts.append("<br>")
