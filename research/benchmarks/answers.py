"""How often an extracted answer holds the sentence that answers, and how often it says that none does.

Questions about encyclopaedia articles (pairs.squad_sentence) with the sentence that answers each, and about web
applications (ir.stackfaq) with the entries that do. What the limits were chosen on is the first half of the articles
and the tuning half of the entries' questions; the other halves are reported.

python -m research.benchmarks.answers --data FOLDER [--home FOLDER] [--half tune|report]
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.services import Services
from app.types.answers import Answer, AnswerRequest
from embedder.evaluation.data import is_tuning, read_rows
from research.benchmarks.hybrid import Judged, ingest, parser_of, services_at

SEED = 20
ROWS, ASKED_ROWS, GAP = 2_900, 2_300, 150  # of a half: all, those with documents, and those in between (an article)
SENTENCES = 8  # of a document
ANSWERED, UNANSWERED = {"squad": 40, "stackfaq": 20}, 20
REMOVED = 40

Gold = str | frozenset[str]  # a sentence, or the documents that answer


@dataclass(frozen=True, slots=True)
class Questions:
    collection: str
    documents: Mapping[str, str]
    answered: Sequence[tuple[str, Gold]]
    unanswered: Sequence[str]  # of other articles or entries, which are not in the collection
    removed: Sequence[str] = ()  # of these articles, without the sentence that answers


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    options = parser.parse_args()
    parts = (read_squad(options.data, options.half), read_stackfaq(options.data, options.half))
    with services_at(options.home) as services:
        print("| collection | with an answer | held | held by the first | sentences | without one | told so |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        total = [0] * 4
        for each in parts:
            ingest(services, judged_of(each))
            row = measure(services, each)
            total = [one + other for one, other in zip(total, row, strict=True)]
        print(f"| all | {total[0]} | {total[1] / total[0]:.1%} | | | {total[2]} | {total[3] / total[2]:.1%} |")


def judged_of(asked: Questions) -> Judged:
    titles = dict.fromkeys(asked.documents, "")
    return Judged(asked.collection, asked.documents, titles, asked.documents, {}, {}, {})


def measure(services: Services, asked: Questions) -> list[int]:
    found = [(answer_of(services, asked, text), gold) for text, gold in asked.answered]
    right = sum(holds(each, gold, most=None) for each, gold in found)
    first = sum(holds(each, gold, most=1) for each, gold in found)
    length = sum(len(each.sentences) for each, _ in found) / max(1, sum(each.is_answered for each, _ in found))
    told = sum(not answer_of(services, asked, text).is_answered for text in asked.unanswered)
    count, other = len(asked.answered), len(asked.unanswered)
    print(
        f"| {asked.collection} | {count} | {right / count:.1%} | {first / count:.1%} | {length:.1f} | {other} | "
        f"{told / other:.1%} |",
        flush=True,
    )
    if asked.removed:
        told_hard = sum(not answer_of(services, asked, text).is_answered for text in asked.removed)
        share = f"{told_hard / len(asked.removed):.1%}"
        print(f"| {asked.collection}, the sentence removed | | | | | {len(asked.removed)} | {share} |")
    return [count, right, other, told]


def answer_of(services: Services, asked: Questions, text: str) -> Answer:
    return services.answers.answer(AnswerRequest(text, asked.collection))


def holds(answer: Answer, gold: Gold, *, most: int | None) -> bool:
    if isinstance(gold, str):
        return any(gold in " ".join(each.text.split()) or each.text in gold for each in answer.sentences[:most])
    uris = {each.number: each.document.uri for each in answer.passages}
    return any(uris[each.citations[0]] in gold for each in answer.sentences[:most])


def read_squad(folder: Path, half: str) -> Questions:
    """Sentences that follow each other in the file are of one article."""
    every = read_rows(folder / "train" / "pairs.squad_sentence.jsonl.gz")
    middle = len(every) // 2
    rows = (every[: middle - 100] if half == "tune" else every[middle + 100 :])[:ROWS]
    inside, outside = rows[:ASKED_ROWS], rows[ASKED_ROWS + GAP :]
    chance = random.Random(SEED)
    asked, removed = chance.sample(inside, 100), chance.sample(inside, 60)
    gone = {row["pos"][0] for row in removed}
    kept = [text for text in dict.fromkeys(row["pos"][0] for row in inside) if text not in gone]
    return Questions(
        collection=f"squad-{half}",
        documents={
            f"{half}-{at // SENTENCES}": " ".join(kept[at : at + SENTENCES]) for at in range(0, len(kept), SENTENCES)
        },
        answered=[(row["query"], " ".join(row["pos"][0].split())) for row in asked if row["pos"][0] not in gone][
            : ANSWERED["squad"]
        ],
        unanswered=[row["query"] for row in chance.sample(outside, 60)][:UNANSWERED],
        removed=[row["query"] for row in removed][:REMOVED],
    )


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
        unanswered=[each for each in unanswered if is_tuning(each) == is_tuned][:UNANSWERED],
    )


if __name__ == "__main__":
    main()
