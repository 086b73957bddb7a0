"""The tasks by name. Each is a function of the config and of the embedders to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.embedders import TextEmbedder
from embedder.evaluation.outcomes import TaskOutcomes
from embedder.evaluation.tasks.clustering import cluster_labels
from embedder.evaluation.tasks.labels import classify, find_neighbours, match_label_names
from embedder.evaluation.tasks.retrieval import retrieve
from embedder.evaluation.tasks.similarity import compare_similarity
from embedder.evaluation.tasks.triplets import judge_paraphrased_triplets, judge_triplets

Task = Callable[[EvaluationConfig, Sequence[TextEmbedder]], TaskOutcomes]

TASKS: Mapping[str, Task] = {
    "sts": compare_similarity,
    "retrieval": retrieve,
    "triplets": judge_triplets,
    "paraphrased": judge_paraphrased_triplets,
    "label_names": match_label_names,
    "knn": find_neighbours,
    "clustering": cluster_labels,
    "classification": classify,
}
