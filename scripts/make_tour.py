"""Regenerates the tour of README.md and the example of the search page: searches through two lenses.

Queries the real service over HTTP and writes its answers between the tour's markers. Starts a service unless --url
names one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from sample_service import sample_url

from app.search.soft_tokens import group_refinement
from app.wiring.web import EXAMPLE_QUERY
from embedder.command.standard_output import run_program
from embedder.refinement_steps import RefinementStep
from embedder.refinement_steps import RefinementToken as Token

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- tour -->\n", "<!-- /tour -->"
EXAMPLE = Path(__file__).parents[1] / "sample" / "worked_example.json"
TITLES, WORDS = 3, 8
WORKED_EXAMPLE = (EXAMPLE_QUERY, "Same place", "Same topic")

# (query, two built-in lenses)
TOUR = (
    (
        "Kenya's central bank raised interest rates to slow inflation and protect the shilling.",
        ("Same place", "Same topic"),
    ),
    ("The navy of Samoa has no warships, only patrol boats.", ("Same place", "Same topic")),
    (
        "What does the hippocampus do? store new memories; move the legs; see colours; pump blood",
        ("Same field of study", "Same kind of text"),
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
        example = worked_example(client)
    EXAMPLE.write_text(json.dumps(example, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    README.write_text(f"{before}{START}\n{shown}\n{END}{after}", encoding="utf-8")


def worked_example(client: httpx.Client) -> dict[str, Any]:
    """The example that the search page shows on an empty installation."""
    query, *lenses = WORKED_EXAMPLE
    return {"query": query, "views": [{"lens": lens, "hits": example_hits(client, query, lens)} for lens in lenses]}


def example_hits(client: httpx.Client, query: str, lens: str) -> list[dict[str, str]]:
    request = {"query": query, "collection": "sample", "lens": lens, "limit": TITLES, "explain": False}
    answer = client.post("/api/v1/search", json=request).raise_for_status().json()
    return [{"title": hit["document"]["title"], "value": hit["value"]["name"]} for hit in answer["hits"]]


def stop(client: httpx.Client, number: int, query: str, lenses: Sequence[str]) -> list[str]:
    """One query of the tour as Markdown."""
    rows = [view_row(client, query, lens) for lens in lenses]
    head = ["| lens | first three hits, and which value each has | words that the model added |", "| --- | --- | --- |"]
    return [f"**{number}. “{query}”**\n", *head, *rows, ""]


def view_row(client: httpx.Client, query: str, lens: str) -> str:
    request = {"query": query, "collection": "sample", "lens": lens, "limit": TITLES, "explain": False}
    answer = client.post("/api/v1/search", json=request).raise_for_status().json()
    hits = "<br>".join(f"{hit['document']['title']} *({hit['value']['name']})*" for hit in answer["hits"])
    words = ", ".join(added_words(query, answer["instruction"], answer))
    return f"| {lens} | {hits} | {words} |".replace("\n", " ")


def added_words(query: str, instruction: str, answer: dict[str, Any]) -> list[str]:
    """The most probable words of all steps that are neither in the query nor in the instruction."""
    steps = [
        RefinementStep(step["step"], tuple(Token(**token) for token in step["tokens"])) for step in answer["refinement"]
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
    run_program(main)
