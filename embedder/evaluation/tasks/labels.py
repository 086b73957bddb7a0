"""Tasks that use labels: label names as documents, the label of the nearest neighbour, and a linear classifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression

from embedder.errors import DataError
from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.data import LabelSet, in_half, is_tuning, read_label_sets, spread
from embedder.evaluation.embedders import EmbeddingCache, TextEmbedder, bm25_scores
from embedder.evaluation.outcomes import (
    BM25,
    NO_INSTRUCTION,
    ON_BOTH_SIDES,
    ON_QUERIES,
    Setting,
    TaskMeasure,
    TaskOutcomes,
)
from embedder.evaluation.similarity import one_vector, scores_of

METRIC = "accuracy"
_ITERATIONS = 200


def match_label_names(config: EvaluationConfig, embedders: Sequence[TextEmbedder]) -> TaskOutcomes:
    """`labels.*`: texts are queries, the names of all labels are documents; top-1 must be one of the text's labels."""
    outcomes = TaskOutcomes()
    sets = read_label_sets(config.data, only=config.label_sets)
    names = {each.name: each.names for each in sets}  # of all rows, from either half
    chosen = [_chosen(each, config) for each in sets]
    for labels in chosen:
        _announce(outcomes, "label_names", labels)
        scores = bm25_scores(labels.texts, names[labels.name])
        hits = _hits(labels, names[labels.name], scores) * (scores.max(axis=1) > 0)
        outcomes.add(labels.name, METRIC, Setting(BM25, NO_INSTRUCTION), hits)
    for embedder in embedders:
        for source in dict.fromkeys(each.source for each in chosen):
            memory = EmbeddingCache(embedder, config.all_steps)
            for labels in (each for each in chosen if each.source == source):
                documents = memory.embed(names[labels.name])
                for condition, instruction in ((NO_INSTRUCTION, ""), (ON_QUERIES, labels.instruction)):
                    queries = memory.embed(labels.texts, instruction)
                    for setting in config.asymmetric(embedder, condition):
                        scores = scores_of(queries[setting.query_steps], documents[setting.document_steps])
                        outcomes.add(labels.name, METRIC, setting, _hits(labels, names[labels.name], scores))
    outcomes.add_mean("label_names.mean", METRIC, "mean", [each.name for each in chosen])
    return outcomes


def find_neighbours(config: EvaluationConfig, embedders: Sequence[TextEmbedder]) -> TaskOutcomes:
    """1-NN: texts of `data` get the label of their nearest text in `train_data`; both sides have the instruction."""
    if config.train_data is None:
        raise DataError("The task knn needs training texts. Give --train-data FOLDER.")
    outcomes = TaskOutcomes()
    tests = {each.name: each for each in read_label_sets(config.data, only=config.knn_sets)}
    others = {each.name: each for each in read_label_sets(config.train_data, only=config.knn_sets)}
    names = [name for name in tests if name in others]
    for name in names:
        test = _chosen(tests[name], config)
        near = others[name].take(spread(range(len(others[name].texts)), config.neighbours))
        _announce(outcomes, "knn", test)
        for embedder in embedders:
            memory = EmbeddingCache(embedder, config.steps)
            for condition, instruction in ((NO_INSTRUCTION, ""), (ON_BOTH_SIDES, test.instruction)):
                queries = memory.embed(test.texts, instruction)
                neighbours = memory.embed(near.texts, instruction)
                for setting in config.symmetric(embedder, condition):
                    best = scores_of(queries[setting.query_steps], neighbours[setting.document_steps]).argmax(axis=1)
                    pairs = zip(test.labels, best, strict=True)
                    hits = np.array([bool(labels & near.labels[at]) for labels, at in pairs], dtype=float)
                    outcomes.add(name, METRIC, setting, hits)
    outcomes.add_mean("knn.mean", METRIC, "mean", names)
    return outcomes


def classify(config: EvaluationConfig, embedders: Sequence[TextEmbedder]) -> TaskOutcomes:
    """Logistic regression on frozen embeddings, trained on one half of a file and tested on the other.

    Uses the first aspect of every source. With half `all`, each half is tested with the classifier of the other.
    """
    outcomes = TaskOutcomes()
    first: dict[str, LabelSet] = {}
    for each in read_label_sets(config.data, only=config.label_sets):
        first.setdefault(each.source, each.single_labelled())
    for labels in first.values():
        halves = _halves(labels, config)
        test = labels.take([i for i in halves[True] + halves[False] if in_half(labels.texts[i], config.half)])
        if not halves[True] or not halves[False]:
            continue
        _announce(outcomes, "classification", test)
        for embedder in embedders:
            memory = EmbeddingCache(embedder, config.steps)
            for condition, instruction in ((NO_INSTRUCTION, ""), (ON_BOTH_SIDES, labels.instruction)):
                vectors = {
                    half: memory.embed([labels.texts[i] for i in rows], instruction) for half, rows in halves.items()
                }
                for setting in config.symmetric(embedder, condition):
                    single = {half: one_vector(by_steps[setting.query_steps]) for half, by_steps in vectors.items()}
                    hits = [
                        _fit_and_judge(labels, halves, single[not half], single[half], half)
                        for half in (True, False)
                        if config.half in ("all", "tune" if half else "report")
                    ]
                    outcomes.add(labels.name, METRIC, setting, np.concatenate(hits))
    names = list(outcomes.strata)
    outcomes.add_mean("classification.mean", METRIC, "mean", names)
    return outcomes


def _halves(labels: LabelSet, config: EvaluationConfig) -> dict[bool, list[int]]:
    """Tuning half or not -> at most `set_rows` row numbers."""
    cap = min(config.set_rows, config.limit or config.set_rows)
    rows = range(len(labels.texts))
    return {half: spread([i for i in rows if is_tuning(labels.texts[i]) == half], cap) for half in (True, False)}


def _fit_and_judge(
    labels: LabelSet, halves: dict[bool, list[int]], fitted: np.ndarray, judged: np.ndarray, half: bool
) -> np.ndarray:
    """Hits on the rows of `half`, by a classifier trained on the other rows."""
    classes = [next(iter(labels.labels[i])) for i in halves[not half]]
    if len(set(classes)) < 2:
        raise DataError(f"{labels.name}: the training rows have only one label. Raise --limit or leave the set out.")
    model = LogisticRegression(max_iter=_ITERATIONS).fit(fitted, classes)
    predicted = model.predict(judged)
    return np.array([name in labels.labels[i] for name, i in zip(predicted, halves[half], strict=True)], dtype=float)


def _chosen(labels: LabelSet, config: EvaluationConfig) -> LabelSet:
    return labels.take(spread([i for i, text in enumerate(labels.texts) if in_half(text, config.half)], config.limit))


def _announce(outcomes: TaskOutcomes, prefix: str, labels: LabelSet) -> None:
    outcomes.add_stratum(labels.name, labels.texts)
    outcomes.measures.append(TaskMeasure(f"{prefix}.{labels.name}", METRIC, "mean", ((labels.name,),)))


def _hits(labels: LabelSet, names: Sequence[str], scores: np.ndarray) -> np.ndarray:
    best = scores.argmax(axis=1)
    return np.array([names[at] in own for at, own in zip(best, labels.labels, strict=True)], dtype=float)
