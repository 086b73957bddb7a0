"""Whether *strong*, *fair* and *weak* mean the same under every instruction, and how far an instruction moves a query.

Labelled texts are queries over other texts of the same set, under the instruction of an aspect: a passage agrees if it
has one of the query's labels. A judged collection is searched for its own queries, and for those of the other
collections, which no passage there answers. The bounds were chosen on the tuning half of the
queries (even SHA-1 of the text).

    python -m research.benchmarks.instructed_matches --data FOLDER FOLDER [--half report] [--model gircse-small]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.search.gircse_reranker import STEPS, beginning_of
from embedder.checkpoint import load_encoder
from embedder.command.standard_output import run_program
from embedder.encoder import Encoder
from embedder.evaluation.data import HALVES, choose, files_of, read_label_sets, spread
from research.benchmarks.hybrid import Judged, read_judged

PASSAGES, CANDIDATES = 300, 20
QUERIES = 24  # of a set
DEPTH = 10
WEIGHTS = (0.0, 0.5, 0.6, 0.7, 0.8, 1.0)  # of the cosine under the instruction in re-ranking
SETS = (
    "banking77.intent",
    "cfpb_complaints.product",
    "clinc150.domain",
    "clinc150.intent",
    "factbook.country",
    "factbook.topic",
    "goemotions.ekman",
    "goemotions.sentiment",
    "hwu64.scenario",
    "openstax.subject",
    "selfhosted.category",
    "viggo_games.genres",
    "wiki_movies.genre",
)
BIN = 0.05  # of the cosines of which --bins shows the agreement


@dataclass(frozen=True, slots=True)
class Graded:
    """The best candidates of the queries of one set: first scores, cosines under the instruction, and whether each
    agrees, (Q, K).

    answers: how many passages agree, (Q,). nearness: cosine (Q,) of the query's vectors under the instruction and
    without one."""

    name: str
    first: np.ndarray
    cosines: np.ndarray
    agrees: np.ndarray
    answers: np.ndarray
    nearness: np.ndarray

    def ndcg(self, scores: np.ndarray) -> float:
        """Mean nDCG@10 of the candidates by these scores (Q, K), of the queries that any passage agrees with."""
        gains = np.take_along_axis(self.agrees, np.argsort(-scores, axis=1, kind="stable"), axis=1)[:, :DEPTH]
        discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
        best = np.array([discounts[: min(count, DEPTH)].sum() for count in self.answers])
        return float(((gains @ discounts)[best > 0] / best[best > 0]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="folders of labels.* and ir.*")
    parser.add_argument("--sets", nargs="+", default=SETS, help="aspects, as banking77.intent")
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--model", default="gircse-small")
    parser.add_argument("--bins", action="store_true", help="show the share that agrees by cosine, to choose bounds")
    options = parser.parse_args()
    encoder = load_encoder(options.model, dtype="float32")
    judged = [read_judged(folder, name) for folder in options.data for name in names_of(folder)]
    aspects = [grade_aspect(encoder, *each) for each in aspects_of(options.data, options.half, options.sets)]
    own = [grade_judged(encoder, each, queries_of(each, options.half), each) for each in judged]
    off_topic = [
        grade_judged(encoder, other, queries_of(other, options.half)[:8], each)
        for each in judged
        for other in judged
        if other is not each
    ]
    bounds = encoder.info.match_cosines
    if options.bins or bounds is None:
        print(bins([*aspects, *own]))
        return
    print("| aspect or collection | agree | weak | fair | strong | nearness |\n| --- | --- | --- | --- | --- | --- |")
    for each in [*aspects, *own]:
        print(row(each, bounds))
    print(f"\n{by_weight(aspects)}")
    best = np.concatenate([each.cosines.max(axis=1) for each in off_topic])
    shares = [100 * float((best < bound).mean()) for bound in bounds]
    print(f"\nOf {len(best)} queries of another collection, {shares[0]:.1f} % get only weak hits.")


def names_of(folder: Path) -> list[str]:
    return [path.name.split(".")[1] for path in files_of(folder, "ir") if ".corpus." in path.name]


def aspects_of(
    folders: Sequence[Path], half: str, sets: Sequence[str]
) -> Iterator[tuple[str, str, list[str], list[str], np.ndarray]]:
    """Name, instruction, queries, passages, and whether they agree (Q, P), of each aspect with enough texts."""
    for each in (found for folder in folders for found in read_label_sets(folder, only=sets)):
        rows = range(len(each.texts))
        asked = choose(rows[::2], half, QUERIES, each.texts.__getitem__)
        passages = spread(rows[1::2], PASSAGES)
        agrees = np.array([[bool(each.labels[q] & each.labels[p]) for p in passages] for q in asked])
        if len(asked) == QUERIES and 0 < agrees.mean() < 0.5:
            yield (
                each.name,
                each.instruction,
                [each.texts[at] for at in asked],
                [each.texts[at] for at in passages],
                agrees,
            )


def grade_aspect(
    encoder: Encoder, name: str, instruction: str, queries: list[str], passages: list[str], agrees: np.ndarray
) -> Graded:
    return grade(encoder, name, [instruction] * len(queries), queries, passages, agrees)


def queries_of(judged: Judged, half: str) -> list[str]:
    return choose(list(judged.queries), half, QUERIES, judged.queries.__getitem__)


def grade_judged(encoder: Encoder, asked: Judged, keys: list[str], collection: Judged) -> Graded:
    """Queries of `asked` over passages of `collection`, among them all that answer its own queries."""
    answers = {place for key in keys for place in collection.grades.get(key, ())} if asked is collection else set()
    places = [*answers, *spread([place for place in collection.documents if place not in answers], PASSAGES)]
    agrees = np.array([[collection.grades.get(key, {}).get(place, 0) > 0 for place in places] for key in keys])
    return grade(
        encoder,
        collection.name,
        [asked.instructions[key] for key in keys],
        [asked.queries[key] for key in keys],
        [collection.documents[place] for place in places],
        agrees & (asked is collection),
    )


def grade(
    encoder: Encoder, name: str, instructions: list[str], queries: list[str], passages: list[str], agrees: np.ndarray
) -> Graded:
    plain = encoder.encode_documents(passages, instruction="", steps=0)
    asked = encoder.encode_documents(queries, instruction="", steps=0)
    under = np.concatenate(
        [encoder.encode_queries([text], instruction=each) for text, each in zip(queries, instructions, strict=True)]
    )
    first = (2 * under + asked) @ plain.T / 3  # as the legs are weighted
    best = np.argsort(-first, axis=1)[:, :CANDIDATES]
    cosines = []
    for text, instruction, rows in zip(queries, instructions, best, strict=True):
        query = encoder.encode_queries([text], instruction=instruction, steps=STEPS)[0]
        seen = encoder.encode_documents(
            [beginning_of(passages[at]) for at in rows], instruction=instruction, steps=STEPS
        )
        cosines.append(seen @ query)
    return Graded(
        name,
        first=np.take_along_axis(first, best, axis=1),
        cosines=np.array(cosines),
        agrees=np.take_along_axis(agrees, best, axis=1),
        answers=agrees.sum(axis=1),
        nearness=(under * asked).sum(axis=1),
    )


def row(graded: Graded, bounds: tuple[float, float]) -> str:
    """Of the passages of each grade, the share that agrees."""
    grades = np.digitize(graded.cosines, bounds)
    shares = [graded.agrees[grades == at] for at in range(3)]
    cells = " | ".join(f"{100 * each.mean():.0f} % of {len(each)}" if len(each) else "–" for each in shares)
    return f"| {graded.name} | {100 * graded.agrees.mean():.0f} % | {cells} | {graded.nearness.mean():.2f} |"


def by_weight(found: Sequence[Graded]) -> str:
    """nDCG@10 of the re-ranked candidates by the weight of the cosine; every set counts alike."""
    scaled = [np.mean([each.ndcg(0.3 * unit(each.first) + 0.7 * unit(each.cosines)) for each in found])]
    added = [np.mean([each.ndcg((1 - w) * each.first + w * each.cosines) for each in found]) for w in WEIGHTS]
    names = [*(f"added, {weight}" for weight in WEIGHTS), "scaled, 0.7"]
    return "\n".join(
        [
            f"| {' | '.join(names)} |",
            f"| {' | '.join('---' for _ in names)} |",
            f"| {' | '.join(f'{100 * each:.1f}' for each in [*added, *scaled])} |",
        ]
    )


def unit(scores: np.ndarray) -> np.ndarray:
    """Scores (Q, K), from 0 to 1 for every query."""
    low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    return (scores - low) / np.maximum(high - low, 1e-9)


def bins(found: Sequence[Graded]) -> str:
    """The share that agrees by cosine; every set counts alike."""
    lines = ["| cosine from | agree | sets |", "| --- | --- | --- |"]
    for start in np.arange(0, 1, BIN):
        inside = [(each.cosines >= start) & (each.cosines < start + BIN) for each in found]
        shares = [each.agrees[rows].mean() for each, rows in zip(found, inside, strict=True) if rows.sum() >= 5]
        if shares:
            lines.append(f"| {start:.2f} | {100 * np.mean(shares):.0f} % | {len(shares)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_program(main)
