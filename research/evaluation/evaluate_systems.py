"""Systems over one model, measured in the tasks of `gircse eval`; further ones join the systems of a results file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from embedder.encoder import Encoder
from embedder.errors import DataError
from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.evaluate import measure_task, open_results
from embedder.evaluation.results import Json, write_results
from research.evaluation.systems import SystemEmbedder


def evaluate_systems(
    base: Encoder, config: EvaluationConfig, tasks: Sequence[str], out: Path, systems: Sequence[SystemEmbedder]
) -> Json:
    """Measures each of `systems` in each of `tasks`, and BM25, but for what stands in `out` already. Returns all that
    stands there at the end, of other systems, too.

    base: what the systems are choices over. Raises DataError where a system of the same name was another.
    """
    results = open_results(base, config, out, holds_systems=True)
    known = results["systems"]
    for each in systems:
        if known.get(each.name, each.fingerprint) != each.fingerprint:
            raise DataError(
                f"{out} holds results of another {each.name!r}. Give another --out, or the model it was measured with."
            )
    missing = [
        (each, task)
        for each in systems
        for task in tasks
        if task not in results["tasks"] or each.name not in _measured_systems(results["tasks"][task])
    ]
    with tqdm(missing, unit="task") as bar:
        for each, task in bar:
            bar.set_description(f"{each.name}: {task}")
            found = measure_task(task, config, [each], model=each.name)
            kept = results["tasks"].get(task)
            results["tasks"][task] = found if kept is None else _merge_tasks(kept, found)
            known[each.name] = each.fingerprint
            results["costs"][each.name] = each.cost.added_to(results["costs"].get(each.name))
            write_results(out, results)
    return results


def _measured_systems(task: Mapping[str, Any]) -> set[str]:
    return {row["system"] for row in task["outcomes"]}


def _merge_tasks(kept: Json, added: Json) -> Json:
    """One task's results of different systems on the same items; what both hold, as of BM25, is taken once."""
    merged = {**kept, "seconds": round(kept["seconds"] + added["seconds"], 1)}
    for name in ("scores", "differences", "outcomes"):
        known = {_identity(row) for row in kept[name]}
        merged[name] = kept[name] + [row for row in added[name] if _identity(row) not in known]
    return merged


def _identity(row: Mapping[str, Any]) -> str:
    """The settings of a row, without its measured values."""
    measured = ("value", "low", "high", "values")
    return json.dumps({name: each for name, each in row.items() if name not in measured}, sort_keys=True)
