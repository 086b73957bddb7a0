"""What of a passage is shown, and the sentence in it by which it was found."""

from __future__ import annotations

from markupsafe import Markup

from app.search.sentences import sentence_spans
from app.types.search import Highlight
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
    """A stretch of about SNIPPET_CHARS around the marked sentence. It begins with a sentence, and ends with one where
    that leaves out little, else between words."""
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


def render_marked(text: str, first: int, start: int, end: int, last: int) -> Markup:
    before, marked, after = text[first:start], text[start:end], text[end:last]
    if not marked:
        return Markup("{}").format(clean(before + after))
    return Markup("{}<mark>{}</mark>{}").format(clean(before), clean(marked), clean(after))
