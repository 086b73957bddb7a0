"""Questions whose answers are known: at which rank the passage that answers stands, by mode, with default settings.

Asks a running service about a collection that it holds. The questions are tab-separated lines: question, file name,
words of the passage that answers. A question has a line for each passage that does; the first of them counts.

    gircse ingest FOLDER -c NAME && gircse serve &
    python -m research.benchmarks.known_passages QUESTIONS.tsv --collection NAME [--url http://127.0.0.1:7860] [--key …]
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.types.search import SearchMode
from embedder.command.standard_output import run_program

DEPTH = 20


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    answers: tuple[tuple[str, str], ...]
    """File names, and words of a passage."""

    def is_answered_by(self, hit: Mapping[str, Any]) -> bool:
        file, text = hit["document"]["uri"].rpartition("/")[2], _plain(hit["chunk"]["text"])
        return any(file == named and _plain(words) in text for named, words in self.answers)


def _plain(text: str) -> str:
    """Words alone: line breaks, hyphens at their ends and markup differ between a file and what is read of it."""
    return " ".join(re.findall(r"\w+", text.lower()))


def read_questions(file: Path) -> list[Question]:
    """Raises ValueError for a line that is not question, file and answer."""
    questions: dict[str, list[tuple[str, str]]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for number, row in enumerate(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), start=1):
            if len(row) != 3 or not all(each.strip() for each in row):
                raise ValueError(f"{file}, line {number}: question, file name and answer, parted by tabs, not {row}")
            questions.setdefault(row[0], []).append((row[1], row[2]))
    return [Question(text, tuple(answers)) for text, answers in questions.items()]


def rank_of(question: Question, hits: Sequence[Mapping[str, Any]]) -> int | None:
    return next((hit["rank"] for hit in hits if question.is_answered_by(hit)), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--collection", required=True)
    parser.add_argument("--url", default="http://127.0.0.1:7860")
    parser.add_argument("--key", help="an API key, where the service wants one")
    arguments = parser.parse_args()
    questions = read_questions(arguments.questions)
    headers = {"authorization": f"Bearer {arguments.key}"} if arguments.key else {}
    modes: dict[str, dict[str, str]] = {"as it comes": {}, **{mode.value: {"mode": mode.value} for mode in SearchMode}}
    ranks: dict[str, list[int | None]] = {name: [] for name in modes}
    with httpx.Client(base_url=arguments.url, headers=headers, timeout=120, trust_env=False) as client:
        for question in questions:
            for name, mode in modes.items():
                body = {"query": question.text, "collection": arguments.collection, "limit": DEPTH, **mode}
                answer = client.post("/api/v1/search", json=body)
                if answer.is_error:
                    raise SystemExit(f"{question.text!r}: {answer.status_code} {answer.text}")
                ranks[name].append(rank_of(question, answer.json()["hits"]))
    print(report(questions, ranks))


def report(questions: Sequence[Question], ranks: Mapping[str, Sequence[int | None]]) -> str:
    lines = [f"| question | {' | '.join(ranks)} |", "|---|" + "---|" * len(ranks)]
    for place, question in enumerate(questions):
        lines.append(f"| {question.text} | {' | '.join(str(each[place] or '–') for each in ranks.values())} |")
    for title, most in (("at rank 1", 1), ("among the first 5", 5)):
        counts = (sum(rank is not None and rank <= most for rank in each) for each in ranks.values())
        lines.append(f"| **{title}** | {' | '.join(f'{count} of {len(questions)}' for count in counts)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_program(main)
