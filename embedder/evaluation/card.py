"""Where a model card keeps its scores."""

from __future__ import annotations

from pathlib import Path

from embedder.errors import DataError

# `fill_scores` replaces what stands between the two.
SCORES_BEGIN, SCORES_END = "<!-- scores -->", "<!-- /scores -->"


def fill_scores(card: Path, table: str) -> None:
    """Puts a Markdown table where the card keeps its scores. Raises DataError when the card has no such place."""
    before, begin, rest = card.read_text(encoding="utf-8").partition(SCORES_BEGIN)
    _, end, after = rest.partition(SCORES_END)
    if not (begin and end):
        raise DataError(f"{card} has no place for scores. Put {SCORES_BEGIN} and {SCORES_END} on lines of their own.")
    card.write_text(f"{before}{begin}\n{table.strip()}\n{end}{after}", encoding="utf-8")
