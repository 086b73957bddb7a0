"""Splits a document at its structure: headings, complete pages, table rows and tables of numbers.

Inside each of these sections `TokenSplitter` cuts at sentence ends. Where a section starts depends only on nearby text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from app.ports.texts import TokenCounter
from app.types.documents import ChunkKind
from app.types.texts import NAVIGATION, ROW, ExtractedText, Mark, Span
from ingest.chunk_kinds import kind_of, table_runs
from ingest.splitter import TokenSplitter, page_of

_SHARE_OF_SCRAPS = 25  # a section below 1/25 of the longest chunk is a scrap: it is merged into the next section
_MOST_OF_SCRAP = 100  # characters per token of a scrap; longer sections are kept without counting tokens
_LONGEST_HEADING = 80  # characters of a line taken for a heading
_MOST_RUNNING = 3  # running header or footer lines per page
_SIGNS = re.compile(r"\W*(?:\d+(?:\.\d+)*|[IVX]+)?\W*")  # a number and punctuation before the words of a heading
_REFERENCES = re.compile(
    _SIGNS.pattern + r"(?:references|bibliography|works cited|literature(?: cited)?|literaturverzeichnis)\W*",
    re.IGNORECASE,
)
# For texts without marked headings, such as papers: a line of its own that names the section below it.
_NAMED = re.compile(
    r"^(?:abstract|introduction|conclusions?|acknowledge?ments?|references|bibliography|works cited|"
    r"(?:appendix|chapter|section|part) [\dA-Z]{1,4}\b[^\n]{0,60})$",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBERED = re.compile(
    r"^(?P<number>\d{1,2})\.? [A-Z][^\n]{1,70}(?=\n+(?P=number)\.1\b)|"
    r"^\d{1,2}(?:\.\d{1,2}){1,3}\.? {1,4}[A-Z][^\n]{1,70}$|"
    r"(?:(?<=\n\n)|\A)(?:\d{1,2}|[A-Z])\.? {1,4}[A-Z][^\n]{1,70}(?=\n\n)",
    re.MULTILINE,
)
_SENTENCE_ENDS = ".!?…:。！？"
_CLOSERS = "\"')]}»”’*_"
_PAGE_NUMBER = re.compile(r"\W*(?:page|seite|p\.)?\W*\d{1,4}(?:\W+(?:of|von|/)?\W*\d{1,4})?\W*", re.IGNORECASE)
_BULLET = re.compile(r"[-–—•‣◦▪■●○►*·]\s")
_LONGEST_SLIDE, _LONGEST_POINT = 800, 60  # characters of a slide's page, and of its median line
_WORD = re.compile(r"\S")
_DIGITS = re.compile(r"\d+")


class _Section(NamedTuple):
    start: int
    end: int
    is_under_references: bool
    is_navigation: bool = False


class StructureSplitter:
    """Splits at sections first. `max_tokens` and `overlap` are those of `TokenSplitter`; sections never overlap."""

    def __init__(self, counter: TokenCounter, *, max_tokens: int = 200, overlap: int = 30) -> None:
        self._split = TokenSplitter(counter, max_tokens=max_tokens, overlap=overlap, whole_sentences=True)
        self._fewest_tokens = max_tokens // _SHARE_OF_SCRAPS

    def __call__(self, document: ExtractedText) -> list[Span]:
        return [span for section in self._sections(document) for span in self._spans(document, section)]

    def _spans(self, document: ExtractedText, section: _Section) -> Iterator[Span]:
        text = document.text[section.start : section.end]
        first = bisect_left(document.page_starts, section.start)
        last = bisect_left(document.page_starts, section.end)
        pages = [start - section.start for start in document.page_starts[first:last]]
        for span in self._split(ExtractedText(text, "", "", page_starts=pages)):
            start = section.start + span.start
            kind = kind_of(span.text, is_under_references=section.is_under_references)
            kind = ChunkKind.NAVIGATION if section.is_navigation else kind
            page = page_of(document.page_starts, start)
            yield replace(span, start=start, end=section.start + span.end, page=page, kind=kind)

    def _sections(self, document: ExtractedText) -> Iterator[_Section]:
        """Yields the sections in order.

        A scrap is prepended to the next section, so that a heading stays with the text below it; at the end of the
        document it is a section of its own.
        """
        text, headings = document.text, _headings(document)
        rows = {mark.start for mark in document.marks if mark.level == ROW}
        menus = {mark.start for mark in document.marks if mark.level == NAVIGATION}
        is_heading = {mark.start: mark for mark in headings}
        slides = set(_slides(document))
        references: Mark | None = None
        begin: int | None = None
        for start, end in pairwise(_cuts(document, headings)):
            heading = is_heading.get(start)
            if heading and (references is None or heading.level <= references.level):
                named = text[heading.start : heading.end].strip()
                is_titled_so = len(named) <= _LONGEST_HEADING and _REFERENCES.fullmatch(named)
                references = heading if is_titled_so else None
            if start in menus:
                if begin is not None and begin < start:  # a scrap before it
                    yield _Section(begin, start, references is not None)
                yield _Section(start, end, references is not None, is_navigation=True)
                begin = None
                continue
            begin = _first_word(text, start, end) if begin in (None, start) else begin
            content = _first_word(text, heading.end if heading else start, end)
            if start in rows or start in slides or (content < end and not self._is_scrap(text, begin, end)):
                yield _Section(begin, end, references is not None)
                begin = None
        if begin is not None and begin < len(text):
            yield _Section(begin, len(text), references is not None)

    def _is_scrap(self, text: str, begin: int, end: int) -> bool:
        if end - begin > _MOST_OF_SCRAP * self._fewest_tokens:
            return False
        return self._split.count_tokens(text[begin:end]) < self._fewest_tokens


def _first_word(text: str, start: int, end: int) -> int:
    """The position of the first non-space character in [start, end), or `end`."""
    match = _WORD.search(text, start, end)
    return match.start() if match else end


def _cuts(document: ExtractedText, headings: Sequence[Mark]) -> list[int]:
    """The section boundaries in ascending order, with 0 and the end of the text. None lies inside a marked row."""
    text = document.text
    cuts = {0, len(text)}
    cuts.update(mark.start for mark in headings)
    for mark in document.marks:
        if not mark.is_heading:
            cuts.update((mark.start, min(mark.end, len(text))))
    cuts.update(_complete_pages(document))
    for run in table_runs(text):
        cuts.update(run)
    inside = [(mark.start, mark.end) for mark in document.marks if not mark.is_heading]
    starts = [start for start, _ in inside]

    def is_within_row(cut: int) -> bool:
        at = bisect_left(starts, cut) - 1
        return at >= 0 and inside[at][0] < cut < inside[at][1]

    return sorted(cut for cut in cuts if not is_within_row(cut))


def _headings(document: ExtractedText) -> list[Mark]:
    """The headings that the reader marked; without any mark, lines that look like headings."""
    if marked := [mark for mark in document.marks if mark.is_heading]:
        return marked
    if document.marks:  # only rows or navigation: a table or a menu
        return []
    lines = [*_NAMED.finditer(document.text), *_NUMBERED.finditer(document.text)]
    by_start = {line.start(): Mark(line.start(), line.end(), 1) for line in lines if _is_title_like(line.group())}
    return [by_start[start] for start in sorted(by_start)]


def _is_title_like(line: str) -> bool:
    return len(line) <= _LONGEST_HEADING and not line.rstrip().endswith((*_SENTENCE_ENDS, ",", ";", "-"))


def _complete_pages(document: ExtractedText) -> Iterator[int]:
    """Yields the starts of pages that begin something new, after a page that ended with a sentence or a title."""
    text = document.text
    bounds = [start for start in document.page_starts if 0 <= start < len(text)]
    pages = [text[start:end] for start, end in pairwise([*bounds, len(text)])]
    first = Counter(_running(lines[0]) for page in pages if len(lines := _lines(page)) > 1)
    last = Counter(_running(lines[-1]) for page in pages if len(lines := _lines(page)) > 1)

    def content(page: str) -> list[str]:
        """The page's lines without running headers, footers and page numbers."""
        lines = _lines(page)
        for at, running in ((-1, last), (0, first)):
            for _ in range(_MOST_RUNNING):
                if len(lines) > 1 and (_is_page_number(lines[at]) or running[_running(lines[at])] > 1):
                    lines.pop(at)
        return lines

    contents = [content(page) for page in pages]
    for start, before, after in zip(bounds[1:], contents, contents[1:], strict=False):
        if before and after and _begins_sentence_or_item(after) and _is_complete(before, after):
            yield start


def _is_complete(before: Sequence[str], after: Sequence[str]) -> bool:
    are_slides = _is_slide_like(before) and _is_slide_like(after)
    return _ends_sentence(before[-1]) or _are_titled(before, after) or are_slides


def _slides(document: ExtractedText) -> Iterator[int]:
    """Yields the starts of slide-like pages: a few short lines. Each is a section of its own, however short."""
    bounds = [start for start in document.page_starts if 0 <= start < len(document.text)]
    for start, end in pairwise([*bounds, len(document.text)]):
        lines = _lines(document.text[start:end])
        if len(lines) > 1 and _is_slide_like(lines):
            yield start


def _is_page_number(line: str) -> bool:
    return len(line) <= _LONGEST_HEADING and _PAGE_NUMBER.fullmatch(line) is not None


def _running(line: str) -> str:
    """A key that is equal for a running line on all pages. Numbers are masked, except in lines of one or two words,
    where they may name the topic."""
    return _DIGITS.sub("0", line) if line.count(" ") > 1 else line


def _lines(page: str) -> list[str]:
    return [line.strip() for line in page.split("\n") if line.strip()]


def _ends_sentence(line: str) -> bool:
    return line.rstrip(_CLOSERS).endswith(tuple(_SENTENCE_ENDS))


def _are_titled(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether both are like slides with titles: `before` ends with a short line, `after` begins with a title line."""
    return len(before[-1]) <= _LONGEST_HEADING and len(after) > 1 and _is_title_like(after[0])


def _is_slide_like(lines: Sequence[str]) -> bool:
    lengths = sorted(map(len, lines))
    return sum(lengths) <= _LONGEST_SLIDE and lengths[len(lengths) // 2] <= _LONGEST_POINT


def _begins_sentence_or_item(lines: Sequence[str]) -> bool:
    if _BULLET.match(lines[0]):
        return True
    first = lines[0].lstrip(_CLOSERS + "(«„“‘-•–")
    return bool(first) and not first[0].islower()
