"""Chooses the shown part of a passage and marks its best sentence."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from app.types.search import Highlight
from embedder.text.sentences import sentence_spans
from ui.render.markdown_signs import hidden_spans
from ui.render.text import clean

SNIPPET_CHARS = 420
CONTEXT_CHARS = 150


def mark_bounds(text: str, why: Highlight | None) -> tuple[int, int]:
    if why is None:
        return 0, 0
    start = min(max(why.start, 0), len(text))
    end = min(max(why.end, start), len(text))
    marked = text[start:end]
    return end - len(marked.lstrip()), start + len(marked.rstrip())


def snippet_window(text: str, start: int, end: int) -> tuple[int, int]:
    """A range of about SNIPPET_CHARS around the marked sentence. It starts at a sentence, and ends at one if that loses
    little text, else between words."""
    if len(text) <= SNIPPET_CHARS:
        return 0, len(text)
    first = max(0, start - CONTEXT_CHARS)
    last = min(len(text), max(end + CONTEXT_CHARS, first + SNIPPET_CHARS))
    sentences = sentence_spans(text)
    first = min((begin for begin, _ in sentences if first <= begin <= start), default=start) if first else 0
    ends = [stop for _, stop in sentences if end <= stop <= last and stop > last - CONTEXT_CHARS]
    space = text.rfind(" ", end, last)
    if last < len(text):
        last = max(ends) if ends else space if space > end else last
    return first, last


def without_title(text: str, title: str, start: int) -> int:
    """The offset after the first line if that line repeats the document title and is not marked, else 0."""
    line, _, rest = text.partition("\n")
    first = len(text) - len(rest.lstrip())
    is_title = bool(title) and " ".join(line.lstrip("# \t").split()) == " ".join(title.split())
    return first if is_title and rest.strip() and start >= first else 0


def render_marked(text: str, first: int, start: int, end: int, last: int, *, uri: str) -> Markup:
    """Hides the syntax that the format of the document `uri` has."""
    signs = tuple(hidden_spans(text, uri))
    before, marked, after = (_between(text, *each, signs) for each in ((first, start), (start, end), (end, last)))
    if not marked:
        return Markup("{}").format(clean(before + after))
    return Markup("{}<mark>{}</mark>{}").format(clean(before), clean(marked), clean(after))


def without_signs(text: str, start: int, end: int, *, uri: str) -> str:
    """text[start:end] without the syntax that the format of the document `uri` has."""
    return _between(text, start, end, tuple(hidden_spans(text, uri)))


def _between(text: str, start: int, end: int, signs: Sequence[tuple[int, int]]) -> str:
    kept, at = [], start
    for begin, stop in signs:
        if stop > at and begin < end:
            kept.append(text[at : max(at, begin)])
            at = min(stop, end)
    return "".join((*kept, text[at:end]))
