"""Names, composed texts, triplets, similarity and retrieval, item by item."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from embedder.evaluation.data import (
    LabelSet,
    files_of,
    in_half,
    name_of,
    read_instructions,
    read_label_sets,
    read_rows,
    spread,
)
from embedder.training.contrasts import compose
from embedder.training.data import Aspect, labels_by_text
from research.evaluation.value_reading.reader import Reader

HALVES = ("tune", "report")
_SLOT_SOURCES = frozenset({"crossner_literature", "viggo_games"})  # values as found in texts, not label sets
_MAX_NAMES = 200
_RETRIEVED = 10


@dataclass(slots=True)
class Outcomes:
    """Scores of items: (measure, half) -> stratum -> scores. A measure is the mean over its strata."""

    items: dict[tuple[str, str], dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def add(self, measure: str, stratum: str, text: str, score: float) -> None:
        self.items[measure, "tune" if in_half(text, "tune") else "report"][stratum].append(score)

    def mean(self, measure: str, half: str) -> float:
        strata = self.items.get((measure, half), {})
        return 100 * float(np.mean([np.mean(scores) for scores in strata.values()])) if strata else float("nan")

    def interval(self, measure: str, half: str, *, samples: int = 1000) -> tuple[float, float]:
        """95 %, by drawing every stratum's items anew."""
        rng = np.random.default_rng(0)
        strata = [np.asarray(scores) for scores in self.items[measure, half].values()]
        means = [np.mean([rng.choice(each, len(each)).mean() for each in strata]) for _ in range(samples)]
        low, high = np.percentile(means, [2.5, 97.5])
        return 100 * float(low), 100 * float(high)

    def measures(self) -> list[str]:
        return list(dict.fromkeys(measure for measure, _ in self.items))


@dataclass(frozen=True, slots=True)
class NamedValues:
    """One hand-written aspect. values: name -> its texts; labels: text -> all its names."""

    name: str
    domain: str
    wordings: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, frozenset[str]]


def read_aspects(path: Path) -> list[NamedValues]:
    """Rows of `{aspect, domain, instructions, values: {name: [texts]}}`."""
    return [
        NamedValues(
            row["aspect"],
            row["domain"],
            tuple(row["instructions"]),
            {name: tuple(texts) for name, texts in row["values"].items()},
            labels_by_text(row["values"]),
        )
        for row in read_rows(path)
    ]


def names_of_aspects(reader: Reader, tasks: Sequence[NamedValues], found: Outcomes, measure: str) -> None:
    """Every text of an aspect, under one of two of its wordings, against the names of all its values."""
    for turn, task in enumerate(tasks):
        by_wording: dict[str, list[str]] = defaultdict(list)
        for place, text in enumerate(task.labels):
            chosen = (turn + place % 2 * (1 + turn // len(task.wordings))) % len(task.wordings)
            by_wording[task.wordings[chosen]].append(text)
        names = list(task.values)
        for wording, texts in by_wording.items():
            best = reader.scores(texts, wording, names).argmax(1).tolist()
            for text, at in zip(texts, best, strict=True):
                found.add(measure, "all", text, float(names[at] in task.labels[text]))


def names_of_label_sets(reader: Reader, folder: Path, found: Outcomes, *, limit: int) -> None:
    """Label sets of `folder` under their own instruction; a stratum is a set."""
    for labels in read_label_sets(folder):
        if labels.source in _SLOT_SOURCES:
            continue
        names = labels.names
        for half in HALVES:
            kept = _rows_of(labels.single_labelled(), half, limit)
            if not kept.texts:
                continue
            best = reader.scores(kept.texts, labels.instruction, names).argmax(1).tolist()
            for text, gold, at in zip(kept.texts, kept.labels, best, strict=True):
                found.add("label_sets", labels.name, text, float(names[at] in gold))


def _rows_of(labels: LabelSet, half: str, limit: int) -> LabelSet:
    return labels.take(spread([place for place, text in enumerate(labels.texts) if in_half(text, half)], limit))


@dataclass(frozen=True, slots=True)
class Composed:
    wording: str
    names: tuple[str, ...]
    query: str
    positive: str
    negative: str


def compose_aspects(tasks: Sequence[NamedValues], *, count: int, seed: int) -> list[Composed]:
    """Two sentences of aspects of two domains; the positive shares the wanted value alone."""
    rng = random.Random(seed)
    rows = []
    wordings = {id(task): rng.choice(task.wordings) for task in tasks}
    for turn in range(count):
        wanted, other = tasks[turn % len(tasks)], rng.choice(tasks)
        while other.domain == wanted.domain:
            other = rng.choice(tasks)
        label, unlike = rng.sample(sorted(wanted.values), 2)
        row = compose(rng, _aspect_of(wanted), _aspect_of(other), label, unlike)
        rows.append(Composed(wordings[id(wanted)], tuple(wanted.values), *row))
    return rows


def _aspect_of(task: NamedValues) -> Aspect:
    return Aspect(task.domain, task.name, task.wordings[0], task.values)


def composed_texts(reader: Reader, rows: Sequence[Composed], found: Outcomes, measure: str) -> None:
    """Three ways to tell: vectors under the instruction on both sides, on the query's alone, likeness of value
    distributions."""
    by_lens: dict[tuple[str, tuple[str, ...]], list[Composed]] = defaultdict(list)
    for row in rows:
        by_lens[row.wording, row.names].append(row)
    for (wording, names), group in by_lens.items():
        texts = [text for row in group for text in (row.query, row.positive, row.negative)]
        plain, read = reader.plain(texts), reader.vectors(texts, wording)
        chances = reader.scores(texts, wording, names).softmax(1)
        values = torch.nn.functional.normalize(chances, dim=1)
        for at, row in enumerate(group):
            place = slice(3 * at, 3 * at + 3)
            found.add(f"{measure}, both sides", "all", row.query, _success(*read[place]))
            found.add(f"{measure}, query side", "all", row.query, _success(read[3 * at], *plain[place][1:]))
            found.add(f"{measure}, values", "all", row.query, _success(*values[place]))


def _success(query: Tensor, positive: Tensor, negative: Tensor) -> float:
    return float(query @ positive > query @ negative)


def triplets(
    reader: Reader, folder: Path, train_folder: Path, found: Outcomes, *, held_out: frozenset[str], limit: int
) -> None:
    """A stratum is a task `source:aspect|other`."""
    tasks: dict[str, list[dict]] = defaultdict(list)
    for path in files_of(folder, "triplets"):
        for row in read_rows(path):
            tasks[row["task"]].append(row)
    names = _names_of_sources(train_folder)
    for task, rows in tasks.items():
        source, aspect = task.split("|")[0].split(":")
        kind = "held-out" if source in held_out else "trained"
        for half in HALVES:
            kept = spread([row for row in rows if in_half(row["query"], half)], limit)
            texts = [text for row in kept for text in (row["query"], row["pos"][0], row["neg"][0])]
            instruction = kept[0]["instruction"]
            vectors, plain = reader.vectors(texts, instruction), reader.plain(texts)
            scores = reader.scores(texts, instruction, names[source, aspect])
            values = torch.nn.functional.normalize(scores.softmax(1), dim=1)
            for at, row in enumerate(kept):
                place = slice(3 * at, 3 * at + 3)
                query_side = (vectors[3 * at], *plain[3 * at + 1 : 3 * at + 3])
                found.add(f"triplets {kind}, both sides", task, row["query"], _success(*vectors[place]))
                found.add(f"triplets {kind}, query side", task, row["query"], _success(*query_side))
                found.add(f"triplets {kind}, values", task, row["query"], _success(*values[place]))


def _names_of_sources(folder: Path) -> dict[tuple[str, str], list[str]]:
    """The names of every labelled aspect, at most the _MAX_NAMES most frequent."""
    instructions = read_instructions(folder)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for path in files_of(folder, "labels"):
        source = name_of(path)
        for row in read_rows(path):
            for aspect, value in row["labels"].items():
                if aspect in instructions.get(source, {}):
                    counts[source, aspect].update([value] if isinstance(value, str) else value)
    return {key: sorted(name for name, _ in each.most_common(_MAX_NAMES)) for key, each in counts.items()}


def similarity(reader: Reader, folder: Path) -> dict[str, float]:
    """STS-B dev, Spearman ×100: without an instruction, and with it on both sides."""
    rows = read_rows(folder / "sts.stsbenchmark.dev.jsonl.gz")
    first, second = [row["a"] for row in rows], [row["b"] for row in rows]
    gold = [row["score"] for row in rows]
    instruction = rows[0]["instruction"]
    plain = (reader.plain(first) * reader.plain(second)).sum(1)
    read = (reader.vectors(first, instruction) * reader.vectors(second, instruction)).sum(1)
    return {
        "sts, no instruction": 100 * float(spearmanr(plain, gold).statistic),
        "sts, instruction": 100 * float(spearmanr(read, gold).statistic),
    }


def retrieval(reader: Reader, folder: Path, cache: Path, found: Outcomes) -> None:
    """nDCG@10 of plain documents: queries without an instruction, and with the set's own. A stratum is a set."""
    for path in files_of(folder, "ir"):
        if not path.name.endswith(".corpus.jsonl.gz"):
            continue
        name = path.name.removesuffix(".corpus.jsonl.gz")
        corpus = read_rows(path)
        documents = _document_vectors(reader, corpus, cache / reader.key / f"{name}.npy")
        places = {str(row["_id"]): at for at, row in enumerate(corpus)}
        relevance: dict[str, dict[int, float]] = defaultdict(dict)
        for row in read_rows(folder / f"{name}.qrels.jsonl.gz"):
            if str(row["did"]) in places:
                relevance[str(row["qid"])][places[str(row["did"])]] = float(row["score"])
        queries = [row for row in read_rows(folder / f"{name}.queries.jsonl.gz") if relevance[str(row["_id"])]]
        texts = [row["text"] for row in queries]
        read = reader.vectors(texts, queries[0]["instruction"])
        for measure, vectors in (("nDCG, no instruction", reader.plain(texts)), ("nDCG, instruction", read)):
            ranks = (vectors @ documents.T).topk(_RETRIEVED).indices
            for row, ranked in zip(queries, ranks.tolist(), strict=True):
                found.add(measure, name, str(row["_id"]), _ndcg(ranked, relevance[str(row["_id"])]))


def _document_vectors(reader: Reader, corpus: Sequence[dict], cache: Path) -> Tensor:
    """Plain vectors of the documents, kept in a file of the model's."""
    if not cache.is_file():
        texts = [f"{row.get('title') or ''} {row['text']}".strip() for row in corpus]
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.save(cache, reader.plain(texts).numpy())
    return torch.from_numpy(np.load(cache))


def _ndcg(ranked: Sequence[int], relevance: dict[int, float]) -> float:
    discounts = 1 / np.log2(np.arange(2, _RETRIEVED + 2))
    gains = np.array([relevance.get(place, 0.0) for place in ranked])
    ideal = np.sort([*relevance.values(), *[0.0] * _RETRIEVED])[::-1][:_RETRIEVED]
    return float((gains * discounts).sum() / (ideal * discounts).sum())
