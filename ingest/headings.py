"""Where in its document a chunk stands: the title, and the headings above it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from app.types.documents import Span

MOST_HEADINGS = 2  # the nearest ones
MOST_CHARACTERS = 60  # of each
_HEADING = re.compile(
    r"^[ ]{0,3}(?:(?P<fence>```|~~~)|(?P<level>#{1,6})[ \t]+(?P<text>.*[^\s#])[ \t#]*$)", re.MULTILINE
)


class HeadingPath:
    """Follows the Markdown headings of a text that comes in parts. Lines of code blocks are none."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []  # level and text, from the outermost
        self._is_code = False

    def place(self, part: str, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans of the part with the headings above each. One that a span begins with is in its text already."""
        headings = self._headings_of(part)
        coming = next(headings, None)
        for span in spans:
            while coming and coming[0] < span.start:
                self._enter(*coming[1:])
                coming = next(headings, None)
            own = coming[1] if coming and coming[0] == span.start else 7
            yield replace(span, headings=tuple(text for level, text in self._open if level < own))
        while coming:
            self._enter(*coming[1:])
            coming = next(headings, None)

    def _enter(self, level: int, text: str) -> None:
        self._open = [*(each for each in self._open if each[0] < level), (level, text)]

    def _headings_of(self, part: str) -> Iterator[tuple[int, int, str]]:
        """Character, level and text of each."""
        for found in _HEADING.finditer(part):
            if found["fence"]:
                self._is_code = not self._is_code
            elif not self._is_code:
                yield found.start(), len(found["level"]), found["text"]


def context_of(title: str, headings: Sequence[str]) -> str:
    """As it is embedded before the text of a chunk, and shown above it; empty where nothing is known."""
    steps = (" ".join(each.split())[:MOST_CHARACTERS].strip() for each in (title, *headings[-MOST_HEADINGS:]))
    return " › ".join(dict.fromkeys(filter(None, steps)))
