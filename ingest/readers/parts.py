"""A document's text on its way out of a reader: pieces of any size, cut into parts of bounded size.

Where a part ends depends on the text near that place alone, so that after an edit the parts, and so the chunks, are
soon the same as before. A text that fits one part is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.types.documents import ExtractedText, Metadata, TextPart
from ingest.splitter import CONTEXT, most_distinct

PART_CHARACTERS = 1_000_000
LONGEST_PART = PART_CHARACTERS + CONTEXT
# In the order of liking: after a blank line, a line, a sentence, a word.
_BREAKS = tuple(map(re.compile, (r"\n\s*\n\s*", r"\n", r"(?<=[.!?…])\s+|[。！？｡]+\s*", r"\s+")))


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    begins_page: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """What a reader knows of a document before it has read its text; the rest comes as it is asked for."""

    title: str
    metadata: Metadata
    pieces: Iterator[Piece]


def pieces_of(document: ExtractedText) -> Iterator[Piece]:
    starts = document.page_starts
    yield Piece(document.text[: starts[0] if starts else None])
    for number, start in enumerate(starts, start=1):
        yield Piece(document.text[start : starts[number] if number < len(starts) else None], begins_page=True)


def cut_parts(pieces: Iterable[Piece], size: int = PART_CHARACTERS) -> Iterator[TextPart]:
    """Parts of about `size` characters: cut in the last tenth of that, at a page, else at the best break there is."""
    held: list[str] = []
    length = begin = 0  # of what is held; `begin` counts characters of the whole text
    pages: list[int] = []
    for piece in pieces:
        if piece.begins_page:
            pages.append(begin + length)
        for low in range(0, len(piece.text), size):
            held.append(piece.text[low : low + size])
            length += len(held[-1])
            while length > size + CONTEXT:
                text = "".join(held)
                cut = _choose_cut(text, [page - begin for page in pages], size)
                yield TextPart(text[:cut], tuple(page for page in pages if page < begin + cut))
                pages = [page for page in pages if page >= begin + cut]
                held, length, begin = [text[cut:]], length - cut, begin + cut
    yield TextPart("".join(held), tuple(pages))


def _choose_cut(text: str, pages: Sequence[int], size: int) -> int:
    low = size - size // 10
    if found := most_distinct(text, (page for page in pages if low <= page <= size)):
        return found
    for pattern in _BREAKS:
        ends = (match.end() for match in pattern.finditer(text, low, size))
        if found := most_distinct(text, ends):
            return found
    return size
