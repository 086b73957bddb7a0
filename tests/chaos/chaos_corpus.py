"""Real documents for the chaos runs: the sample library, dealt out to text, Markdown, HTML and CSV files."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from app.documents.library import SampleRow, sample_rows


@dataclass(frozen=True, slots=True)
class CorpusFile:
    name: str
    data: bytes


def real_files(count: int) -> list[CorpusFile]:
    """`count` files that share no text: file i holds the rows i and i + count of the sample library."""
    rows = list(sample_rows())
    writers = list(_WRITERS.items())
    files = []
    for number in range(count):
        suffix, write = writers[number % len(writers)]
        files.append(CorpusFile(f"{number:03}{suffix}", write(rows[number::count][:2]).encode()))
    return files


def edited(file: CorpusFile, random: Random) -> CorpusFile:
    """One sentence end in the middle gets another sentence after it, as a person would add one."""
    text = file.data.decode()
    ends = [position for position, character in enumerate(text) if character in ".;" and position < len(text) - 40]
    place = (random.choice(ends) if ends else len(text) // 2) + 1
    addition = f" Checked again in {random.randrange(1990, 2026)}."
    return replace(file, data=(text[:place] + addition + text[place:]).encode())


def _as_text(rows: Sequence[SampleRow]) -> str:
    return "\n\n".join(f"{row.title}\n\n{row.text}" for row in rows)


def _as_markdown(rows: Sequence[SampleRow]) -> str:
    return "\n\n".join(f"# {row.title}\n\n{row.text}" for row in rows)


def _as_html(rows: Sequence[SampleRow]) -> str:
    parts = "".join(f"<h1>{html.escape(row.title)}</h1><p>{html.escape(row.text)}</p>" for row in rows)
    head = f"<head><title>{html.escape(rows[0].title)}</title></head>"
    return f"<html>{head}<body><article>{parts}</article></body></html>"


def _as_csv(rows: Sequence[SampleRow]) -> str:
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["title", "text", "source"])
    writer.writerows([row.title, row.text, row.metadata["source"]] for row in rows)
    return table.getvalue()


_WRITERS: dict[str, Callable[[Sequence[SampleRow]], str]] = {
    ".txt": _as_text,
    ".md": _as_markdown,
    ".html": _as_html,
    ".csv": _as_csv,
}
