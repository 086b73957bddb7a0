"""Test collections as documents, queries and grades: those of judges, and those made of pairs of a query and a text."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedder.evaluation.data import read_rows
from research.benchmarks.hybrid import read_judged

JUDGED = {"cranfield": "dev", "medline_med": "dev", "stackfaq": "dev", "covidfaq": "dev2", "pubmedqa": "dev2"}
PAIRS = (
    *("medquad", "openstax", "squad_sentence", "python_peps", "software_docs", "tldr_examples", "wiki_movies"),
    "opentriviaqa",
)
SECTIONS = "selqa"  # questions, and the sections of encyclopaedia articles that answer them
PAIR_QUERIES, PAIR_DOCUMENTS = 300, 1500


@dataclass(frozen=True, slots=True)
class Collection:
    documents: Mapping[str, str]
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


def read_collection(data: Path, name: str) -> Collection:
    if name in JUDGED:
        return _judged(data / JUDGED[name], name)
    return _sections(data) if name == SECTIONS else _pairs(data, name)


def _judged(folder: Path, name: str) -> Collection:
    found = read_judged(folder, name)
    documents = {key: text for key, text in found.documents.items() if found.texts[key].strip()}
    return Collection(documents, found.queries, found.grades)


def _sections(data: Path) -> Collection:
    rows = read_rows(data / "answers" / "sentences.selqa.jsonl.gz")
    documents = {_section(row): "\n".join([row["article"], row["section"], *row["sentences"]]) for row in rows}
    return Collection(
        documents, {row["id"]: row["question"] for row in rows}, {row["id"]: {_section(row): 1} for row in rows}
    )


def _section(row: Mapping[str, str]) -> str:
    return f"{row['article']}|{row['section']}"


def _pairs(data: Path, name: str) -> Collection:
    rows = read_rows(data / "train" / f"pairs.{name}.jsonl.gz")
    answers: dict[str, list[str]] = {}
    for row in rows:
        answers.setdefault(row["query"], []).extend(row["pos"])
    chance = random.Random(3)
    asked = chance.sample(list(answers), min(PAIR_QUERIES, len(answers)))
    needed = dict.fromkeys(text for query in asked for text in answers[query])
    others = [text for text in dict.fromkeys(text for row in rows for text in row["pos"]) if text not in needed]
    texts = [*needed, *chance.sample(others, min(len(others), max(0, PAIR_DOCUMENTS - len(needed))))]
    number = {text: str(at) for at, text in enumerate(texts)}
    return Collection(
        {str(at): text for at, text in enumerate(texts)},
        {str(at): query for at, query in enumerate(asked)},
        {str(at): {number[text]: 1 for text in answers[query]} for at, query in enumerate(asked)},
    )
