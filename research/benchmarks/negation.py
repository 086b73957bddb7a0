"""What “<topic>, not about <value>” finds: how many of the first ten are about the value, and how many are about the
topic and not about the value. Topics and values are labels of texts with several aspects.

Ways to exclude are compared on the tuning half of the queries (even SHA-1 of the text); the other half is reported. All
ingested and searched by the services. With --detection: what is taken for negated in texts that people wrote.

    python -m research.benchmarks.negation --data FOLDER [--home FOLDER] [--detection FOLDER ...]
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from app.search.aspect_search import embed_plainly
from app.search.negation import find_negation
from app.search.retrieval import QueryVectors, find_points
from app.services import Services
from app.types.search import Hit, SearchRequest
from app.types.values import LensValue
from embedder.command.standard_output import run_program
from embedder.evaluation.bootstrap import draw_weights, estimate, means
from embedder.evaluation.data import files_of, is_tuning, name_of, read_rows
from research.benchmarks.hybrid import Judged, ingest, parser_of, services_at

PAIRS = {  # what is asked for, and what is not
    "factbook": (("topic", "region"), ("topic", "country"), ("region", "topic")),
    "openstax": (("subject", "chapter"),),
    "clinc150": (("domain", "intent"),),
    "hwu64": (("scenario", "intent"),),
    "cfpb_complaints": (("product", "issue"), ("product", "company")),
}
WRITTEN, TAKEN_OUT = "as it is written", "the words taken out"
DEFAULT, FILTER, VALUES = "and ranked lower (the default)", "and left out", "as values of a lens, one left out"
DIRECTIONS = {f"and {weight:g} of the vector subtracted": weight for weight in (0.25, 0.5, 0.75)}
UNRELATED = "an unrelated phrase excluded, ranked lower"
SYSTEMS = (WRITTEN, TAKEN_OUT, DEFAULT, FILTER, *DIRECTIONS, VALUES, UNRELATED)
DEPTH, DEEPER = 10, 40
_TEXTS, _LEAST_BOTH, _LEAST_TOPIC, _QUESTIONS, _MOST_VALUES = 2_000, 4, 12, 120, 200
RESAMPLES = 2_000

Labels = Mapping[str, Mapping[str, frozenset[str]]]  # text id → aspect → values
Figures = tuple[float, float]  # shares of the first ten: about the value; about the topic alone


@dataclass(frozen=True, slots=True)
class Question:
    source: str
    wanted: str  # aspects
    unwanted: str
    topic: str
    value: str
    values: tuple[str, ...]  # all of the unwanted aspect, where a lens can have so many

    @property
    def text(self) -> str:
        return f"{self.topic}, not about {self.value}"

    @property
    def pair(self) -> str:
        return f"{self.source}: {self.wanted} | {self.unwanted}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--detection", type=Path, nargs="*", default=[], help="folders of texts that people wrote")
    options = parser.parse_args()
    for folder in options.detection:
        print_detected(folder)
    scores: dict[str, dict[str, list[Figures]]] = defaultdict(lambda: defaultdict(list))  # half and pair, system
    with services_at(options.home) as services:
        for source in PAIRS:
            labels = take_in(services, options.data, source)
            questions = questions_of(source, labels)
            others = [each for name in PAIRS if name != source for each in value_names(options.data, name)]
            for question in questions:
                half = "even" if is_tuning(question.text) else "odd"
                for system, found in ask(services, question, random.Random(question.text).choice(others)).items():
                    scores[f"{half} {question.pair}"][system].append(figures(question, found, labels))
    for half in ("even", "odd"):
        print_table(half, {key.removeprefix(half + " "): each for key, each in scores.items() if key.startswith(half)})


def take_in(services: Services, folder: Path, source: str) -> Labels:
    rows = {row["text"]: row for row in read_rows(folder / f"labels.{source}.jsonl.gz")}
    texts = sorted(rows, key=lambda text: random.Random(text).random())[:_TEXTS]
    judged = Judged(source, dict(enumerate_texts(texts)), defaultdict(str), dict(enumerate_texts(texts)), {}, {}, {})
    ingest(services, judged)
    return {
        key: {name: as_set(value) for name, value in rows[text]["labels"].items()}
        for key, text in enumerate_texts(texts)
    }


def enumerate_texts(texts: list[str]) -> list[tuple[str, str]]:
    return [(str(place), text) for place, text in enumerate(texts)]


def as_set(value: str | list[str]) -> frozenset[str]:
    return frozenset([value] if isinstance(value, str) else value)


def value_names(folder: Path, source: str) -> list[str]:
    aspects = {unwanted for _, unwanted in PAIRS[source]}
    rows = read_rows(folder / f"labels.{source}.jsonl.gz")
    return sorted({v for row in rows for each in aspects for v in as_set(row["labels"].get(each, []))})


def questions_of(source: str, labels: Labels) -> list[Question]:
    found = []
    for wanted, unwanted in PAIRS[source]:
        topics = Counter(topic for each in labels.values() for topic in each.get(wanted, ()))
        both = Counter(
            (topic, value)
            for each in labels.values()
            for topic in each.get(wanted, ())
            for value in each.get(unwanted, ())
        )
        every = sorted({value for _, value in both})
        values = tuple(every) if len(every) <= _MOST_VALUES else ()
        own = [
            Question(source, wanted, unwanted, topic, value, values)
            for (topic, value), count in sorted(both.items())
            if count >= _LEAST_BOTH and topics[topic] - count >= _LEAST_TOPIC and value.lower() not in topic.lower()
        ]
        found += sorted(own, key=lambda each: random.Random(each.text).random())[:_QUESTIONS]
    return found


def ask(services: Services, question: Question, unrelated: str) -> dict[str, list[str]]:
    """System → ids of the first ten texts."""
    request = SearchRequest(question.text, question.source, limit=DEPTH)
    topic = replace(request, query=question.topic)

    def search(asked: SearchRequest, keep: Callable[[Hit], bool] = lambda hit: True) -> list[str]:
        hits = services.search.search(asked, highlight=False).hits
        return [hit.document.uri for hit in hits if keep(hit)][:DEPTH]

    found = {
        WRITTEN: search(replace(request, detect_negation=False)),
        TAKEN_OUT: search(topic),
        DEFAULT: search(replace(topic, exclude=(question.value,))),
        FILTER: search(replace(topic, exclude=(question.value,), limit=DEEPER), lambda hit: hit.excluded is None),
        UNRELATED: search(replace(topic, exclude=(unrelated,))),
    }
    index = services.catalog.collection(question.source).active_index
    [phrase] = embed_plainly(services.embedder, [question.value])
    vector = services.search.refine(question.topic, instruction="", steps=0).vector
    for system, weight in DIRECTIONS.items():
        moved = vector - weight * phrase
        points = find_points(
            services.index, index, topic, QueryVectors((moved / np.linalg.norm(moved)).tolist())
        ).points
        found[system] = [uri_of(services, each.payload) for each in points]
    if question.values:
        values = tuple(LensValue(each) for each in question.values)
        found[VALUES] = search(replace(topic, values=values, exclude=(question.value,)))
    return found


def uri_of(services: Services, payload: Mapping[str, object]) -> str:
    metadata = payload["metadata"]
    assert isinstance(metadata, Mapping)
    return str(metadata["uri"])


def figures(question: Question, found: list[str], labels: Labels) -> Figures:
    about = [question.value in labels[each].get(question.unwanted, ()) for each in found]
    topic = [question.topic in labels[each].get(question.wanted, ()) for each in found]
    clean = [is_topic and not is_value for is_topic, is_value in zip(topic, about, strict=True)]
    return sum(about) / DEPTH, sum(clean) / DEPTH


def print_table(half: str, scores: Mapping[str, Mapping[str, list[Figures]]]) -> None:
    """Means over pairs of aspects."""
    print(f"\n{half} half: {sum(len(each[WRITTEN]) for each in scores.values())} queries\n")
    print("| | about the value | the topic alone | pairs of aspects |\n| --- | --- | --- | --- |")
    for system in SYSTEMS:
        own = [each[system] for each in scores.values() if each.get(system)]
        about, clean = 100 * np.mean([np.mean(each, axis=0) for each in own], axis=0)
        print(f"| {system} | {about:.1f} % | {clean:.1f} % | {len(own)} |")
    for other in (WRITTEN, TAKEN_OUT, FILTER, *DIRECTIONS):
        told = []
        for place in (0, 1):
            parts = []
            for pair, systems in scores.items():
                gains = np.array(systems[DEFAULT])[:, place] - np.array(systems[other])[:, place]
                parts.append(100 * means(draw_weights(pair, len(gains), resamples=RESAMPLES, seed=0), gains))
            found = estimate(np.mean(parts, axis=0))
            told.append(f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]")
        print(f"\nThe default minus “{other}”: about the value {told[0]}, the topic alone {told[1]}")
    print("\n| pair of aspects | queries | about the value: " + " | ".join((WRITTEN, TAKEN_OUT, DEFAULT)) + " |")
    print("| --- |" + " --- |" * 4)
    for pair, systems in scores.items():
        row = " | ".join(f"{100 * np.mean(systems[each], axis=0)[0]:.1f} %" for each in (WRITTEN, TAKEN_OUT, DEFAULT))
        print(f"| {pair} | {len(systems[WRITTEN])} | {row} |")


def print_detected(folder: Path) -> None:
    for path in sorted({*files_of(folder, "labels"), *files_of(folder, "ir"), *files_of(folder, "pairs")}):
        rows = read_rows(path)
        texts = {text for row in rows if isinstance(text := row.get("query") or row.get("text"), str)}
        found = [(text, find_negation(text)) for text in sorted(texts)]
        clear = [text for text, each in found if each.phrases and each.is_clear]
        unclear = sum(bool(each.phrases) and not each.is_clear for _, each in found)
        print(f"{name_of(path)}: {len(texts)} texts, {len(clear)} clear, {unclear} unclear {clear}")


if __name__ == "__main__":
    run_program(main)
