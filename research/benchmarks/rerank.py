"""A second look at the first 50 candidates: what it costs, and what it brings where an instruction asks for one aspect
of texts that have several.

Quality: a query is a text of a label set with several aspects, or two sentences of two aspects joined, under the
instruction of one of them. Relevant is what has the query's label there and another one under the rival aspect; what
has both alike is left out, so that nothing but the instruction tells what is wanted. Weights are chosen on the tuning
half of the queries (even SHA-1 of the text); the table reports the other half.

    python -m research.benchmarks.rerank --data FOLDER [--only cost | quality | retrieval] [--into docs/evaluation]
    python -m research.benchmarks.rerank --data FOLDER --only quality --characters 900    # passages as long as chunks
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from app.ports.rerank import RerankPassage
from app.search import reranking
from app.search.fusion import RankedPoint
from app.search.gircse_reranker import STEPS, EmbedderReranker, beginning_of
from app.search.reranking import Candidate, rerank
from app.search.retrieval import CHUNK_KEYS, QueryVectors, find_points
from app.search.value_distributions import QUERY_TEMPERATURE
from app.search.value_labels import ValueReadings
from app.search.value_ranking import rank_by_values
from app.testing import InMemoryVectorIndex
from app.types.documents import Point, ScoredPoint
from app.types.search import SearchMode, SearchRequest
from app.types.values import LensValue
from app.wiring.embedding import LocalEmbedder
from embedder import Encoder, load_encoder
from embedder.command.standard_output import run_program
from embedder.engine.limits import Limits
from embedder.evaluation.bootstrap import draw_weights, estimate, means
from embedder.evaluation.data import files_of, is_tuning, name_of, read_instructions, read_rows
from embedder.evaluation.machine import cpu_name
from embedder.model_info import DEFAULT_MODEL
from embedder.text.mentions import mentions
from embedder.text.relevance import distributions, similarities, value_cosines
from research.benchmarks.hybrid import COLLECTIONS, Judged, per_query, read_judged

CANDIDATES, DEPTH = 50, 10
PLAIN, NONE, TODAY = "MiniLM alone", "no instruction", "instruction"
LOOK, VALUES, BOTH = "second look", "values", "values and second look"
LOOK_AT_ALL = "second look, whole passages"  # where they are longer than what second looks read
SYSTEMS = (PLAIN, NONE, TODAY, LOOK, LOOK_AT_ALL, VALUES, BOTH)
PAIRS = (
    (TODAY, NONE),
    (LOOK, TODAY),
    (LOOK, LOOK_AT_ALL),
    (LOOK, NONE),
    (VALUES, NONE),
    (BOTH, VALUES),
    (BOTH, NONE),
)
HELD_OUT = ("crossner_literature", "viggo_games", "composed")  # of none of them a model of ours was trained
WEIGHTS = [round(0.1 * step, 1) for step in range(11)]
RESAMPLES = 2_000
_TEXTS, _CHARACTERS, _ASPECTS, _QUERIES, _LEAST = 150, 400, 4, 12, 5
_COMPOSED, _COMPOSED_VALUES = 16, 8
_METADATA = dict.fromkeys(CHUNK_KEYS, "")
_PAYLOAD = {"page_content": "", "metadata": _METADATA}
_JUDGED_QUERIES, _JUDGED_CHARACTERS = 60, 700  # characters: about as long as a chunk


@dataclass(slots=True)
class Source:
    """`labels[aspect][row]`; vectors are made by `embed`."""

    name: str
    texts: list[str]
    labels: dict[str, list[frozenset[str]]]
    instructions: dict[str, str]
    plain: np.ndarray = field(default_factory=lambda: np.empty(0))  # (n, D)
    asked: dict[str, np.ndarray] = field(default_factory=dict)  # by aspect, "" for none, as queries at default steps
    seen: dict[str, np.ndarray] = field(default_factory=dict)  # by aspect, as second looks
    whole: dict[str, np.ndarray] = field(default_factory=dict)  # the same of whole texts
    names: dict[str, np.ndarray] = field(default_factory=dict)  # by aspect, of its values in their order
    said: dict[str, np.ndarray] = field(default_factory=dict)  # by aspect, which of its values each text says
    index: InMemoryVectorIndex = field(default_factory=InMemoryVectorIndex)
    found: dict[tuple[int, str], Sequence[RankedPoint]] = field(default_factory=dict)

    def values(self, aspect: str) -> list[str]:
        return sorted(frozenset().union(*self.labels[aspect]))


@dataclass(frozen=True, slots=True)
class Question:
    source: Source
    row: int
    aspect: str
    relevant: frozenset[int]
    rows: tuple[int, ...]  # of all that may be found

    @property
    def is_tuning(self) -> bool:
        return is_tuning(self.source.texts[self.row])


class Looked:
    """Implements `Reranker` by vectors that are there."""

    def __init__(self, vectors: np.ndarray, asked: np.ndarray, rows: Mapping[int, int] | None = None) -> None:
        """asked: the query's vector; rows: of a passage by its id, where they are not the same."""
        self._vectors = vectors
        self._asked = asked
        self._rows = rows

    def scores(self, query: str, passages: Sequence[RerankPassage], *, instruction: str) -> list[float]:
        ids = [int(each.id) for each in passages]
        rows = ids if self._rows is None else [self._rows[each] for each in ids]
        return (self._vectors[rows] @ self._asked).astype(float).tolist()

    def close(self) -> None:
        """Nothing is held open."""


def read_sources(folder: Path, *, characters: int = _CHARACTERS) -> Iterator[Source]:
    rng, instructions = random.Random(0), read_instructions(folder)
    for path in files_of(folder, "labels"):
        rows = list({row["text"]: row for row in read_rows(path)}.values())
        rows = rng.sample(rows, min(_TEXTS, len(rows)))
        labels = {
            aspect: [_labels_of(row["labels"].get(aspect)) for row in rows]
            for aspect in instructions.get(name_of(path), {})
        }
        named = {each: sets for each, sets in labels.items() if 2 <= len(frozenset().union(*sets)) <= 200}
        most = sorted(named, key=lambda each: -sum(map(bool, named[each])))[:_ASPECTS]
        texts = [row["text"][:characters] for row in rows]
        told = {each: instructions[name_of(path)][each] for each in most}
        yield Source(name_of(path), texts, {each: named[each] for each in most}, told)
    yield from compose(read_rows(folder / "aspects.jsonl.gz"), rng)


def _labels_of(value: str | list[str] | None) -> frozenset[str]:
    return frozenset([value] if isinstance(value, str) else value or ())


def compose(aspects: Sequence[dict], rng: random.Random) -> Iterator[Source]:
    """A text of two sentences for every pair of values of two aspects."""
    left = list(aspects)
    rng.shuffle(left)
    for _ in range(_COMPOSED):
        first = left.pop()
        second = next(each for each in left if each["domain"] != first["domain"])
        left.remove(second)
        ours, theirs = (sorted(each["values"])[:_COMPOSED_VALUES] for each in (first, second))
        pairs = [(one, other) for one in ours for other in theirs]
        texts = [f"{rng.choice(first['values'][one])} {rng.choice(second['values'][other])}" for one, other in pairs]
        labels = {
            first["aspect"]: [frozenset([one]) for one, _ in pairs],
            second["aspect"]: [frozenset([other]) for _, other in pairs],
        }
        told = {each["aspect"]: each["instructions"][0] for each in (first, second)}
        yield Source("composed", texts, labels, told)


def questions_of(source: Source, rng: random.Random) -> list[Question]:
    found = []
    for aspect in source.labels:
        for rival in source.labels:
            own, other = source.labels[aspect], source.labels[rival]
            rows = rng.sample(range(len(source.texts)), len(source.texts)) if rival != aspect else []
            asked = [question for row in rows if (question := _question(source, row, aspect, own, other)) is not None]
            found += asked[:_QUERIES]
    return found


def _question(
    source: Source, row: int, aspect: str, own: Sequence[frozenset[str]], other: Sequence[frozenset[str]]
) -> Question | None:
    """None where too few are relevant, or too few share the rival aspect alone."""
    alike = {at for at in range(len(own)) if at != row and own[at] & own[row]}
    rivals = {at for at in range(len(own)) if at != row and other[at] & other[row]}
    if len(alike - rivals) < _LEAST or len(rivals - alike) < _LEAST:
        return None
    rows = tuple(at for at in range(len(own)) if at != row and at not in alike & rivals)
    return Question(source, row, aspect, frozenset(alike - rivals), rows)


def embed(encoder: Encoder, source: Source) -> None:
    source.plain = encoder.encode_documents(source.texts, instruction="", steps=0)
    for aspect, instruction in {"": "", **source.instructions}.items():
        rows = sorted({each.row for each in source_questions(source) if aspect in ("", each.aspect)})
        source.asked[aspect] = np.zeros_like(source.plain)
        if rows:
            texts = [source.texts[row] for row in rows]
            source.asked[aspect][rows] = encoder.encode_queries(texts, instruction=instruction)
    for aspect, instruction in source.instructions.items():
        source.whole[aspect] = encoder.encode_documents(source.texts, instruction=instruction, steps=STEPS)
        beginnings = [beginning_of(text) for text in source.texts]
        source.seen[aspect] = source.whole[aspect]
        if beginnings != source.texts:
            source.seen[aspect] = encoder.encode_documents(beginnings, instruction=instruction, steps=STEPS)
        source.names[aspect] = encoder.encode_documents(source.values(aspect), instruction="", steps=0)
    source.index.create(source.name, dimension=encoder.dimension)
    source.index.upsert(
        source.name,
        [
            Point(str(row), source.plain[row].tolist(), {"page_content": text, "metadata": _METADATA})
            for row, text in enumerate(source.texts)
        ],
    )


def source_questions(source: Source) -> list[Question]:
    return questions_of(source, random.Random(1))


def rank(question: Question, system: str) -> list[int]:
    """Rows, best first, by the code of the product. What is not among the candidates of a second look is left out."""
    source, aspect = question.source, question.aspect
    if system == PLAIN:
        rows = np.array(question.rows)
        return rows[np.argsort(-(source.plain[rows] @ source.plain[question.row]), kind="stable")].tolist()
    points = first_ranking(question, "" if system == NONE else aspect)
    candidates: Sequence[Candidate] = [Candidate(RankedPoint(each)) for each in points]
    request = SearchRequest("", "", rerank=CANDIDATES)
    if system in (VALUES, BOTH):
        readings = _readings(question, [int(each.id) for each in points])
        ranked = rank_by_values(points, readings)
        candidates = [Candidate(RankedPoint(point), reading) for point, reading in ranked]
        request = SearchRequest("", "", rerank=CANDIDATES, values=(LensValue("a"), LensValue("b")))
    if system in (LOOK, LOOK_AT_ALL, BOTH):
        seen = source.whole if system == LOOK_AT_ALL else source.seen
        look = Looked(seen[aspect], source.whole[aspect][question.row])
        candidates = rerank(look, candidates[:CANDIDATES], request, instruction="").candidates
    return [int(each.ranked.point.id) for each in candidates]


def first_ranking(question: Question, aspect: str) -> list[ScoredPoint]:
    """As a search in its default mode finds them; `aspect` is whose instruction it has, "" without one."""
    source = question.source
    if (question.row, aspect) not in source.found:
        text = source.texts[question.row]
        request = SearchRequest(text, source.name, limit=len(source.texts), mode=SearchMode.HYBRID)
        vectors = QueryVectors(source.asked[aspect][question.row].tolist(), source.plain[question.row].tolist())
        source.found[question.row, aspect] = find_points(source.index, source.name, request, vectors).points
    return [each for each in source.found[question.row, aspect] if int(each.id) in question.rows]


def _readings(question: Question, rows: Sequence[int]) -> ValueReadings:
    source, names = question.source, question.source.names[question.aspect]
    own = [question.row, *rows]
    said = source.said.setdefault(question.aspect, mentions(source.texts, source.values(question.aspect)))
    cosines = value_cosines(source.plain[own], names, range(len(names)), said[own])
    [query] = distributions(cosines[:1], QUERY_TEMPERATURE)
    alike = similarities(distributions(cosines[1:]), query)
    return ValueReadings([""], np.zeros(len(rows), dtype=np.int64), alike, alike)


def precision(question: Question, ranked: Sequence[int]) -> float:
    """At DEPTH, or at as many as are relevant."""
    depth = min(DEPTH, len(question.relevant))
    return sum(row in question.relevant for row in ranked[:depth]) / depth


def tune(questions: Sequence[Question]) -> dict[str, dict[float, float]]:
    """Mean precision by weight, on the tuning half."""
    tuning = [each for each in questions if each.is_tuning]
    found: dict[str, dict[float, float]] = {}
    kept = reranking.RERANK_WEIGHT
    for system in (LOOK, BOTH):
        for weight in WEIGHTS:
            reranking.RERANK_WEIGHT = weight
            values = [precision(each, rank(each, system)) for each in tuning]
            found.setdefault(system, {})[weight] = by_source(tuning, values)
    reranking.RERANK_WEIGHT = kept
    return found


def by_source(questions: Sequence[Question], values: Sequence[float]) -> float:
    """The mean of the means of sources, of 100."""
    groups: dict[str, list[float]] = {}
    for question, value in zip(questions, values, strict=True):
        groups.setdefault(question.source.name, []).append(value)
    return 100 * statistics.fmean(map(statistics.fmean, groups.values()))


def replicates(questions: Sequence[Question]) -> dict[str, dict[str, np.ndarray]]:
    """Source → system → (1 + resamples,): all systems see the same resamples."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for name in dict.fromkeys(each.source.name for each in questions):
        chosen = [each for each in questions if each.source.name == name and not each.is_tuning]
        weights = draw_weights(name, len(chosen), resamples=RESAMPLES, seed=0)
        found[name] = {
            system: 100 * means(weights, np.array([precision(each, rank(each, system)) for each in chosen]))
            for system in SYSTEMS
        }
    return found


def quality(folder: Path, model: str, *, characters: int = _CHARACTERS) -> tuple[str, dict[str, object]]:
    encoder = load_encoder(model, dtype="float32")
    questions: list[Question] = []
    for source in read_sources(folder, characters=characters):
        asked = source_questions(source)
        if asked:
            embed(encoder, source)
            questions += asked
    tuned = tune(questions)
    found = replicates(questions)
    groups = {
        "held-out sources": [name for name in found if name in HELD_OUT],
        "other sources": [name for name in found if name not in HELD_OUT],
        "all": list(found),
    }
    rows = {**{name: [name] for name in found}, **groups}
    lines = [
        f"{model}; {len(questions)} queries, {sum(not each.is_tuning for each in questions)} of them in the odd half",
        "",
        f"| precision@{DEPTH}, odd half | " + " | ".join(SYSTEMS) + " |",
        "| --- |" + " --- |" * len(SYSTEMS),
    ]
    figures: dict[str, object] = {"tuning half": tuned}
    for name, members in rows.items():
        each = {system: np.mean([found[member][system] for member in members], axis=0) for system in SYSTEMS}
        lines.append(f"| {name} | " + " | ".join(f"{each[system][0]:.1f}" for system in SYSTEMS) + " |")
        figures[name] = {system: float(each[system][0]) for system in SYSTEMS}
    lines += [""]
    for name, members in groups.items():
        for system, other in PAIRS:
            gain = estimate(np.mean([found[member][system] - found[member][other] for member in members], axis=0))
            lines.append(f"{name}: {system} minus {other}: {gain.value:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]  ")
    lines += ["", "Tuning half, by weight of re-ranking:", ""]
    lines += [
        f"{name}: {', '.join(f'{at:g} {value:.1f}' for at, value in row.items())}  " for name, row in tuned.items()
    ]
    return "\n".join(lines), figures


def retrieval(folder: Path, model: str) -> tuple[str, dict[str, object]]:
    """nDCG@10 of collections with judged queries, of the base model's vectors and with a second look under the
    collection's instruction, which only says to find what answers."""
    encoder = load_encoder(model, dtype="float32")
    lines = [f"| nDCG@{DEPTH}, odd half | queries | {PLAIN} | {LOOK} | difference |", "| --- | --- | --- | --- | --- |"]
    figures: dict[str, object] = {}
    for name in COLLECTIONS:
        judged = read_judged(folder, name)
        keys = [key for key, text in judged.queries.items() if not is_tuning(text)][:_JUDGED_QUERIES]
        places = list(judged.documents)
        texts = [text[:_JUDGED_CHARACTERS] for text in judged.documents.values()]
        documents = encoder.encode_documents(texts, instruction="", steps=0)
        asked = encoder.encode_documents([judged.queries[key] for key in keys], instruction="", steps=0)
        found = [
            _first_and_second(encoder, judged, key, query, documents, texts)
            for key, query in zip(keys, asked, strict=True)
        ]
        first, second = (
            per_query(judged, {key: [places[at] for at in each[way]] for key, each in zip(keys, found, strict=True)})
            for way in (0, 1)
        )
        weights = draw_weights(name, len(keys), resamples=RESAMPLES, seed=0)
        values = [100 * means(weights, np.array([each["ndcg@10"][key] for key in keys])) for each in (first, second)]
        gain = estimate(values[1] - values[0])
        told = f"{gain.value:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"
        lines.append(f"| {name} | {len(keys)} | {values[0][0]:.1f} | {values[1][0]:.1f} | {told} |")
        figures[name] = {PLAIN: float(values[0][0]), LOOK: float(values[1][0]), "low": gain.low, "high": gain.high}
    return "\n".join(lines), figures


def _first_and_second(
    encoder: Encoder, judged: Judged, key: str, query: np.ndarray, documents: np.ndarray, texts: Sequence[str]
) -> tuple[list[int], list[int]]:
    """Rows, best first, of both rankings."""
    scores = documents @ query
    order = np.argsort(-scores, kind="stable")[:CANDIDATES]
    candidates = [Candidate(RankedPoint(ScoredPoint(str(at), float(scores[at]), _PAYLOAD))) for at in order]
    instruction = judged.instructions[key]
    asked = encoder.encode_queries([judged.queries[key]], instruction=instruction, steps=STEPS)
    passages = [beginning_of(texts[at]) for at in order]
    seen = encoder.encode_documents(passages, instruction=instruction, steps=STEPS)
    rows = {int(at): row for row, at in enumerate(order)}
    look = Looked(seen, asked[0], rows)
    again = rerank(look, candidates, SearchRequest("", "", rerank=CANDIDATES), instruction=instruction).candidates
    return order.tolist(), [int(each.ranked.point.id) for each in again]


def cost(model: str, *, rounds: int) -> tuple[str, Mapping[str, float]]:
    """Of 50 passages as long as chunks are, with new ones in every round; and of the same again."""
    texts = [json.loads(line)["text"] for line in _sample_lines()]
    words = " ".join(texts).split()
    step = 130  # words: about the 200 tokens of a chunk
    chunks = [" ".join(words[at : at + step]) for at in range(0, len(words) - step, step)]
    cold, kept, busy = [], [], []
    embedder = LocalEmbedder(model, dtype="auto", limits=Limits(cache_mb=0))
    for turn in range(rounds + 1):
        texts = [chunks[(turn * CANDIDATES + at) % len(chunks)] for at in range(CANDIDATES)]
        passages = [RerankPassage(f"{turn}-{at}", text, "") for at, text in enumerate(texts)]
        reranker = EmbedderReranker(embedder)
        spent, worked = [], []
        for _ in range(2):
            started, began = perf_counter(), process_time()
            reranker.scores("Which islands live of fishing?", passages, instruction="Identify the region of the world.")
            spent.append(1000 * (perf_counter() - started))
            worked.append(1000 * (process_time() - began))
        if turn:  # the first is for warming up
            cold.append(spent[0])
            kept.append(spent[1])
            busy.append(worked[0])
    embedder.close()
    figures = {
        "cold_ms": statistics.median(cold),
        "kept_ms": statistics.median(kept),
        "cold_cpu_ms": statistics.median(busy),  # of all threads: what it takes where nothing else runs beside it
    }
    new = f"{figures['cold_ms']:.0f} ms new (best {min(cold):.0f}, CPU {figures['cold_cpu_ms']:.0f})"
    again = f"{figures['kept_ms']:.1f} ms kept (best {min(kept):.1f})"
    return f"{cpu_name()}; median of {rounds} rounds of {CANDIDATES} passages of {step} words: {new}, {again}", figures


def _sample_lines() -> list[str]:
    return (Path(__file__).parents[1] / "sample" / "library.jsonl").read_text("utf-8").splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of labels.*.jsonl.gz and aspects.jsonl.gz")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--only", choices=("cost", "quality", "retrieval"))
    parser.add_argument("--characters", type=int, default=_CHARACTERS, help="of the texts of the quality")
    parser.add_argument("--rounds", type=int, default=9, help="of the cost")
    parser.add_argument("--into", type=Path, help="write rerank.json there, as it stands in the documentation")
    options = parser.parse_args()
    content: dict[str, object] = {}
    if options.only in (None, "cost"):
        told, content["cost"] = cost(options.model, rounds=options.rounds)
        print(told, flush=True)
    if options.only != "cost" and options.data is None:
        parser.error("--data is needed for the quality")
    if options.only in (None, "quality"):
        told, content["quality"] = quality(options.data, options.model, characters=options.characters)
        print(told, flush=True)
    if options.only in (None, "retrieval"):
        told, content["retrieval"] = retrieval(options.data, options.model)
        print(told)
    if options.into:
        (options.into / "rerank.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_program(main)
