"""How often an extracted answer holds the sentence that answers, and how often it says that none does.

Questions about encyclopaedia articles (SelQA) with the sentences that answer each, and about web applications
(ir.stackfaq) with the entries that do. `tune` is half of the articles and the tuning half of the entries' questions;
`report`, the default, is the other halves.

python -m research.benchmarks.answers --data FOLDER [--home FOLDER] [--half tune|report] [--without-reader]
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from app.answers.service import AnswerService
from app.ports.answers import Answers
from app.types.answers import Answer, AnswerRequest
from embedder.command.standard_output import run_program
from embedder.evaluation.data import is_tuning, read_rows
from research.benchmarks.hybrid import Judged, ingest, parser_of, services_at

SEED = 20
ANSWERED, UNANSWERED = {"selqa": 120, "stackfaq": 20}, {"selqa": 60, "stackfaq": 20}


class Sentences(frozenset[str]):
    """Sentences that each answer a question."""


Gold = Sentences | frozenset[str]  # sentences, or the documents that answer


@dataclass(frozen=True, slots=True)
class Questions:
    collection: str
    documents: Mapping[str, str]
    answered: Sequence[tuple[str, Gold]]
    unanswered: Sequence[str]  # of other articles or entries, which are not in the collection


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    parser.add_argument("--without-reader", action="store_true", help="by vectors and words alone")
    options = parser.parse_args()
    parts = (read_sections(options.data, options.half), read_stackfaq(options.data, options.half))
    with services_at(options.home) as services:
        answers = services.answers
        if options.without_reader:
            answers = AnswerService(services.search, services.embedder)
        columns = (
            "collection",
            "answerable",
            "right",
            "right by the first sentence",
            "wrong",
            "unanswerable",
            "refused",
        )
        print(f"| {' | '.join(columns)} | median ms |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for each in parts:
            ingest(services, judged_of(each))
            measure(answers, each)


def judged_of(asked: Questions) -> Judged:
    titles = dict.fromkeys(asked.documents, "")
    return Judged(asked.collection, asked.documents, titles, asked.documents, {}, {}, {})


def measure(answers: Answers, asked: Questions) -> None:
    spent_ms: list[float] = []

    def answer_of(text: str) -> Answer:
        started = perf_counter()
        answer = answers.answer(AnswerRequest(text, asked.collection))
        spent_ms.append((perf_counter() - started) * 1000)
        return answer

    found = [(answer_of(text), gold) for text, gold in asked.answered]
    held = sum(holds(each, gold, most=None) for each, gold in found)
    first = sum(holds(each, gold, most=1) for each, gold in found)
    wrong = sum(each.is_answered for each, _ in found) - held
    told = sum(not answer_of(text).is_answered for text in asked.unanswered)
    count, other = len(asked.answered), len(asked.unanswered)
    print(
        f"| {asked.collection} | {count} | {held / count:.1%} | {first / count:.1%} | {wrong / count:.1%} | {other} | "
        f"{told / other:.1%} | {median(spent_ms):.0f} |",
        flush=True,
    )


def holds(answer: Answer, gold: Gold, *, most: int | None) -> bool:
    if isinstance(gold, Sentences):
        told = [" ".join(each.text.split()) for each in answer.sentences[:most]]
        return any(each in text or text in each for text in told for each in gold)
    uris = {each.number: each.document.uri for each in answer.passages}
    return any(uris[each.citations[0]] in gold for each in answer.sentences[:most])


def read_sections(folder: Path, half: str) -> Questions:
    """SelQA: half of its articles, each a document, without a quarter of their sections."""
    rows = read_rows(folder / "answers" / "sentences.selqa.jsonl.gz")
    articles = sorted({row["article"] for row in rows})
    random.Random(1).shuffle(articles)
    middle = len(articles) // 2
    own = set(articles[:middle] if half == "tune" else articles[middle:])
    rows = [row for row in rows if row["article"] in own]
    sections = {_section(row): row["sentences"] for row in rows}
    chance = random.Random(2)
    left_out = set(chance.sample(sorted(sections), len(sections) // 4))
    documents: dict[str, str] = {}
    for article, section in sorted(sections.keys() - left_out):
        text = f"{section}\n\n{' '.join(sections[article, section])}"
        documents[article] = "\n\n".join([documents.get(article, article), text])
    chance.shuffle(rows)
    answered = [
        (row["question"], Sentences(" ".join(row["sentences"][at].split()) for at in row["answers"]))
        for row in rows
        if _section(row) not in left_out
    ]
    return Questions(
        collection=f"selqa-{half}",
        documents=documents,
        answered=answered[: ANSWERED["selqa"]],
        unanswered=[row["question"] for row in rows if _section(row) in left_out][: UNANSWERED["selqa"]],
    )


def _section(row: Mapping[str, str]) -> tuple[str, str]:
    return row["article"], row["section"]


def read_stackfaq(folder: Path, half: str) -> Questions:
    """A third of the topics is left out, with all of their entries."""
    corpus, queries, qrels = (
        read_rows(folder / "dev" / f"ir.stackfaq.{part}.jsonl.gz") for part in ("corpus", "queries", "qrels")
    )
    gold: dict[str, set[str]] = {}
    for row in qrels:
        gold.setdefault(row["qid"], set()).add(row["did"])
    topics = sorted({row["_id"].split("_")[0] for row in corpus})
    chance = random.Random(SEED)
    left_out = set(chance.sample(topics, len(topics) // 3))
    documents = {row["_id"]: row["text"] for row in corpus if row["_id"].split("_")[0] not in left_out}
    answered = [(row["text"], frozenset(gold[row["_id"]])) for row in queries if gold[row["_id"]] <= documents.keys()]
    unanswered = [row["text"] for row in queries if not gold[row["_id"]] & documents.keys()]
    chance.shuffle(answered)
    chance.shuffle(unanswered)
    is_tuned = half == "tune"
    return Questions(
        collection="stackfaq",
        documents=documents,
        answered=[each for each in answered if is_tuning(each[0]) == is_tuned][: ANSWERED["stackfaq"]],
        unanswered=[each for each in unanswered if is_tuning(each) == is_tuned][: UNANSWERED["stackfaq"]],
    )


if __name__ == "__main__":
    run_program(main)
