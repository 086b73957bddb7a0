"""Variants of a training matrix side by side: means over seeds, with the noise of seeds and of items told apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from embedder.errors import DataError
from embedder.evaluation.bootstrap import BootstrapEstimate, estimate
from embedder.evaluation.outcomes import Setting
from embedder.evaluation.report import CONDITIONS, show_change, show_estimate, table
from embedder.evaluation.results import outcomes_from_json, read_results
from embedder.evaluation.scoring import replicates_of

_NAME = re.compile(r"(?P<variant>.+)-(?P<seed>\d+)")
_Key = tuple[str, str, str]  # measure, metric, condition


@dataclass(frozen=True, slots=True)
class VariantRuns:
    """Replicates of every seed's run: key -> (seeds, 1 + resamples); column 0 holds the figures themselves."""

    seeds: tuple[int, ...]
    replicates: dict[_Key, np.ndarray]


def write_seed_table(paths: Sequence[Path], out: Path, *, order: Sequence[str] | None = None, steps: int = 5) -> Path:
    """One table per measure; each variant is compared with the one above it. Raises DataError for unusable files."""
    runs = _read_runs(paths, steps=steps)
    order = list(order or sorted(runs))
    if unknown := sorted(set(order) - set(runs)):
        raise DataError(f"There are no files of the variants {unknown}; there are {', '.join(sorted(runs))}.")
    if len({runs[name].seeds for name in order}) > 1:
        told = "; ".join(f"{name}: {', '.join(map(str, runs[name].seeds))}" for name in order)
        raise DataError(f"The variants have different seeds ({told}). Give the files of the same seeds.")
    keys = [key for key in runs[order[0]].replicates if all(key in runs[name].replicates for name in order)]
    out.parent.mkdir(parents=True, exist_ok=True)
    parts = [
        f"Seeds {', '.join(map(str, runs[order[0]].seeds))}, K = {steps} on both sides where a variant generates. "
        "In brackets: over seeds the 95 % t-interval, over items that of a paired bootstrap, averaged over seeds. "
        "**Bold** differences have an interval without 0.\n"
    ]
    for key in keys:
        parts += [f"### {key[0]}, {key[1]}, instruction: {CONDITIONS[key[2]]}\n", _table(runs, order, key)]
    out.write_text("\n".join(parts), encoding="utf-8")
    return out


def _read_runs(paths: Sequence[Path], *, steps: int) -> dict[str, VariantRuns]:
    found: dict[str, dict[int, dict[_Key, np.ndarray]]] = defaultdict(dict)
    settings: set[str] = set()
    for path in paths:
        name = _NAME.fullmatch(path.stem)
        results = read_results(path)
        if name is None or results is None:
            raise DataError(f"{path} is no results file named VARIANT-SEED.json.")
        settings.add(str((results["settings"], results["data"])))
        replicates: dict[_Key, np.ndarray] = {}
        for task in results["tasks"].values():
            chosen = results["settings"]["bootstrap"], results["settings"]["seed"]
            measures = replicates_of(outcomes_from_json(task), resamples=chosen[0], seed=chosen[1])
            for (measure, metric), by_setting in measures.items():
                for condition in CONDITIONS:
                    at = Setting(results["model"]["name"], condition, steps, steps)
                    if at in by_setting:
                        replicates[measure, metric, condition] = by_setting[at]
        found[name["variant"]][int(name["seed"])] = replicates
    if len(settings) > 1:
        raise DataError("The files were made with different settings or data; their figures cannot be compared.")
    return {variant: _stack(by_seed) for variant, by_seed in found.items()}


def _stack(by_seed: dict[int, dict[_Key, np.ndarray]]) -> VariantRuns:
    seeds = tuple(sorted(by_seed))
    keys = [key for key in by_seed[seeds[0]] if all(key in by_seed[seed] for seed in seeds)]
    return VariantRuns(seeds, {key: np.stack([by_seed[seed][key] for seed in seeds]) for key in keys})


def _table(runs: dict[str, VariantRuns], order: Sequence[str], key: _Key) -> str:
    rows = []
    above: np.ndarray | None = None
    for name in order:
        values = runs[name].replicates[key]
        over_seeds = _over_seeds(values[:, 0])
        cells = [name, f"{values[:, 0].mean():.1f}" if over_seeds is None else show_estimate(over_seeds)]
        cells.append(", ".join(f"{value:.1f}" for value in values[:, 0]))
        if above is None:
            cells += ["–", "–"]
        else:
            change = values - above
            gained = _over_seeds(change[:, 0])
            cells += ["–" if gained is None else show_change(gained), show_change(estimate(change.mean(axis=0)))]
        rows.append(cells)
        above = values
    columns = ("variant", "mean over seeds", "every seed", "to the row above, over seeds", "over items")
    return table(columns, rows)


def _over_seeds(values: np.ndarray) -> BootstrapEstimate | None:
    """Mean over seeds with its 95 % t-interval, which one seed does not have."""
    if len(values) < 2:
        return None
    mean = float(values.mean())
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return BootstrapEstimate(mean, mean - half, mean + half)
