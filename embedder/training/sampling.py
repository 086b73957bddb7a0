"""Draws batches of one task each, so that in-batch negatives are fair.

A batch is a pure function of (seed, step): a resumed run continues with the same data order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from embedder.errors import DataError
from embedder.training.contrasts import compose, find_contrasts, short_aspects
from embedder.training.data import Aspect, Pair, TrainingData
from embedder.training.wordings import shipped_wordings

KINDS = (
    *("pairs", "similarity", "labels", "label_queries", "label_names", "name_queries"),
    *("triplets", "triplet_queries", "contrasts", "composed"),
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Queries and documents of one task, for contrastive training. `documents[i]` is the positive of `queries[i]`;
    further documents are hard negatives.

    allowed (Q, M): False if a document may be relevant without being the positive. hints[i]: texts whose words the soft
    tokens of query i should contain, for grounding.
    """

    kind: str
    task: str
    query_instruction: str
    document_instruction: str
    queries: list[str]
    documents: list[str]
    allowed: np.ndarray
    hints: list[list[str]]
    steps: int
    long: bool = False  # uses the longer training length
    other_instruction: str = ""  # makes the positive of every query irrelevant; empty if none is known


@dataclass(frozen=True, slots=True)
class Mixture:
    """How often each kind of batch is drawn, and how many queries it has."""

    weights: Mapping[str, float]
    sizes: Mapping[str, int]
    steps: tuple[int, ...] = (4, 6, 8, 10)
    bare_query_share: float = 0.25  # pair batches without an instruction
    long_pair_share: float = 0.0  # pair batches of the longer training length
    paraphrase_share: float = 0.5
    bare_document_share: float = 0.4  # contrasts and composed texts with the instruction only on the query
    families: Mapping[str, str] = field(default_factory=dict)  # task -> family; texts of two families can be composed
    task_power: float = 0.5  # a task of n rows has weight n ** task_power
    task_weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("weights", "sizes"):
            if unknown := sorted(set(getattr(self, name)) - set(KINDS)):
                raise ValueError(f"mixture.{name} names {unknown}; the kinds are {', '.join(KINDS)}.")


class BatchSampler:
    def __init__(self, data: TrainingData, mixture: Mixture, *, seed: int) -> None:
        self._data = data
        self._mixture = mixture
        self._seed = seed
        self._pairs_by_instruction = {task: _by_instruction(rows) for task, rows in data.pairs.items()}
        self._pair_tasks = _weighted({task: len(rows) for task, rows in data.pairs.items()}, mixture)
        self._triplet_tasks = _weighted({task: len(rows) for task, rows in data.triplets.items()}, mixture)
        self._aspect_of = {f"{aspect.task}:{aspect.name}": aspect for aspect in data.aspects}
        self._aspects = _weighted({f"{aspect.task}:{aspect.name}": _size(aspect) for aspect in data.aspects}, mixture)
        self._wordings = shipped_wordings()
        self._contrasts = find_contrasts(data, seed=seed) if mixture.weights.get("contrasts") else {}
        # A task with many aspects has many contrasts; together they count as one task.
        together = Counter(each.wanted.task for each in self._contrasts.values())
        weights = _weighted({name: len(each.labels) for name, each in self._contrasts.items()}, mixture)
        self._contrast_tasks = {name: w / together[self._contrasts[name].wanted.task] for name, w in weights.items()}
        short = short_aspects(data) if mixture.weights.get("composed") else {}
        self._family = {name: each.family or mixture.families.get(each.task, "") for name, each in short.items()}
        self._short = {name: each for name, each in short.items() if self._family[name]}
        self._short_tasks = _weighted({name: _size(each) for name, each in self._short.items()}, mixture)
        several = len({self._family[name] for name in self._short}) > 1
        available = {
            "pairs": data.pairs,
            "similarity": data.pairs,
            "triplets": data.triplets,
            "triplet_queries": data.triplets,
            "contrasts": self._contrasts,
            "composed": several,
        }
        self._kinds = {kind: w for kind, w in mixture.weights.items() if available.get(kind, data.aspects) and w > 0}
        if not self._kinds:
            raise DataError(f"The data have no rows for batches of {', '.join(mixture.weights)}; see mixture.weights.")

    def batch(self, step: int) -> Batch:
        """The batch of optimiser step `step` (from 0)."""
        rng = random.Random(f"{self._seed}:{step}")
        kind = _draw(rng, self._kinds)
        size = self._mixture.sizes[kind]
        steps = rng.choice(self._mixture.steps)
        if kind in ("pairs", "similarity"):
            return self._pairs(rng, kind, size, steps)
        if kind.startswith("triplet"):
            return self._triplets(rng, kind, size, steps)
        if kind in ("contrasts", "composed"):
            return (self._contrasted if kind == "contrasts" else self._composed)(rng, size, steps)
        return self._labels(rng, kind, size, steps)

    def _pairs(self, rng: random.Random, kind: str, size: int, steps: int) -> Batch:
        task = _draw(rng, self._pair_tasks)
        groups = self._pairs_by_instruction[task]
        # One instruction per batch. Draw only if there are several, to keep the random sequence of all other tasks.
        known = groups[0] if len(groups) == 1 else rng.choices(groups, [len(group) for group in groups])[0]
        rows = rng.sample(known, min(size, len(known)))
        positives = [rng.choice(row.positives) for row in rows]
        negatives = [rng.choice(row.negatives) for row in rows if row.negatives]
        bare = rng.random() < self._mixture.bare_query_share
        wording = self._wordings.of_pairs(rng, task, rows[0].instruction, share=self._mixture.paraphrase_share)
        instruction = "" if bare else wording
        document_instruction = ""
        if kind == "similarity":
            instruction = document_instruction = self._wordings.of_similarity(rng)
        relevant = [set(row.positives) for row in rows]
        documents = positives + negatives
        return Batch(
            kind=kind,
            task=task,
            query_instruction=instruction,
            document_instruction=document_instruction,
            queries=[row.query for row in rows],
            documents=documents,
            allowed=_allowed(len(rows), documents, lambda i, text: text not in relevant[i]),
            hints=[[positive] for positive in positives],
            steps=steps,
            long=kind == "pairs" and rng.random() < self._mixture.long_pair_share,
        )

    def _triplets(self, rng: random.Random, kind: str, size: int, steps: int) -> Batch:
        task = _draw(rng, self._triplet_tasks)
        rows = rng.sample(self._data.triplets[task], min(size, len(self._data.triplets[task])))
        source, _, aspects = task.partition(":")
        aspect, _, other = aspects.partition("|")
        labels = self._data.labels.get((source, aspect), {})
        instruction = self._varied(rng, source, aspect, rows[0].instruction)
        documents = [row.positives[0] for row in rows] + [row.negatives[0] for row in rows]
        of_query = [labels.get(row.query, frozenset()) for row in rows]
        return Batch(
            kind=kind,
            task=source,
            query_instruction=instruction,
            document_instruction=instruction if kind == "triplets" else "",
            queries=[row.query for row in rows],
            documents=documents,
            allowed=_allowed(len(rows), documents, lambda i, text: not of_query[i] & labels.get(text, frozenset())),
            hints=[[*sorted(of_query[i]), documents[i]] for i in range(len(rows))],
            steps=steps,
            other_instruction=self._wording_of(rng, self._aspect_of.get(f"{source}:{other}")),
        )

    def _labels(self, rng: random.Random, kind: str, size: int, steps: int) -> Batch:
        aspect = self._aspect_of[_draw(rng, self._aspects)]
        if aspect.wordings:  # has few texts, which would repeat
            size = min(size, _size(aspect) // 2)
        chosen = _spread(rng, sorted(aspect.texts), size)
        pairs = [rng.sample(aspect.texts[label], 2) for label in chosen]
        labels = self._data.labels[aspect.task, aspect.name]
        instruction = self._varied(rng, aspect.task, aspect.name, aspect.instruction)
        if kind == "name_queries":
            return _for_label_names(aspect, instruction, chosen, [pair[0] for pair in pairs], labels, steps)
        if kind == "label_names":
            return _against_label_names(rng, aspect, instruction, chosen, [pair[0] for pair in pairs], labels, steps)
        documents = [pair[1] for pair in pairs]
        return Batch(
            kind=kind,
            task=aspect.task,
            query_instruction=instruction,
            document_instruction=instruction if kind == "labels" else "",
            queries=[pair[0] for pair in pairs],
            documents=documents,
            allowed=_allowed(len(pairs), documents, lambda i, text: not labels[pairs[i][0]] & labels[text]),
            hints=[[label, pair[1]] for label, pair in zip(chosen, pairs, strict=True)],
            steps=steps,
        )

    def _contrasted(self, rng: random.Random, size: int, steps: int) -> Batch:
        contrast = self._contrasts[_draw(rng, self._contrast_tasks)]
        labels, aspect = contrast.labels, contrast.wanted
        chosen = _spread(rng, sorted(aspect.texts), 4 * size)
        rows = [row for label in chosen if (row := contrast.draw(rng, label)) is not None][:size]
        hints = [[*sorted(labels[query]), positive] for query, positive, _ in rows]
        documents = [row[1] for row in rows] + [row[2] for row in rows]
        allowed = _allowed(len(rows), documents, lambda i, text: not labels[rows[i][0]] & labels[text])
        batch = self._contrast_batch(rng, "contrasts", aspect, rows, allowed, hints, steps)
        return replace(batch, other_instruction=self._wording_of(rng, contrast.other))

    def _composed(self, rng: random.Random, size: int, steps: int) -> Batch:
        wanted = _draw(rng, self._short_tasks)
        aspect = self._short[wanted]
        other_sources = {
            name: weight for name, weight in self._short_tasks.items() if self._family[name] != self._family[wanted]
        }
        other = self._short[_draw(rng, other_sources)]
        chosen = _spread(rng, sorted(aspect.texts), size)
        unlike = [rng.choice([name for name in sorted(aspect.texts) if name != label]) for label in chosen]
        rows = [compose(rng, aspect, other, *labels) for labels in zip(chosen, unlike, strict=True)]
        allowed = np.array([[label != each for each in [*chosen, *unlike]] for label in chosen], dtype=bool)
        return self._contrast_batch(rng, "composed", aspect, rows, allowed, [[label] for label in chosen], steps)

    def _contrast_batch(
        self,
        rng: random.Random,
        kind: str,
        aspect: Aspect,
        rows: Sequence[tuple[str, str, str]],
        allowed: np.ndarray,
        hints: list[list[str]],
        steps: int,
    ) -> Batch:
        instruction = self._varied(rng, aspect.task, aspect.name, aspect.instruction)
        return Batch(
            kind=kind,
            task=aspect.task,
            query_instruction=instruction,
            document_instruction="" if rng.random() < self._mixture.bare_document_share else instruction,
            queries=[row[0] for row in rows],
            documents=[row[1] for row in rows] + [row[2] for row in rows],
            allowed=allowed,
            hints=hints,
            steps=steps,
            long=kind == "composed",
        )

    def _wording_of(self, rng: random.Random, aspect: Aspect | None) -> str:
        """The aspect's instruction in some wording. Drawn last, so that the batch's texts do not depend on it."""
        return "" if aspect is None else self._varied(rng, aspect.task, aspect.name, aspect.instruction)

    def _varied(self, rng: random.Random, task: str, aspect: str, instruction: str) -> str:
        known = self._aspect_of.get(f"{task}:{aspect}")
        if known is not None and known.wordings:
            return rng.choice((known.instruction, *known.wordings))
        return self._wordings.of_aspect(rng, task, aspect, instruction, share=self._mixture.paraphrase_share)


def _against_label_names(
    rng: random.Random,
    aspect: Aspect,
    instruction: str,
    chosen: Sequence[str],
    queries: list[str],
    labels: Mapping[str, frozenset[str]],
    steps: int,
) -> Batch:
    """Queries against label names; names of unused labels are hard negatives."""
    others = [name for name in sorted(aspect.texts) if name not in set(chosen)]
    documents = [*chosen, *rng.sample(others, min(len(others), 32))]
    return Batch(
        kind="label_names",
        task=aspect.task,
        query_instruction=instruction,
        document_instruction="",
        queries=queries,
        documents=documents,
        allowed=_allowed(len(queries), documents, lambda i, name: name not in labels[queries[i]]),
        hints=[[label] for label in chosen],
        steps=steps,
    )


def _for_label_names(
    aspect: Aspect,
    instruction: str,
    chosen: Sequence[str],
    documents: list[str],
    labels: Mapping[str, frozenset[str]],
    steps: int,
) -> Batch:
    """Label names under the instruction as queries, plain texts as documents."""
    return Batch(
        kind="name_queries",
        task=aspect.task,
        query_instruction=instruction,
        document_instruction="",
        queries=list(chosen),
        documents=documents,
        allowed=_allowed(len(chosen), documents, lambda i, text: chosen[i] not in labels[text]),
        hints=[[document] for document in documents],
        steps=steps,
    )


def _allowed(count: int, documents: Sequence[str], is_negative: Callable[[int, str], bool]) -> np.ndarray:
    return np.array([[is_negative(i, text) for text in documents] for i in range(count)], dtype=bool)


def _by_instruction(rows: Sequence[Pair]) -> list[list[Pair]]:
    groups: dict[str, list[Pair]] = {}
    for row in rows:
        groups.setdefault(row.instruction, []).append(row)
    return list(groups.values())


def _spread(rng: random.Random, labels: Sequence[str], size: int) -> list[str]:
    """`size` labels, as different as possible."""
    chosen: list[str] = []
    while len(chosen) < size:
        chosen += rng.sample(labels, min(len(labels), size - len(chosen)))
    return chosen


def _size(aspect: Aspect) -> int:
    return sum(map(len, aspect.texts.values()))


def _weighted(sizes: Mapping[str, int], mixture: Mixture) -> dict[str, float]:
    """Normalises sizes by the mixture. A task's weight is looked up by its name before any `:`."""
    return {
        key: (size**mixture.task_power) * mixture.task_weights.get(key.split(":")[0], 1.0)
        for key, size in sizes.items()
    }


def _draw(rng: random.Random, weights: Mapping[str, float]) -> str:
    keys = sorted(weights)
    return rng.choices(keys, [weights[key] for key in keys])[0]
