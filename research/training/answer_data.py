"""`python -m research.training.answer_data` writes pairs that the reader of answers is trained on, from public data.

From bare clones of SQuADShifts (posts, reviews, articles; Miller et al., 2020, CC BY 4.0), PolicyQA (Ahmad et al.,
2020, MIT) and WikiTableQuestions (Pasupat & Liang, 2015, CC BY-SA 4.0). A pair has the sentence or table row that
answers, and others of the same text or table that do not.

python -m research.training.answer_data --repositories FOLDER --out FOLDER
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from embedder.command.standard_output import run_program
from embedder.text.sentences import sentence_spans
from research.benchmarks.reading import Listed, write_files

SHIFTS, POLICY = "modestyachts/squadshifts-website", "wasiahmad/PolicyQA"
TABLES = "ppasupat/WikiTableQuestions"
COMMITS = {
    SHIFTS: "b7cc4d50af791c36c49417fb94dd739d6a9e7bef",
    POLICY: "775538bc6d932e9d0dd16975d4373659cf8964fe",
    TABLES: "7d455a5a707b96341ef72aff9428749d443d8aa9",
}
_MOST_NEGATIVES = 12
# A table row says nothing about other rows, so questions that compare rows are left out.
_COMPARES = re.compile(
    r"\b(?:total|most|least|more|less|fewer|than|first|last|next|previous|before|after|only|highest|lowest|longest|"
    r"shortest|largest|smallest|biggest|best|worst|earliest|latest|same|difference|consecutive|average|besides|above|"
    r"below|top|bottom)\b",
    re.IGNORECASE,
)
_SHORTEST_CELL = 4  # characters by which a question names a row


_LONGEST_CELL = 60
_ASKED_PER_TABLE = 4  # by questions made from templates
_TEMPLATES = (
    "What is the {name} of {key}?",
    "What was the {name} for {key}?",
    "Which {name} does {key} have?",
    "Which {name} belongs to {key}?",
    "Tell me the {name} of {key}.",
    "{key}: {name}?",
    "What do we know about the {name} of {key}?",
    "In the case of {key}, what is the {name}?",
)
_OF_NUMBERS = (
    "How many {name} did {key} have?",
    "How many {name} are there for {key}?",
    "How much {name} does {key} have?",
    "How high is the {name} of {key}?",
)


class AnsweredBy(NamedTuple):
    question: str
    answers: list[str]
    others: list[str]  # of the same text or table


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m research.training.answer_data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repositories", type=Path, required=True, help="the folder of bare clones, as OWNER+NAME")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the files")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, read in KINDS.items():
        pairs = list(read(Sources(options.repositories, options.out / "originals")))
        path = options.out / f"pairs.{name}.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf-8") as file:
            for each in pairs:
                row = {"task": name, "query": each.question, "pos": each.answers, "neg": each.others}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        print(f"{path}: {len(pairs):,} questions")


class Sources(NamedTuple):
    repositories: Path
    folder: Path

    def text(self, repository: str, path: str) -> str:
        listed = Listed(repository, COMMITS[repository], path)
        write_files([listed], self.folder, repositories=self.repositories)
        return listed.below(self.folder).read_text(encoding="utf-8")


def shifted(sources: Sources) -> Iterator[AnsweredBy]:
    """Questions about posts, product reviews and articles."""
    for name in ("reddit", "amazon_reviews", "new_wiki"):
        yield from _of_squad(json.loads(sources.text(SHIFTS, f"datasets/{name}_v1.0.json")))


def policies(sources: Sources) -> Iterator[AnsweredBy]:
    """Questions about privacy policies."""
    for name in ("dev", "test"):
        yield from _of_squad(json.loads(sources.text(POLICY, f"data/{name}.json")))


def _of_squad(data: Any) -> Iterator[AnsweredBy]:
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            spans = sentence_spans(paragraph["context"])
            for asked in paragraph["qas"]:
                starts = [each["answer_start"] for each in asked["answers"]]
                yield from _answered(asked["question"], paragraph["context"], spans, starts)


def _answered(
    question: str, text: str, spans: Sequence[tuple[int, int]], starts: Sequence[int]
) -> Iterator[AnsweredBy]:
    """Of a question that the text answers at these characters, in one or several sentences."""
    right = {span for span in spans for at in starts if span[0] <= at < span[1]}
    if right and question.strip():
        answers, others = ([text[s:e] for s, e in spans if ((s, e) in right) is is_right] for is_right in (True, False))
        yield AnsweredBy(question.strip(), answers, others[:_MOST_NEGATIVES])


def table_rows(sources: Sources) -> Iterator[AnsweredBy]:
    """Questions that name one cell of a row and ask for another. Rows are written as the product writes them."""
    rng = random.Random(0)
    asked = csv.DictReader(io.StringIO(sources.text(TABLES, "data/training.tsv")), delimiter="\t", quoting=3)
    tables: dict[str, list[list[str]]] = {}
    for each in asked:
        table = tables.setdefault(each["context"], _table(sources.text(TABLES, each["context"])))
        names, *rows = table
        question, wanted = each["utterance"], each["targetValue"]
        right = [row for row in rows if wanted in row]
        is_lookup = len(wanted) > 1 and "|" not in wanted and not _COMPARES.search(question) and len(right) == 1
        if is_lookup and _is_named(right[0], rows, question, wanted):
            yield _answered_by_row(question, names, rows, right[0], rng)
    for names, *rows in tables.values():
        for row in rng.sample(rows, min(_ASKED_PER_TABLE, len(rows))):
            if question := _made(names, rows, row, rng):
                yield _answered_by_row(question, names, rows, row, rng)


def _answered_by_row(
    question: str, names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str], rng: random.Random
) -> AnsweredBy:
    others = [_said(names, row) for row in rows if row is not right]
    others = [each for each in others if each]
    return AnsweredBy(question, [_said(names, right)], rng.sample(others, min(_MOST_NEGATIVES, len(others))))


def _made(names: Sequence[str], rows: Sequence[Sequence[str]], row: Sequence[str], rng: random.Random) -> str:
    """A question that names the row by a cell without digits, and asks for another; empty if no cell names it."""
    cells = [
        (name, cell) for name, cell in zip(names, row, strict=False) if name and cell and len(cell) <= _LONGEST_CELL
    ]
    keys = [
        cell
        for _, cell in cells
        if len(cell) >= _SHORTEST_CELL and not re.search(r"\d", cell) and sum(cell in other for other in rows) == 1
    ]
    if not keys:
        return ""
    key = keys[0]
    wanted = [(name, cell) for name, cell in cells if cell != key]
    if not wanted:
        return ""
    name, cell = rng.choice(wanted)
    is_number = bool(re.fullmatch(r"[\d.,%$€£ ]+", cell))
    return rng.choice([*_TEMPLATES, *(_OF_NUMBERS if is_number else ())]).format(name=name.lower(), key=key)


def _table(text: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(text), escapechar="\\", doublequote=False)
    return [[" ".join(cell.split()) for cell in row] for row in rows]


def _is_named(row: Sequence[str], rows: Sequence[Sequence[str]], question: str, wanted: str) -> bool:
    """Whether the question has the text of another cell, which no other row has."""
    asked = question.lower()
    cells = [cell for cell in row if cell != wanted and len(cell) >= _SHORTEST_CELL and cell.lower() in asked]
    return any(sum(cell in other for other in rows) == 1 for cell in cells)


def _said(names: Sequence[str], row: Sequence[str]) -> str:
    return "; ".join(f"{name}: {cell}" for name, cell in zip(names, row, strict=False) if name and cell)


KINDS: dict[str, Callable[[Sources], Iterator[AnsweredBy]]] = {
    "squad_shifts": shifted,
    "policy_qa": policies,
    "wiki_tables": table_rows,
}

if __name__ == "__main__":
    run_program(main)
