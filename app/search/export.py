"""Writes a search result as CSV or Markdown, and a hit as a citation. Pure functions.

Text of documents is escaped: no spreadsheet formula, no markup and no control character of a document takes effect.
"""

from __future__ import annotations

import re

from app.search.csv_table import csv_table
from app.types.printable import printable
from app.types.search import ALL_COLLECTIONS, Hit, SearchResult
from app.types.uris import shown_address

_QUOTED_CHARACTERS = 300  # quoted from a passage without a best sentence
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~!&])")
_COLUMNS = (
    *("rank", "score", "match", "value", "title", "uri", "page", "context", "text", "best_sentence"),
    *("collection", "document_id", "chunk_id", "start", "end"),
)


def search_csv(result: SearchResult) -> str:
    """One row per hit. Each metadata key of the documents has a column, after the fixed columns."""
    keys = sorted({key for hit in result.hits for key in hit.document.metadata})
    return csv_table(
        [*_COLUMNS, *(f"metadata.{printable(key)}" for key in keys)], [_row(hit, keys) for hit in result.hits]
    )


def search_markdown(result: SearchResult) -> str:
    collection = "all collections" if result.collection == ALL_COLLECTIONS else result.collection
    settings = f"In {collection}, {result.mode}, {result.steps} steps"
    if result.instruction:
        settings += f", instruction: {result.instruction}"
    parts = [f"# {_line(result.query)}", _line(settings), *(_line(note) for note in result.notes)]
    for hit in result.hits:
        parts += [f"## {hit.rank}. {_line(hit.document.title)}", _quoted(hit), _line(_page_and_address(hit))]
    return "\n\n".join(parts) + "\n"


def citation(hit: Hit) -> str:
    """One line: the hit's best sentence, or the beginning of its passage, then title, page and address."""
    source = ", ".join(filter(None, (_one_line(hit.document.title), _page_and_address(hit))))
    return f"“{_one_line(_quote(hit))}” ({source})"


def _row(hit: Hit, keys: list[str]) -> list[object]:
    chunk, document = hit.chunk, hit.document
    best = "" if hit.why is None else chunk.text[hit.why.start : hit.why.end]
    cells: list[object] = [
        *(hit.rank, hit.score, hit.match or "", hit.value.name if hit.value else "", document.title, document.uri),
        *("" if chunk.page is None else chunk.page, chunk.context, chunk.text, best),
        *(document.collection, document.id, chunk.id, chunk.start, chunk.end),
        *(document.metadata.get(key, "") for key in keys),
    ]
    return [printable(cell) if isinstance(cell, str) else cell for cell in cells]


def _quoted(hit: Hit) -> str:
    """The passage as a Markdown quote, with its best sentence in bold."""
    text = hit.chunk.text
    start, end = (0, 0) if hit.why is None else (hit.why.start, hit.why.end)
    lines, at = [], 0
    for line in text.splitlines(keepends=True):
        first, last = max(start - at, 0), min(end - at, len(line.rstrip()))
        lines.append(_with_bold(line, first, last) if first < last else _escaped(line.strip()))
        at += len(line)
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _with_bold(line: str, first: int, last: int) -> str:
    best = line[first:last].strip()
    before, after = line[:first].lstrip(), line[last:].rstrip()
    return f"{_escaped(before)}**{_escaped(best)}**{_escaped(after)}" if best else _escaped(line.strip())


def _quote(hit: Hit) -> str:
    text = hit.chunk.text
    if hit.why is not None:
        return text[hit.why.start : hit.why.end]
    if len(text) <= _QUOTED_CHARACTERS:
        return text
    return text[:_QUOTED_CHARACTERS].rsplit(None, 1)[0] + " …"


def _page_and_address(hit: Hit) -> str:
    page = "" if hit.chunk.page is None else f"p. {hit.chunk.page}"
    return ", ".join(filter(None, (page, _one_line(shown_address(hit.document.uri)))))


def _line(text: str) -> str:
    return _escaped(_one_line(text))


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", printable(text))
