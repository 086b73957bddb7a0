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

from embedder.pooling import PROMPT_POOLINGS
from embedder.training.config import TrainConfig, parse_config
from embedder.training.data import DataError, TrainingData, read_training_data
from embedder.training.progress import read_log
from embedder.training.sampling import BatchSampler
from embedder.training.train import HEAD_FILE, Trainer

logger = logging.getLogger(__name__)
DONE_FILE = "done.json"


@dataclass(frozen=True, slots=True)
class Matrix:
    """variants: name -> the settings in which it differs from `common`. texts: what every run sees at least."""

    common: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...]
    texts: int


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
    configs = plan(matrix, read_training_data(data, skip_tasks=frozenset(matrix.common.get("skip_tasks", ()))))
    head = _shared_head(configs, data, out)
    for config in configs:
        folder = out / config.name
        folder.mkdir(exist_ok=True)
        try:
            with FileLock(folder / "lock", timeout=0):
                if not (folder / DONE_FILE).is_file():
                    Trainer(config, data=data, out=folder, head_from=head).run()
                    _write_done(folder)
        except Timeout:
            logger.info("%s is being trained by another process.", config.name)
    return [out / config.name for config in configs if (out / config.name / DONE_FILE).is_file()]


def plan(matrix: Matrix, data: TrainingData) -> list[TrainConfig]:
    """Seed by seed, so that a matrix that is cut short still compares every variant."""
    configs = []
    for seed in matrix.seeds:
        for variant, changes in matrix.variants.items():
            settings = {**matrix.common, **changes, "name": f"{variant}-{seed}", "seed": seed, "optimiser_steps": 1}
            config = parse_config(settings, source=f"variant {variant!r}")
            configs.append(replace(config, optimiser_steps=_steps_for(config, data, matrix.texts)))
    return configs


def _steps_for(config: TrainConfig, data: TrainingData, texts: int) -> int:
    """How many batches hold at least `texts` texts, queries and documents together."""
    sampler = BatchSampler(data, config.mixture, seed=config.seed)
    seen = step = 0
    while seen < texts:
        batch = sampler.batch(step)
        seen += len(batch.queries) + len(batch.documents)
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


def _write_done(folder: Path) -> None:
    steps = [row for row in read_log(folder) if "stepwise" in row]
    done = {"texts": sum(row["texts"] for row in steps), "steps": len(steps)}
    (folder / DONE_FILE).write_text(json.dumps(done) + "\n", encoding="utf-8")
