"""The position of a chunk in its document as text: the title and the headings above the chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from app.types.texts import Mark, Span
from ingest.titles import heading_text

MOST_HEADINGS = 2  # the innermost ones
MOST_CHARACTERS = 60  # per title or heading


class HeadingPath:
    """Tracks the open headings of a text that arrives in parts."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []  # level and text, from the outermost

    def place(self, part: str, spans: Iterable[Span], marks: Sequence[Mark]) -> Iterator[Span]:
        """Yields the spans of `part`, each with the headings above it. A heading that starts a span is in its text
        already.

        Offsets of spans and marks count from the start of `part`. Call it once per part, in order, and exhaust it.
        """
        headings = (mark for mark in marks if mark.is_heading)
        following = next(headings, None)
        for span in spans:
            while following and following.start < span.start:
                self._enter(following, part)
                following = next(headings, None)
            own = following.level if following and following.start == span.start else 7
            yield replace(span, headings=tuple(text for level, text in self._open if level < own))
        while following:
            self._enter(following, part)
            following = next(headings, None)

    def _enter(self, heading: Mark, part: str) -> None:
        text = heading_text(part[heading.start : heading.end])
        self._open = [*((level, title) for level, title in self._open if level < heading.level), (heading.level, text)]


def context_of(title: str, headings: Sequence[str]) -> str:
    """The context that is embedded before the text of a chunk and shown above it: `Title › Heading › Subheading`.

    Each step is cut to 60 characters. Empty without title and headings.
    """
    steps = (" ".join(step.split())[:MOST_CHARACTERS].strip() for step in (title, *headings[-MOST_HEADINGS:]))
    return " › ".join(dict.fromkeys(filter(None, steps)))
