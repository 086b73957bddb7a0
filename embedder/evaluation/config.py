"""What a run measures, and on which rows. Everything in it is written into the results."""

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
    """Folders, and the settings that change a figure."""

    data: Path
    train_data: Path | None = None
    steps: tuple[int, ...] = STEPS
    document_steps: tuple[int, ...] = DOCUMENT_STEPS
    half: str = "report"
    limit: int | None = None  # items of every source in every task
    unseen: tuple[str, ...] = ()  # sources of triplets that the model was not trained on
    triplet_sources: tuple[str, ...] = ()  # for triplets and paraphrased; empty: all
    label_sets: tuple[str, ...] = ()  # for label_names, clustering and classification; empty: all
    knn_sets: tuple[str, ...] = ("banking77",)
    neighbours: int = 10_000  # training texts that 1-NN looks among
    set_rows: int = 500  # texts per source in clustering, and on either side in classification
    bootstrap: int = 1000
    seed: int = 0
    dtype: str | None = None  # what is computed in; None: the model's own
    alone: bool = False  # without plain MiniLM, whose figures stand in another file

    def __post_init__(self) -> None:
        if self.half not in HALVES:
            raise ValueError(f"half is {self.half!r}, but must be one of {', '.join(HALVES)}.")
        for name in ("steps", "document_steps"):
            if not getattr(self, name) or min(getattr(self, name)) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but must hold numbers of at least 0.")
        for name in ("limit", "neighbours", "set_rows"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}, but must be at least 1.")
        if self.bootstrap < 0:
            raise ValueError(f"bootstrap is {self.bootstrap}, but must be at least 0.")

    @property
    def all_steps(self) -> list[int]:
        return sorted({*self.steps, *self.document_steps})

    def settings(self) -> dict[str, Any]:
        """The settings alone: where the files lie changes no figure, what they hold is told by their digests."""
        values = {name: value for name, value in asdict(self).items() if name not in ("data", "train_data")}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def symmetric(self, embedder: TextEmbedder, condition: str) -> list[Setting]:
        """Both sides at the same number of steps."""
        return [Setting(embedder.name, condition, k, k) for k in _steps_of(embedder, self.steps, condition)]

    def asymmetric(self, embedder: TextEmbedder, condition: str) -> list[Setting]:
        """Both sides alike, and every number of query steps against every number of document steps."""
        steps = _steps_of(embedder, self.steps, condition)
        pairs = {(k, k) for k in steps}
        pairs |= {(k, d) for k in steps for d in _steps_of(embedder, self.document_steps)}
        return [
            Setting(embedder.name, condition, k, d)
            for k, d in sorted(pairs, key=lambda pair: (pair[0] or 0, pair[1] or 0))
        ]


def _steps_of(embedder: TextEmbedder, steps: Sequence[int], condition: str = NO_INSTRUCTION) -> list[Steps]:
    """Ascending. 0 steps follow no instruction: they are measured where there is none."""
    if not embedder.has_steps:
        return [None]
    return [each for each in sorted(set(steps)) if each or condition == NO_INSTRUCTION]
