"""Splits text into sentences by rules: for the splitter, for encoding sentences separately, and for highlighting.

Works for languages that end sentences with . ! ? or their CJK forms. Independent of documents and models.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MAX_SENTENCES = 16  # encoded separately; with more, neighbours are merged
_SHORTEST_SENTENCE = 3  # words; a shorter one (a heading, a number) is merged into the next
_CLOSERS = "\"')]}»”’*_"
_TERMINALS = ".!?…"
# Whole gaps of whitespace: after a possible sentence end, containing a line break, or at the end of the text. Each
# branch starts at the start of a gap, so that scanning is linear for any input.
_POSSIBLE_END = re.compile(
    rf"(?<=[{re.escape(_TERMINALS + _CLOSERS)}])\s+|(?<!\s)[^\S\n]*\n\s*|(?<!\s)\s+\Z|[。！？｡]+[」』”’）】]*\s*"
)
# Pre-tokenised corpora, often in lower case: only they have a space before the punctuation.
_SPACED_STOP = re.compile(r"[^\W_] [.?!]\Z")
_READABLE = re.compile(r"[!-~\w]")  # nearly every sentence has one; only the others are looked at closely
_LAST_WORD = re.compile(r"[\w.]*\Z")
_LONGEST_ABBREVIATION = 12
_ABBREVIATION = re.compile(
    r"mr|mrs|ms|dr|prof|st|sr|jr|rep|sen|gen|col|capt|lt|vs|cf|e\.g|i\.e|figs?|eq|nos?|vol|pp|eds?|approx",
    re.IGNORECASE,
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Character range [start, end) of every sentence, in order, without surrounding whitespace.

    Together they cover every non-whitespace character of `text`. Characters that nobody can see or read (a bullet of a
    private font, a zero-width space) are no sentence: no model has a token for them. They belong to the one before.
    """
    spans: list[tuple[int, int]] = []
    start = len(text) - len(text.lstrip())
    for gap in _POSSIBLE_END.finditer(text, start):
        if gap.end() < len(text) and not _is_sentence_end(text, gap):
            continue
        end = gap.start() + len(gap.group().rstrip())
        if end > start:
            spans.append((start, end))
        start = gap.end()
    if start < len(text):
        spans.append((start, len(text)))
    return _with_unreadable_ones_joined(text, spans)


def _with_unreadable_ones_joined(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    begun: int | None = None  # of unreadable characters before the first sentence
    for start, end in spans:
        if _READABLE.search(text, start, end) or any(map(_is_readable, text[start:end])):
            joined.append((start if begun is None else begun, end))
            begun = None
        elif joined:
            joined[-1] = (joined[-1][0], end)
        elif begun is None:
            begun = start
    return joined if joined or begun is None else [(begun, spans[-1][1])]


def _is_readable(character: str) -> bool:
    """False for characters that tokenisers drop: control, format and private ones, spaces, and marks alone."""
    kind = unicodedata.category(character)
    return kind[0] not in "CZ" and kind != "Mn" and character != "\ufffd"


def sentences_to_read(text: str) -> list[str]:
    """The sentences to encode separately under an instruction: at least three words each, at most sixteen."""
    return [text[start:end] for start, end in spans_to_read(text)]


def spans_to_read(text: str) -> list[tuple[int, int]]:
    """Character ranges [start, end) of `sentences_to_read`."""
    spans: list[tuple[int, int]] = []
    begun: int | None = None
    for start, end in sentence_spans(text):
        begun = start if begun is None else begun
        if len(text[begun:end].split()) >= _SHORTEST_SENTENCE:
            spans.append((begun, end))
            begun = None
    if begun is not None:  # the rest belongs to the last sentence
        spans[-1:] = [(spans[-1][0] if spans else begun, len(text.rstrip()))]
    each = -(-len(spans) // MAX_SENTENCES) or 1
    groups = [spans[at : at + each] for at in range(0, len(spans), each)]
    return [(group[0][0], group[-1][1]) for group in groups]


def _is_sentence_end(text: str, gap: re.Match[str]) -> bool:
    space = gap.group()
    if not space.isspace():
        return True  # a CJK full stop, with or without a space after it
    if space.count("\n") > 1:
        return True
    if text[gap.end()].islower():
        return bool(_SPACED_STOP.search(text, max(0, gap.start() - 3), gap.start()))
    before = text[max(0, gap.start() - 4) : gap.start()].rstrip(_CLOSERS)
    if before and before[-1] in _TERMINALS:
        return before[-1] != "." or not _is_abbreviated(text, gap.start())
    # A separate line is a sentence (a heading, a row, a list item), unless it visibly continues.
    return "\n" in space and not before.endswith((",", ";", "-"))


def _is_abbreviated(text: str, end: int) -> bool:
    """Whether the full stop just before `end` belongs to an abbreviation, an initial or a list number."""
    begin = max(0, end - _LONGEST_ABBREVIATION)
    stop = text.rfind(".", begin, end)
    _, line_end, line = text[begin:stop].rpartition("\n")
    match = _LAST_WORD.search(line)
    word = match.group().rstrip(".") if match else ""
    if word.isdigit():
        return (bool(line_end) or begin == 0) and line.strip() == word
    last = word.rsplit(".", 1)[-1]
    return (len(last) == 1 and last.isupper()) or bool(_ABBREVIATION.fullmatch(word))
