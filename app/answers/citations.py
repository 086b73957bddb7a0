"""Splits a generated answer into sentences with citations while the model still writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from embedder.text.sentences import sentence_spans

# [1], [1, 2], [1-3], [passage 2], 【1】: models write all of these, whatever the prompt asks for.
_NUMBERS = r"(?:passages?\s*)?\d{1,4}(?:\s*(?:,|;|and|-|–)\s*(?:passages?\s*)?\d{1,4})*"
_CITATION = re.compile(rf"\s*[\[【]\s*{_NUMBERS}\s*[\]】]|\s*\(\s*passages?\s*\d{{1,4}}\s*\)", re.IGNORECASE)
_LEADING = re.compile(rf"(?:{_CITATION.pattern}|[.,;\s])+", re.IGNORECASE)
_UNCLOSED = re.compile(r"[\[【(][^\]】)]{0,60}\Z")
_RANGE = re.compile(r"(\d{1,4})(?:\s*[-–]\s*(\d{1,4}))?")
_MOST_OF_RANGE = 50
_LONGEST_SENTENCE = 2_000  # a longer rest is released at once, so that the time stays linear in the answer's length
_THOUGHTS = re.compile(r"<think>.*?(?:</think>\s*|\Z)", re.DOTALL)
_THOUGHTS_BEGIN = "<think>"


@dataclass(frozen=True, slots=True)
class Cited:
    text: str
    numbers: tuple[int, ...]


class CitationReader:
    """Takes the text in pieces; yields each sentence as soon as no further citation can follow it."""

    def __init__(self) -> None:
        self._rest = ""

    @property
    def pending(self) -> str:
        """Text that is not yet part of a yielded sentence; "" while the model writes its thoughts."""
        return "" if self._rest.lstrip().startswith(_THOUGHTS_BEGIN) else self._rest

    def read(self, piece: str) -> Iterator[Cited]:
        self._rest += piece
        yield from self._whole_sentences(is_end=False)

    def finish(self) -> Iterator[Cited]:
        yield from self._whole_sentences(is_end=True)

    def _whole_sentences(self, *, is_end: bool) -> Iterator[Cited]:
        text = _THOUGHTS.sub("", self._rest) if is_end or "</think>" in self._rest else self._rest
        if not is_end and text.lstrip().startswith(_THOUGHTS_BEGIN):
            return
        bounds = _bounds(text)
        ready = len(bounds) if is_end or len(text) > _LONGEST_SENTENCE else _certain(text, bounds)
        for start, end in bounds[:ready]:
            cited = read_citations(text[start:end])
            if cited.text:
                yield cited
        self._rest = text[bounds[ready][0] :] if ready < len(bounds) else ""


def read_citations(sentence: str) -> Cited:
    """Separates a sentence from its citations; the numbers are unique, in order of appearance."""
    numbers: dict[int, None] = {}
    for citation in _CITATION.finditer(sentence):
        for first, last in _RANGE.findall(citation.group()):
            end = min(int(last or first), int(first) + _MOST_OF_RANGE)
            numbers.update(dict.fromkeys(range(int(first), end + 1)))
    return Cited(" ".join(_CITATION.sub("", sentence).split()), tuple(numbers))


def _certain(text: str, bounds: list[tuple[int, int]]) -> int:
    """Number of sentences that further text cannot change: the last one may grow, and if it only begins a citation, the
    one before it may get this citation."""
    begins = bool(bounds) and _UNCLOSED.match(text, bounds[-1][0]) is not None
    return max(0, len(bounds) - (2 if begins else 1))


def _bounds(text: str) -> list[tuple[int, int]]:
    """Bounds of the sentences, including citations after the full stop."""
    bounds: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        leading = _LEADING.match(text, start, end)
        if leading and bounds:
            bounds[-1] = bounds[-1][0], leading.end()
            start = leading.end()
        if start < end:
            bounds.append((start, end))
    return bounds
