"""Measures the tour of README.md: three searches of the sample library, each seen through two instructions.

Asks the real service over HTTP and writes what it answers between the tour's markers. Without --url it starts one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from sample_service import sample_url

from app.search.soft_tokens import group_refinement
from embedder.refinement import RefinementStep
from embedder.refinement import RefinementToken as Token

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- tour -->\n", "<!-- /tour -->"
TITLES, WORDS = 3, 8

# (query, two ways of looking at it)
PLACE = "Identify the region of the world the text is about."
TOPIC = "Identify the topic of the text, such as economy, government or geography."
TOUR = (
    ("The central bank of Nigeria raised interest rates to slow inflation and protect the currency.", (PLACE, TOPIC)),
    ("The navy of Samoa has no warships, only patrol boats.", (PLACE, TOPIC)),
    (
        "What does the hippocampus do? store new memories; move the legs; see colours; pump blood",
        (
            "Identify the academic subject of the text.",
            "Identify what kind of text this is, such as a definition, a question or a summary.",
        ),
    ),
)


def main() -> None:
    before, start, rest = README.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        sys.exit(f"{README.name} has no {START.strip()} … {END} block to write into.")
    with sample_url(__doc__) as url, httpx.Client(base_url=url, timeout=120) as client:
        shown = "\n".join(
            part for number, (query, views) in enumerate(TOUR, 1) for part in stop(client, number, query, views)
        )
    README.write_text(f"{before}{START}\n{shown}\n{END}{after}", encoding="utf-8")


def stop(client: httpx.Client, number: int, query: str, instructions: Sequence[str]) -> list[str]:
    """One query of the tour as Markdown."""
    rows = [view_row(client, query, instruction) for instruction in instructions]
    head = ["| instruction | first three hits | words that the model added |", "| --- | --- | --- |"]
    return [f"**{number}. “{query}”**\n", *head, *rows, ""]


def view_row(client: httpx.Client, query: str, instruction: str) -> str:
    asked = {"query": query, "collection": "sample", "instruction": instruction, "limit": TITLES, "explain": False}
    answer = client.post("/api/v1/search", json=asked).raise_for_status().json()
    titles = "<br>".join(hit["document"]["title"] for hit in answer["hits"])
    return f"| {instruction} | {titles} | {', '.join(added_words(query, instruction, answer))} |".replace("\n", " ")


def added_words(query: str, instruction: str, answer: dict[str, Any]) -> list[str]:
    """The heaviest words of all steps that stand neither in the query nor in the instruction."""
    steps = [
        RefinementStep(each["step"], tuple(Token(**token) for token in each["tokens"])) for each in answer["refinement"]
    ]
    weights: dict[str, float] = {}
    for group in group_refinement(steps):
        for token in group.tokens:
            if not token.is_stop_word:
                weights[token.token] = weights.get(token.token, 0.0) + token.weight
    given = f"{query} {instruction}".lower()
    added = [word for word in sorted(weights, key=lambda word: (-weights[word], word)) if word not in given]
    return added[:WORDS]


if __name__ == "__main__":
    main()
