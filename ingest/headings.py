"""Where in its document a chunk stands: the title, and the headings above it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from app.types.texts import Mark, Span
from ingest.titles import heading_text

MOST_HEADINGS = 2  # the nearest ones
MOST_CHARACTERS = 60  # of each


class HeadingPath:
    """Follows the headings of a text that comes in parts."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []  # level and text, from the outermost

    def place(self, part: str, spans: Iterable[Span], marks: Sequence[Mark]) -> Iterator[Span]:
        """The spans of the part with the headings above each. One that a span begins with is in its text already.

        Spans and marks count characters from the begin of the part.
        """
        headings = (mark for mark in marks if mark.is_heading)
        coming = next(headings, None)
        for span in spans:
            while coming and coming.start < span.start:
                self._enter(coming, part)
                coming = next(headings, None)
            own = coming.level if coming and coming.start == span.start else 7
            yield replace(span, headings=tuple(text for level, text in self._open if level < own))
        while coming:
            self._enter(coming, part)
            coming = next(headings, None)

    def _enter(self, heading: Mark, part: str) -> None:
        text = heading_text(part[heading.start : heading.end])
        self._open = [*(each for each in self._open if each[0] < heading.level), (heading.level, text)]


def context_of(title: str, headings: Sequence[str]) -> str:
    """As it is embedded before the text of a chunk, and shown above it; empty where nothing is known."""
    steps = (" ".join(each.split())[:MOST_CHARACTERS].strip() for each in (title, *headings[-MOST_HEADINGS:]))
    return " › ".join(dict.fromkeys(filter(None, steps)))
