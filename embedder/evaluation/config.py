"""The settings and rows of an evaluation run; all of them are saved with the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from embedder.evaluation.data import HALVES
from embedder.evaluation.embedders import TextEmbedder
from embedder.evaluation.outcomes import NO_INSTRUCTION, Setting, Steps

STEPS = (1, 2, 5, 10, 20)
DOCUMENT_STEPS = (1, 5, 20)


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """Folders, and the settings that affect scores."""

    data: Path
    train_data: Path | None = None
    steps: tuple[int, ...] = STEPS
    document_steps: tuple[int, ...] = DOCUMENT_STEPS
    half: str = "report"
    limit: int | None = None  # items per source and task
    unseen: tuple[str, ...] = ()  # triplet sources that were not in the training data
    triplet_sources: tuple[str, ...] = ()  # for triplets and paraphrased; empty: all
    label_sets: tuple[str, ...] = ()  # for label_names, clustering and classification; empty: all
    knn_sets: tuple[str, ...] = ("banking77",)
    neighbours: int = 10_000  # number of training texts for 1-NN
    set_rows: int = 500  # texts per source in clustering, and per half in classification
    bootstrap: int = 1000
    seed: int = 0
    dtype: str | None = None  # compute dtype; None: the model's
    alone: bool = False  # skip plain MiniLM, if another file has its scores

    def __post_init__(self) -> None:
        if self.half not in HALVES:
            raise ValueError(f"half is {self.half!r}, but must be one of {', '.join(HALVES)}.")
        for name in ("steps", "document_steps"):
            if not getattr(self, name) or min(getattr(self, name)) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but its numbers must be at least 0.")
        for name in ("limit", "neighbours", "set_rows"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}, but must be at least 1.")
        if self.bootstrap < 0:
            raise ValueError(f"bootstrap is {self.bootstrap}, but must be at least 0.")

    @property
    def all_steps(self) -> list[int]:
        return sorted({*self.steps, *self.document_steps})

    def settings(self) -> dict[str, Any]:
        """The settings without folders: paths change no score, and digests identify the files."""
        values = {name: value for name, value in asdict(self).items() if name not in ("data", "train_data")}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def symmetric(self, embedder: TextEmbedder, condition: str) -> list[Setting]:
        """Settings with equal steps for queries and documents."""
        return [Setting(embedder.name, condition, k, k) for k in _steps_of(embedder, self.steps, condition)]

    def asymmetric(self, embedder: TextEmbedder, condition: str) -> list[Setting]:
        """Equal steps for both sides, plus every combination of query steps and document steps."""
        steps = _steps_of(embedder, self.steps, condition)
        pairs = {(k, k) for k in steps}
        pairs |= {(k, d) for k in steps for d in _steps_of(embedder, self.document_steps)}
        return [
            Setting(embedder.name, condition, k, d)
            for k, d in sorted(pairs, key=lambda pair: (pair[0] or 0, pair[1] or 0))
        ]


def _steps_of(embedder: TextEmbedder, steps: Sequence[int], condition: str = NO_INSTRUCTION) -> list[Steps]:
    """The steps to measure, ascending. 0 steps ignore the instruction, so they run only without one."""
    if not embedder.has_steps:
        return [None]
    return [each for each in sorted(set(steps)) if each or condition == NO_INSTRUCTION]
