"""The results file: one JSON with scores, outcomes of every item, settings and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from embedder.errors import DataError
from embedder.evaluation.bootstrap import BootstrapEstimate
from embedder.evaluation.outcomes import Outcome, Setting, Stratum, TaskMeasure, TaskOutcomes, pack, unpack
from embedder.evaluation.scoring import PairedDifference, Score, Scores

FORMAT = 1
_DECIMALS = 3
_OPEN_LEVELS = 3  # results, tasks, one task; tables are below
Json = dict[str, Any]


def read_results(path: Path) -> Json | None:
    """None if the file does not exist. Raises DataError unless it is a results file of this version."""
    if not path.is_file():
        return None
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error}). Give another --out.") from error
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise DataError(f"{path} is not an evaluation results file of format {FORMAT}. Give another file.")
    return results


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Writes atomically, so that a kill never leaves half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(_layout(results) + "\n", encoding="utf-8")
    temporary.replace(path)


def _layout(value: Any, depth: int = 0) -> str:
    """JSON with one line per table row and per entry above: compact, and easy to diff."""
    is_open = (isinstance(value, dict) and depth < _OPEN_LEVELS) or (isinstance(value, list) and depth == _OPEN_LEVELS)
    if not value or not is_open:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_layout(each, depth + 1)}" for name, each in value.items()]
    else:
        parts = [_layout(each, depth + 1) for each in value]
    margin = "\n" + " " * depth
    begin, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{begin}{margin} {f',{margin} '.join(parts)}{margin}{end}"


def task_to_json(outcomes: TaskOutcomes, scores: Scores, *, seconds: float) -> Json:
    return {
        "seconds": round(seconds, 1),
        "strata": {
            each.name: {"items": each.items, "size": each.size}
            | ({} if each.gold is None else {"gold": pack(each.gold)})
            for each in outcomes.strata.values()
        },
        "measures": [asdict(each) for each in outcomes.measures],
        "scores": [
            {"measure": each.measure, "metric": each.metric, **asdict(each.setting), **_rounded(each.estimate)}
            for each in scores.scores
        ],
        "differences": [
            {
                "measure": each.measure,
                "metric": each.metric,
                "kind": each.kind,
                "setting": asdict(each.setting),
                "minus": asdict(each.other),
                **_rounded(each.estimate),
            }
            for each in scores.differences
        ],
        "outcomes": [
            {"stratum": each.stratum, "metric": each.metric, **asdict(each.setting), "values": pack(each.values)}
            for each in outcomes.outcomes
        ],
    }


def outcomes_from_json(task: Mapping[str, Any]) -> TaskOutcomes:
    """Restores a task's outcomes, to score them again: with other resamples, or two models item by item."""
    outcomes = TaskOutcomes()
    for name, row in task["strata"].items():
        outcomes.strata[name] = Stratum(name, row["items"], row["size"], unpack(row["gold"]) if "gold" in row else None)
    outcomes.measures = [
        TaskMeasure(row["name"], row["metric"], row["statistic"], tuple(tuple(group) for group in row["groups"]))
        for row in task["measures"]
    ]
    outcomes.outcomes = [
        Outcome(row["stratum"], row["metric"], setting_of(row), unpack(row["values"])) for row in task["outcomes"]
    ]
    return outcomes


def score_of(row: Mapping[str, Any]) -> Score:
    return Score(row["measure"], row["metric"], setting_of(row), _estimate(row))


def difference_of(row: Mapping[str, Any]) -> PairedDifference:
    setting, other = setting_of(row["setting"]), setting_of(row["minus"])
    return PairedDifference(row["measure"], row["metric"], row["kind"], setting, other, _estimate(row))


def setting_of(row: Mapping[str, Any]) -> Setting:
    return Setting(row["system"], row["condition"], row["query_steps"], row["document_steps"])


def _estimate(row: Mapping[str, Any]) -> BootstrapEstimate:
    return BootstrapEstimate(row["value"], row["low"], row["high"])


def _rounded(estimate: BootstrapEstimate) -> dict[str, float]:
    return {name: round(value, _DECIMALS) for name, value in asdict(estimate).items()}
