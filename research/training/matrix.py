"""A queue of comparable runs: every variant with every seed, on the same batches and the same budget of texts.

Runs that are done are skipped and a stopped one goes on, so the same command may be given again, or twice at once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from embedder.errors import DataError
from embedder.model.refine import PROMPT_POOLINGS
from embedder.training.config import TrainConfig, parse_config
from embedder.training.data import TrainingData, read_training_data
from embedder.training.progress import read_log
from embedder.training.sampling import BatchSampler
from embedder.training.train import HEAD_FILE, Trainer

logger = logging.getLogger(__name__)
DONE_FILE = "done.json"
# What two stages over the same weights must agree on.
_SAME_WEIGHTS = ("base", "lora_rank", "lora_alpha")


@dataclass(frozen=True, slots=True)
class Matrix:
    """variants: name -> the settings in which it differs from `common`, and `start_from`, the variant before it whose
    further stage it is. texts: what every run sees at least."""

    common: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...]
    texts: int


@dataclass(frozen=True, slots=True)
class PlannedRun:
    config: TrainConfig
    start_from: str | None  # the run of the same seed whose weights it begins with

    @property
    def name(self) -> str:
        return self.config.name


def read_matrix(path: Path) -> Matrix:
    """Raises DataError that names the wrong key."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    wanted = {"common", "variants", "seeds", "texts"}
    if not isinstance(data, dict) or set(data) != wanted:
        found = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise DataError(f"{path}: a matrix has exactly the keys {sorted(wanted)}, but this one has {found}.")
    return Matrix(data["common"], data["variants"], tuple(data["seeds"]), int(data["texts"]))


def run_matrix(matrix: Matrix, *, data: Path, out: Path) -> list[Path]:
    """Trains what is still to be done; returns the folders of the finished runs."""
    out.mkdir(parents=True, exist_ok=True)
    runs = plan(matrix, read_training_data(data, skip_tasks=frozenset(matrix.common.get("skip_tasks", ()))))
    head = _shared_head([run.config for run in runs if run.start_from is None], data, out)
    for run in runs:
        if run.start_from is not None and not (out / run.start_from / DONE_FILE).is_file():
            logger.info("%s is left for later: %s, which it starts from, is not done.", run.name, run.start_from)
            continue
        folder = out / run.name
        folder.mkdir(exist_ok=True)
        try:
            with FileLock(folder / "lock", timeout=0):
                if not (folder / DONE_FILE).is_file():
                    _train(run, data=data, out=out, head=head)
                    _write_done(folder, run)
        except Timeout:
            logger.info("%s is being trained by another process.", run.name)
    return [out / run.name for run in runs if (out / run.name / DONE_FILE).is_file()]


def plan(matrix: Matrix, data: TrainingData) -> list[PlannedRun]:
    """Seed by seed, so that a matrix that is cut short still compares every variant. Raises DataError for a variant
    that starts from none before it."""
    runs: list[PlannedRun] = []
    for seed in matrix.seeds:
        earlier: dict[str, TrainConfig] = {}
        for variant, changes in matrix.variants.items():
            settings = {**matrix.common, **changes, "name": f"{variant}-{seed}", "seed": seed, "optimiser_steps": 1}
            start_from = settings.pop("start_from", None)
            config = parse_config(settings, source=f"variant {variant!r}")
            if start_from is not None:
                _check_start(variant, config, start_from, earlier)
            config = replace(config, optimiser_steps=_steps_for(config, data, matrix.texts))
            earlier[variant] = config
            runs.append(PlannedRun(config, None if start_from is None else earlier[start_from].name))
    return runs


def _check_start(variant: str, config: TrainConfig, start_from: str, earlier: Mapping[str, TrainConfig]) -> None:
    """Told before anything is trained: the stage before may take hours."""
    if start_from not in earlier:
        before = ", ".join(earlier) or "none"
        raise DataError(
            f"variant {variant!r}: start_from is {start_from!r}, which is no variant before it; there are: {before}."
        )
    first = earlier[start_from]
    unlike = [name for name in _SAME_WEIGHTS if getattr(config, name) != getattr(first, name)]
    if (config.tuning == "full") != (first.tuning == "full"):
        unlike.append("tuning")
    if unlike:
        raise DataError(
            f"variant {variant!r} goes on with the weights of {start_from!r}, but has another {', '.join(unlike)}."
        )


def _train(run: PlannedRun, *, data: Path, out: Path, head: Path | None) -> None:
    # The shared head was warmed up over the base, which is not what a further stage begins with.
    start, head = (None, head) if run.start_from is None else (out / run.start_from, None)
    Trainer(run.config, data=data, out=out / run.name, start_from=start, head_from=head).run()


def _steps_for(config: TrainConfig, data: TrainingData, texts: int) -> int:
    """How many batches hold at least `texts` texts, queries and documents together."""
    sampler = BatchSampler(data, config.mixture, seed=config.seed)
    seen = step = 0
    while seen < texts:
        seen += config.texts_of(sampler.batch(step))
        step += 1
    return step


def _shared_head(configs: list[TrainConfig], data: Path, out: Path) -> Path | None:
    """One warmed-up head for all runs that generate: it is trained on the frozen body, which they share."""
    generating = [c for c in configs if c.head == "soft_head" and c.pooling not in PROMPT_POOLINGS]
    if not generating or not generating[0].head_warmup_texts:
        return None
    path = out / HEAD_FILE
    with FileLock(out / "head.lock"):
        if not path.is_file():
            Trainer(generating[0], data=data, out=out).warm_up()
    return path


def _write_done(folder: Path, run: PlannedRun) -> None:
    steps = [row for row in read_log(folder) if "stepwise" in row]
    done = {"texts": sum(row["texts"] for row in steps), "steps": len(steps), "start_from": run.start_from}
    (folder / DONE_FILE).write_text(json.dumps(done) + "\n", encoding="utf-8")
