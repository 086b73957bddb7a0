"""Clustering under two instructions: V-measure of k-means against each aspect's labels, combined by the harmonic
mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.cluster import KMeans

from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.data import LabelSet, in_half, read_label_sets, spread
from embedder.evaluation.embedders import EmbeddingCache, TextEmbedder
from embedder.evaluation.outcomes import NO_INSTRUCTION, ON_BOTH_SIDES, TaskMeasure, TaskOutcomes
from embedder.evaluation.similarity import one_vector

METRIC = "v_measure"
SEEDS = (0, 1, 2)


def cluster_labels(config: EvaluationConfig, embedders: Sequence[TextEmbedder]) -> TaskOutcomes:
    """Clusters the same texts twice, for sources whose texts have one label in each of two aspects."""
    outcomes = TaskOutcomes()
    for pair in read_aspect_pairs(config):
        names = tuple(each.name for each in pair)
        for each in pair:
            gold = np.unique([next(iter(labels)) for labels in each.labels], return_inverse=True)[1]
            outcomes.add_stratum(each.name, each.texts, gold)
        outcomes.measures.append(TaskMeasure(f"clustering.{pair[0].source}", METRIC, "v_measure", (names,)))
        for embedder in embedders:
            memory = EmbeddingCache(embedder, config.steps)
            for condition in (NO_INSTRUCTION, ON_BOTH_SIDES):
                for each in pair:
                    _cluster(config, memory, condition, each, outcomes)
    groups = tuple(measure.groups[0] for measure in outcomes.measures)
    if len(groups) > 1:
        outcomes.measures.append(TaskMeasure("clustering.mean", METRIC, "v_measure", groups))
    return outcomes


def _cluster(
    config: EvaluationConfig, memory: EmbeddingCache, condition: str, labels: LabelSet, outcomes: TaskOutcomes
) -> None:
    vectors = memory.embed(labels.texts, "" if condition == NO_INSTRUCTION else labels.instruction)
    count = len(labels.names)
    for setting in config.symmetric(memory.embedder, condition):
        clusters = [
            KMeans(n_clusters=count, n_init=1, random_state=seed).fit_predict(one_vector(vectors[setting.query_steps]))
            for seed in SEEDS
        ]
        outcomes.add(labels.name, METRIC, setting, np.stack(clusters, axis=1))


def read_aspect_pairs(config: EvaluationConfig) -> list[tuple[LabelSet, LabelSet]]:
    """The first two usable aspects of every source, with the texts that have one label in both."""
    by_source: dict[str, list[LabelSet]] = {}
    for each in read_label_sets(config.data, only=config.label_sets):
        by_source.setdefault(each.source, []).append(each.single_labelled())
    cap = min(config.set_rows, config.limit or config.set_rows)
    pairs = []
    for first, second, *_ in (members for members in by_source.values() if len(members) > 1):
        places = {text: i for i, text in enumerate(second.texts)}
        rows = [i for i, text in enumerate(first.texts) if text in places and in_half(text, config.half)]
        rows = spread(rows, cap)
        pair = first.take(rows), second.take([places[first.texts[i]] for i in rows])
        if rows and all(2 <= len(each.names) < len(rows) for each in pair):
            pairs.append(pair)
    return pairs
