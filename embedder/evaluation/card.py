"""Updates the scores in a model card."""

from __future__ import annotations

from pathlib import Path

from embedder.errors import DataError

# `fill_scores` replaces the text between these marks.
SCORES_BEGIN, SCORES_END = "<!-- scores -->", "<!-- /scores -->"


def fill_scores(card: Path, table: str) -> None:
    """Replaces the card's scores with a Markdown table. Raises DataError if the card lacks the marks."""
    before, begin, rest = card.read_text(encoding="utf-8").partition(SCORES_BEGIN)
    _, end, after = rest.partition(SCORES_END)
    if not (begin and end):
        raise DataError(f"{card} has no place for scores. Put {SCORES_BEGIN} and {SCORES_END} on lines of their own.")
    card.write_text(f"{before}{begin}\n{table.strip()}\n{end}{after}", encoding="utf-8")
