"""Splits a document at sentence ends into overlapping chunks of a bounded number of the model's tokens.

Where a chunk ends depends only on the text nearby. So an edit changes only the chunks around it, and the rest of the
document need not be embedded again.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from app.ports.texts import TokenCounter
from app.types.texts import ExtractedText, Span
from embedder.text.sentences import sentence_spans

_FEWEST_TOKENS = 8  # one character can be four tokens of a byte-level tokenizer
# Bounds chunks of text that yields few tokens (unknown characters, long runs of spaces).
_CHARACTERS_PER_TOKEN = 16
_CHUNKS_PER_WINDOW = 64  # tokenised in one call
CONTEXT = 48  # characters on each side of a cut; their checksum chooses among equally good cuts
_WORD = re.compile(r"\S")
_CLAUSE_STARTS = re.compile(r"(?<=[,;:]\s)\S|(?<=[，；：、])\S")
_WORD_STARTS = re.compile(r"(?<=\s)\S")
_HEADING, _PARAGRAPH, _SENTENCE = range(3)


class TokenSplitter:
    """Splits a text into spans of at most `max_tokens` tokens, of which up to `overlap` repeat the end of the chunk
    before.

    With `whole_sentences`, the overlap starts at a sentence start or is left out, and a page end does not end a
    sentence. Raises ValueError for `max_tokens` below 8, or an `overlap` above half of it.
    """

    def __init__(
        self, counter: TokenCounter, *, max_tokens: int = 200, overlap: int = 30, whole_sentences: bool = False
    ) -> None:
        if max_tokens < _FEWEST_TOKENS:
            raise ValueError(f"max_tokens is {max_tokens}; it must be at least {_FEWEST_TOKENS}.")
        if not 0 <= overlap <= max_tokens // 2:
            raise ValueError(f"overlap is {overlap}; it must be from 0 to half of max_tokens ({max_tokens // 2}).")
        self._counter = _LastTokens(counter)
        self._max_tokens = max_tokens
        self._overlap = overlap
        self._whole_sentences = whole_sentences

    def __call__(self, document: ExtractedText) -> list[Span]:
        text = document.text
        breaks = _Breaks.of(text, pages=document.page_starts if self._whole_sentences else ())
        max_characters = self._max_tokens * _CHARACTERS_PER_TOKEN
        window = _Window([], 0)
        spans: list[Span] = []
        core = start = _next_word(text, 0)  # a chunk is text[start:end]; text[start:core] repeats the chunk before
        while core < len(text):
            if window.end < min(len(text), core + 2 * max_characters):
                window = _Window.of(self._counter, text, start, start + _CHUNKS_PER_WINDOW * max_characters)
            start, end = self._fit(text, breaks, window, start, core)
            span = _span(document, start, end)
            spans.append(replace(span, has_tokens=self.count_tokens(span.text) > 0))
            start = self._overlap_start(text, breaks, window, core, end)
            core = _next_word(text, end)
        return spans

    def count_tokens(self, text: str) -> int:
        return len(self._counter.token_offsets(text))

    def _fit(self, text: str, breaks: _Breaks, window: _Window, start: int, core: int) -> tuple[int, int]:
        """Chooses start and end of the chunk so that its text, tokenised on its own, has at most `max_tokens`
        tokens."""
        budget = self._max_tokens
        while True:
            begin, end = self._choose(text, breaks, window, start, core, budget)
            excess = self.count_tokens(text[begin:end].rstrip()) - self._max_tokens
            is_shortest = end - core <= 1
            if excess <= 0 or (is_shortest and begin == core):
                return begin, end
            if budget > 1 and not is_shortest:
                budget = max(1, budget - excess)
            elif start < core:  # the overlap alone has too many tokens: drop it
                start, budget = core, self._max_tokens
            else:
                return core, self._halve(text, core, end)

    def _halve(self, text: str, core: int, end: int) -> int:
        while end - core > 1 and self.count_tokens(text[core:end]) > self._max_tokens:
            end = core + (end - core) // 2
        return end

    def _choose(
        self, text: str, breaks: _Breaks, window: _Window, start: int, core: int, budget: int
    ) -> tuple[int, int]:
        """Start and end of the chunk: at a sentence end with the overlap, else without it, else inside a sentence."""
        for begin in dict.fromkeys((start, core)):
            limit = min(window.after(begin, budget), begin + self._max_tokens * _CHARACTERS_PER_TOKEN)
            if limit >= len(text):
                return begin, len(text)
            least = window.after(begin, budget // 2)
            # The last chunk of a document should not be tiny.
            ample = min(limit, window.back(window.end, budget // 4)) if window.end == len(text) else limit
            for low, high in ((least, ample), (least, limit), (window.after(core, budget // 8), least)):
                if end := breaks.best(text, max(low, core + 1), min(high, limit)):
                    return begin, end
        limit = min(window.after(start, budget), start + self._max_tokens * _CHARACTERS_PER_TOKEN)
        return start, self._cut_sentence(text, window, core, max(limit, core + 1))

    def _cut_sentence(self, text: str, window: _Window, core: int, limit: int) -> int:
        """A cut in (core, limit] inside a sentence too long for a chunk: at a clause, a word, a token, or anywhere."""
        low = core + max(1, (limit - core) // 2)
        for pattern in (_CLAUSE_STARTS, _WORD_STARTS):
            if cut := most_distinct(text, (match.start() for match in pattern.finditer(text, low, limit + 1))):
                return cut
        return most_distinct(text, window.token_starts(low, limit)) or limit

    def _overlap_start(self, text: str, breaks: _Breaks, window: _Window, core: int, end: int) -> int:
        """Where the chunk after `end` starts: at the first sentence within the overlap, else at the first word."""
        if not self._overlap or end >= len(text):
            return _next_word(text, end)
        earliest = max(window.back(end, self._overlap), end - self._overlap * _CHARACTERS_PER_TOKEN, core)
        start = breaks.first(earliest, end)
        if start is None and self._whole_sentences and breaks.first(end, end + 1) is not None:
            start = end
        elif start is None:
            match = _WORD_STARTS.search(text, earliest, end)
            tokens = window.token_starts(earliest, end - 1)
            start = match.start() if match else (tokens[0] if tokens else end)
        return _next_word(text, start)


class _LastTokens:
    """A `TokenCounter` that caches its last text. For a short text, three callers ask in a row: whether it is long
    enough for a section, where its tokens start, and whether they are too many."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._last: tuple[str, list[tuple[int, int]]] = ("", [])

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        last, offsets = self._last
        if text != last:
            offsets = self._counter.token_offsets(text)
            self._last = text, offsets
        return offsets


@dataclass(frozen=True, slots=True)
class _Breaks:
    """The starts of sentences in a text, ascending, and a rank for each: lower ranks are better places to cut."""

    positions: list[int]
    ranks: list[int]

    @classmethod
    def of(cls, text: str, *, pages: Sequence[int] = ()) -> _Breaks:
        """Finds them. The start of one of `pages` is not counted: sentences go on across pages."""
        begun = {_next_word(text, page) for page in pages}
        positions, ranks = [], []
        for (before, before_end), (start, _) in pairwise(sentence_spans(text)):
            if start in begun:
                continue
            positions.append(start)
            if text.startswith("#", start):
                ranks.append(_HEADING)
            elif text.startswith("#", before) or text.count("\n", before_end, start) < 2:
                ranks.append(_SENTENCE)  # right after a heading is a poor cut, too
            else:
                ranks.append(_PARAGRAPH)
        return cls(positions, ranks)

    def best(self, text: str, low: int, high: int) -> int | None:
        """The best-ranked break in [low, high]. Among equals the text around them decides."""
        first, last = bisect_left(self.positions, low), bisect_right(self.positions, high)
        best_rank = min(self.ranks[first:last], default=None)
        return most_distinct(text, (self.positions[i] for i in range(first, last) if self.ranks[i] == best_rank))

    def first(self, low: int, high: int) -> int | None:
        """The first break in [low, high)."""
        index = bisect_left(self.positions, low)
        return self.positions[index] if index < len(self.positions) and self.positions[index] < high else None


@dataclass(frozen=True, slots=True)
class _Window:
    """The token starts, as character positions, of a stretch of the text that ends at `end`."""

    starts: list[int]
    end: int

    @classmethod
    def of(cls, counter: TokenCounter, text: str, begin: int, end: int) -> _Window:
        end = min(end, len(text))
        return cls([begin + start for start, _ in counter.token_offsets(text[begin:end])], end)

    def after(self, position: int, count: int) -> int:
        """The end of the longest stretch from `position` that holds at most `count` tokens."""
        index = bisect_left(self.starts, position) + count
        return self.starts[index] if index < len(self.starts) else self.end

    def back(self, position: int, count: int) -> int:
        """The start of the longest stretch up to `position` that begins with a token and holds at most `count`."""
        index = bisect_left(self.starts, position)
        return self.starts[max(0, index - count)] if index and count else position

    def token_starts(self, low: int, high: int) -> Sequence[int]:
        return self.starts[bisect_left(self.starts, low) : bisect_right(self.starts, high)]


def most_distinct(text: str, positions: Iterable[int]) -> int | None:
    """Picks a position by a checksum of the text around it, so that the choice does not depend on where a search
    began."""

    def checksum(position: int) -> tuple[int, int]:
        around = text[max(0, position - CONTEXT) : position + CONTEXT]
        return zlib.crc32(around.encode("utf-8", errors="replace")), -position

    return min(positions, key=checksum, default=None)


def _next_word(text: str, position: int) -> int:
    match = _WORD.search(text, position)
    return match.start() if match else len(text)


def _span(document: ExtractedText, start: int, end: int) -> Span:
    text = document.text[start:end].rstrip()
    starts = document.page_starts
    page = page_of(starts, start)
    further = starts[bisect_right(starts, start) : bisect_left(starts, start + len(text))]
    return Span(text, start, start + len(text), page, page_starts=tuple(page_start - start for page_start in further))


def page_of(page_starts: Sequence[int], start: int) -> int | None:
    """The page, counted from 1, of the character at `start`; None without pages."""
    return max(1, bisect_right(page_starts, start)) if page_starts else None
