"""How often the right passage comes first, and how often the answer is right, for questions as people ask them.

120 questions (`questions.tsv`) over 200 documents of other people in 25 formats (`question_documents.tsv`), written
by someone who had not seen how the product ranks: 50 in other words than the document's, 30 that share no content word
with the passage that answers, and 40 that no document answers. The documents are ingested as files.

REPOSITORIES holds bare clones as OWNER+NAME or OWNER+NAME/repo. `tune` is the tuning half of the questions, `report`
the other half.

python -m research.benchmarks.questions --repositories FOLDER [--home FOLDER] [--half tune|report] [--per-question]
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from app.documents.intake import Intake
from app.ports.answers import Answers
from app.services import Services
from app.types.answers import Answer, AnswerRequest, AnswerSentence
from app.types.documents import SourceFailure
from app.types.search import DEFAULT_MODE, Hit, SearchMode, SearchRequest
from embedder.command.standard_output import run_program
from embedder.evaluation.data import HALVES, in_half
from ingest.sources import find_files
from research.benchmarks.hybrid import services_at, work_off
from research.benchmarks.reading import Listed, listed_files, write_files

QUESTIONS = Path(__file__).with_name("questions.tsv")
DOCUMENTS = Path(__file__).with_name("question_documents.tsv")
COLLECTION = "questions"
HITS = 10
SYSTEMS = {"default": DEFAULT_MODE, "meaning alone": SearchMode.DENSE, "words alone": SearchMode.SPARSE}
UNANSWERABLE = "unanswerable"
KINDS = ("paraphrased", "no shared word", UNANSWERABLE)
_FEWEST_WORDS = 3  # of a sentence that is a part of the quote


class Question(NamedTuple):
    id: str
    text: str
    kind: str
    documents: tuple[str, ...]  # any of which answers, as OWNER/NAME/PATH
    quotes: tuple[str, ...]  # any of which answers


class Outcome(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Asked:
    """`passages` and `documents` have, by system, the rank of the first right one, or None below the tenth."""

    question: Question
    passages: Mapping[str, int | None]
    documents: Mapping[str, int | None]
    outcome: Outcome


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.benchmarks.questions", description=__doc__)
    parser.add_argument("--repositories", type=Path, required=True, help="the folder of the clones")
    parser.add_argument("--home", type=Path, help="kept between runs: what is ingested there is not ingested again")
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--per-question", action="store_true", help="print a line for each question, too")
    options = parser.parse_args()
    questions = [each for each in read_questions() if in_half(each.text, options.half)]
    with folder_at(options.home) as files, services_at(options.home) as services:
        ingest_files(services, listed_files(DOCUMENTS), options.repositories, files)
        asked = [ask(services, each, files) for each in questions]
    if options.per_question:
        print("\n".join(map(line_of, asked)))
    print(render(asked))


def read_questions(path: Path = QUESTIONS) -> list[Question]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        Question(id, text, kind, _parts(documents, "|"), _parts(quotes, " || "))
        for id, text, kind, documents, quotes in rows
    ]


def _parts(cell: str, separator: str) -> tuple[str, ...]:
    return tuple(cell.split(separator)) if cell else ()


@contextmanager
def folder_at(home: Path | None) -> Iterator[Path]:
    """Of the documents, beside a home that is kept: the address of a document is that of its file."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) if home is None else home.with_name(f"{home.name}-files")


def ingest_files(services: Services, listed: Sequence[Listed], repositories: Path, files: Path) -> None:
    """As `gircse ingest` does. Raises SystemExit if a document is left out, or others are in the collection."""
    write_files(listed, files, repositories=repositories)
    services.library.ensure_collection(COLLECTION)
    paths = [each.below(files) for each in listed]
    taken = Intake(services.library, COLLECTION).add_all(find_files(paths))
    if left_out := [f"{each.name}: {each.reason}" for each in taken if isinstance(each, SourceFailure)]:
        raise SystemExit(f"Not ingested, so the figures would be wrong: {'; '.join(left_out)}")
    work_off(services, COLLECTION)
    others = {each.uri for each in services.catalog.documents(COLLECTION, limit=1_000_000)} - set(map(_uri, paths))
    if others:
        raise SystemExit(f"{COLLECTION} also holds {', '.join(sorted(others))}. Take another --home.")


def _uri(path: Path) -> str:
    return path.resolve().as_uri()


def ask(services: Services, question: Question, files: Path) -> Asked:
    """With the settings that a person finds; the answer too."""
    uris = uris_of(question, files)
    passages: dict[str, int | None] = {}
    documents: dict[str, int | None] = {}
    for system, mode in SYSTEMS.items():
        request = SearchRequest(question.text, COLLECTION, limit=HITS, mode=mode)
        hits = services.search.search(request, highlight=False).hits
        passages[system] = rank_of(hits, lambda hit: hit.document.uri in uris and holds(hit.chunk.text, question))
        documents[system] = rank_of(hits, lambda hit: hit.document.uri in uris)
    return Asked(question, passages, documents, outcome_of(answer_to(services.answers, question), question, uris))


def uris_of(question: Question, files: Path) -> frozenset[str]:
    parts = (each.split("/", 2) for each in question.documents)
    return frozenset(_uri(files / f"{owner}+{name}" / path) for owner, name, path in parts)


def rank_of(hits: Sequence[Hit], is_right: Callable[[Hit], bool]) -> int | None:
    return next((rank for rank, hit in enumerate(hits, start=1) if is_right(hit)), None)


def holds(text: str, question: Question) -> bool:
    plain = " ".join(text.split())
    return any(quote in plain for quote in question.quotes)


def answer_to(answers: Answers, question: Question) -> Answer:
    return answers.answer(AnswerRequest(question.text, COLLECTION))


def outcome_of(answer: Answer, question: Question, uris: frozenset[str]) -> Outcome:
    if not answer.is_answered:
        return Outcome.REFUSED
    is_right = any(_answers(each, answer, question, uris) for each in answer.sentences)
    return Outcome.RIGHT if is_right else Outcome.WRONG


def _answers(sentence: AnswerSentence, answer: Answer, question: Question, uris: frozenset[str]) -> bool:
    """Whether the sentence, or what it cites, holds a quote of a document that answers, or is a part of one."""
    cited = [each for each in answer.passages if each.number in sentence.citations and each.document.uri in uris]
    texts = [sentence.text]
    if sentence.start is not None:
        texts += [each.chunk.text[sentence.start : sentence.end] for each in cited]
    return bool(cited) and any(holds(text, question) or _is_part(text, question) for text in texts)


def _is_part(text: str, question: Question) -> bool:
    words = text.split()
    return len(words) >= _FEWEST_WORDS and any(" ".join(words) in quote for quote in question.quotes)


def render(asked: Sequence[Asked]) -> str:
    """Two tables: of searches, and of answers."""
    answerable = [each for each in asked if each.question.kind != UNANSWERABLE]
    kinds = {kind: [each for each in asked if each.question.kind == kind] for kind in KINDS}
    lines = [
        "| questions | count | system | right passage first | among three | among ten | right document first "
        "| among three | among ten |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, part in {**kinds, "all answerable": answerable}.items():
        if part and name != UNANSWERABLE:
            lines += [_searched(name, part, system) for system in SYSTEMS]
    lines += [
        "",
        "| questions | count | answered rightly | wrong answers | refused |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [_answered(name, part) for name, part in {**kinds, "all answerable": answerable}.items() if part]
    return "\n".join(lines)


def _searched(name: str, asked: Sequence[Asked], system: str) -> str:
    ranks = ([each.passages[system] for each in asked], [each.documents[system] for each in asked])
    shares = [_share([rank is not None and rank <= most for rank in part]) for part in ranks for most in (1, 3, HITS)]
    return f"| {name} | {len(asked)} | {system} | {' | '.join(shares)} |"


def _answered(name: str, asked: Sequence[Asked]) -> str:
    shares = [_share([each.outcome is outcome for each in asked]) for outcome in Outcome]
    return f"| {name} | {len(asked)} | {' | '.join(shares)} |"


def _share(are_so: Sequence[bool]) -> str:
    return f"{sum(are_so) / len(are_so):.1%}"


def line_of(asked: Asked) -> str:
    """Of one question: the ranks of the right passage and document by each system, and what became of the answer."""
    ranks = ", ".join(
        f"{system} {_shown(asked.passages[system])} ({_shown(asked.documents[system])})" for system in SYSTEMS
    )
    return f"{asked.question.id}\t{asked.question.kind}\t{ranks}\t{asked.outcome}\t{asked.question.text}"


def _shown(rank: int | None) -> str:
    return "-" if rank is None else str(rank)


if __name__ == "__main__":
    run_program(main)
