"""Tells tables of numbers and bibliographies from prose by their layout. Does not use the meaning of words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.types.documents import ChunkKind

_TOKEN = re.compile(r"\S+")
_MARKUP = re.compile(r"</?[bi]>|\*\*|\$\\(?:times|pm)\$?|\$")
_NUMBER = re.compile(r"[-+−±~<>≤≥≈(\[|]*\d[\d.,:/%×x±–−-]*[)\]%*†‡§|,;KMBkmb]*")
_LONGEST_NUMBER = 40  # characters
_WORD = re.compile(r"[^\W\d_]{2,}")
_NO_NUMBERS = re.compile(r"[|\-–—:.()\[\]✓✗]+")
_TABLE_SHARE = 0.5  # least share of numbers among numbers and words
_FEWEST_NUMBERS = 6  # least numbers in a chunk that is a table
_FEWEST_LINES = 3  # least consecutive lines of a table
_MOST_OTHERS, _LONGEST_OTHER = 2, 60  # lines between two table lines, and characters of each
_YEAR = re.compile(r"\b(?:19|20)\d\d[a-z]?\b")
_DIGIT, _MAYBE_YEAR = re.compile(r"\d"), re.compile(r"(?:19|20)\d\d")
_OF_REFERENCES = re.compile(
    r"\bet al\b|\bdoi\b|\barXiv\b|\bpp\.|\b[Vv]ol\.|\bno\. \d|\bProc\.|Proceedings of|\bTrans\.|Transactions on|"
    r"Journal of|Conference on|Workshop on|Advances in|Association for|University Press|preprint|CoRR|https?://|"
    r"\b[A-Z]\.(?: ?-?[A-Z]\.)* [A-Z]\w+|\b[A-Z][\w’'-]+, [A-Z]\."
)
# In-text citations: (Peng et al., 2024), Peng et al. (2024).
_CITED = re.compile(r"\((?=[^()]{0,200}[^\W\d_]{2})[^()]{0,400}\b(?:19|20)\d\d[a-z]?\)|et al\.? ?\(\d{4}[a-z]?\)")
_NAMES = re.compile(r"(?:\b[A-Z][\w’'.-]*+(?: [A-Z][\w’'.-]*+){1,3}+, ){2,}")
_LABEL = re.compile(r"^\W{0,4}\[[\w+]{1,12}\]\s", re.MULTILINE)
_PER_WORDS = 100
_FEWEST_YEARS, _FEWEST_SIGNS = 1.5, 5.0  # per 100 words, in a bibliography
_WITHIN = 0.4  # factor on both thresholds below a heading such as "References"


def kind_of(text: str, *, is_under_references: bool = False) -> ChunkKind:
    """Classifies a chunk as TABLE, REFERENCES or PROSE. Below a heading of references, fewer signs suffice."""
    if len(_DIGIT.findall(text)) < _FEWEST_NUMBERS and not _MAYBE_YEAR.search(text):
        return ChunkKind.PROSE  # the common case, decided without counting words
    numbers, words = _counts(text)
    if numbers >= _FEWEST_NUMBERS and numbers >= _TABLE_SHARE * (numbers + words):
        return ChunkKind.TABLE
    share = _PER_WORDS / max(1, numbers + words)
    needed = _WITHIN if is_under_references else 1.0
    text = _CITED.sub(" ", text)
    names = sum(match.group().count(",") for match in _NAMES.finditer(text))
    signs = sum(1 for _ in _OF_REFERENCES.finditer(text)) + sum(1 for _ in _LABEL.finditer(text)) + names
    years = sum(1 for _ in _YEAR.finditer(text))
    if years * share >= needed * _FEWEST_YEARS and signs * share >= needed * _FEWEST_SIGNS:
        return ChunkKind.REFERENCES
    return ChunkKind.PROSE


def table_runs(text: str) -> Iterator[tuple[int, int]]:
    """Character ranges [start, end) of tables in `text`.

    A table is at least 3 lines that hold at least as many numbers as words, or are rows of a Markdown table. Blank
    lines and up to 2 short lines in between, such as names of groups, belong to it.
    """
    lines = text.splitlines(keepends=True)
    if len(lines) < _FEWEST_LINES:
        return
    run: list[tuple[int, int]] = []
    start = others = 0
    for line in lines:
        end = start + len(line)
        if _is_table_line(line):
            run.append((start, start + len(line.rstrip())))
            others = 0
        elif line.strip():
            others += 1
            if others > _MOST_OTHERS or len(line) > _LONGEST_OTHER:
                yield from _as_run(run)
                run, others = [], 0
        start = end
    yield from _as_run(run)


def _as_run(lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    if len(lines) >= _FEWEST_LINES:
        yield lines[0][0], lines[-1][1]


def _is_table_line(line: str) -> bool:
    stripped = line.strip()
    if stripped.startswith("|") and stripped.endswith("|") and stripped.count("|") > 2:
        return True
    numbers, words = _counts(line)
    return numbers >= 2 and numbers >= _TABLE_SHARE * (numbers + words)


def _counts(text: str) -> tuple[int, int]:
    """Numbers and words in `text`. Markup and tokens of punctuation alone count as neither."""
    numbers = words = 0
    for match in _TOKEN.finditer(_MARKUP.sub(" ", text)):
        token = match.group()
        if len(token) <= _LONGEST_NUMBER and _NUMBER.fullmatch(token):
            numbers += 1
        elif not _NO_NUMBERS.fullmatch(token):
            words += 1 if _WORD.search(token) else 0
    return numbers, words
