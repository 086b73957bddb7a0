"""A page that compares systems: figures with intervals, differences to the first on the same resamples, and cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from embedder.errors import DataError
from embedder.evaluation.bootstrap import estimate
from embedder.evaluation.outcomes import BM25, NO_INSTRUCTION
from embedder.evaluation.report import CONDITIONS, show_change, show_estimate, table
from embedder.evaluation.results import outcomes_from_json
from embedder.evaluation.scoring import replicates_of

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

_SMALL_MS = 1.0
_WIDE = 200  # between the least and the greatest cost: then only tens have room for a number
_Key = tuple[str, str, str]  # measure, metric, condition
_Figures = dict[_Key, dict[str, np.ndarray]]  # system -> replicates, the first the figure itself
_Runs = Mapping[str, Mapping[int, str]]  # row -> the systems it stands for, by the seed of their training
_PAIRS_NOTE = (
    "What the first is ahead of the second by, over the seeds that both have: the mean with its interval over items, "
    "and in parentheses the figure of every seed. **Bold** where the interval holds no 0 and all seeds are on one side "
    "of it.\n"
)
_ALONE = 0  # the seed of what has none
_SEEDED = re.compile(r"(?P<variant>.+)-(?P<seed>\d+)(?P<rest>, trained.*)")


def write_comparison(
    results: Mapping[str, Any], page: Path, *, against: str | None = None, pairs: Sequence[tuple[str, str]] = ()
) -> Path:
    """From what `evaluate` returned of systems; the plot lies beside the page, under its name.

    against: the system whose differences to the others are told, by default the first; pairs: rows of the table, of
    which the first's differences to the second are told. Raises DataError.
    """
    if not results.get("costs"):
        raise DataError("These results hold no systems. Measure them with --systems.")
    runs = _runs(results)
    names = list(runs)
    by_run = _by_run(results)
    figures = _figures(by_run, runs)
    costs = {name: _summed([results["costs"][run] for run in runs[name].values()]) for name in names}
    first = against or names[0]
    if first not in names:
        raise DataError(f"--against names {first!r}; the systems are {', '.join(names)}.")
    if unknown := {name for pair in pairs for name in pair} - runs.keys():
        raise DataError(f"--pair names {', '.join(map(repr, sorted(unknown)))}; the systems are {', '.join(names)}.")
    model, settings = results["model"]["name"], results["settings"]
    limit = f", at most {settings['limit']} items of every source" if settings["limit"] else ""
    machine = results["machine"]
    parts = [
        "# Systems of the field on one model\n",
        f"Model `{model}`, half `{settings['half']}`{limit}. In brackets the 95 % interval over items, "
        f"{settings['bootstrap']} resamples; differences to {first} are paired, and **bold** where their interval "
        f"holds no 0. Cost is processor time per text on {machine['cpu']}, {machine['threads']} threads, over all "
        "texts of these tasks.\n",
    ]
    has_seeds = any(len(each) > 1 for each in runs.values())
    if has_seeds:
        parts.append(
            "What was trained with several seeds stands in one row by the mean over them, item by item, so that its "
            "interval, too, is over items; below, every seed has its figure.\n"
        )
    parts += ["## All in one table\n", _summary(figures, names, costs)]
    if pairs:
        parts += ["## Side by side\n", _PAIRS_NOTE, _pairs_table(by_run, runs, pairs, _whole(figures))]
    for key in _whole(figures):  # their parts are in the results
        told = CONDITIONS[key[2]]
        seeds = {row: _seed_figures(by_run[key], runs[row]) for row in names} if has_seeds else {}
        shown = _table(figures[key], names, costs, first, seeds)
        parts += [f"## {key[0]}, {key[1]}, instruction: {told}\n", shown]
    picture = page.with_suffix(".png")
    page.parent.mkdir(parents=True, exist_ok=True)
    _plot(figures, names, costs, picture)
    parts.append(f"![Quality beside cost]({picture.name})\n")
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def _summary(figures: _Figures, names: Sequence[str], costs: Mapping[str, Any]) -> str:
    """A row for each system, a column for each whole measure."""
    shown = _whole(figures)
    rows = [
        [
            name,
            *(show_estimate(estimate(figures[key][name])) if name in figures[key] else "–" for key in shown),
            _ms(name, costs),
        ]
        for name in [*names, BM25]
        if any(name in figures[key] for key in shown)
    ]
    heads = [f"{measure}, {metric}, {CONDITIONS[condition]}" for measure, metric, condition in shown]
    return table(("system", *heads, "ms per text"), rows)


def _whole(figures: _Figures) -> list[_Key]:
    """Those that are no part of another, as one pair of aspects is, or one set of labels where there is a mean."""
    measures = {key[0] for key in figures}
    averaged = {name.partition(".")[0] for name in measures if name.endswith(".mean")}
    parts = {name for name in measures if name.partition(".")[0] in averaged and not name.endswith(".mean")}
    # Where all sources are of one kind, what is said of all of them is said already.
    same = {"triplets.all"} if len(measures & {"triplets.seen", "triplets.unseen"}) == 1 else set()
    return [key for key in figures if ":" not in key[0] and key[0] not in same | parts]


def _runs(results: Mapping[str, Any]) -> _Runs:
    """Those that differ in their training's seed alone are one row."""
    grouped: dict[str, dict[int, str]] = {}
    for name in results["systems"]:
        seeded = _SEEDED.fullmatch(name)
        row = f"{seeded['variant']}{seeded['rest']}" if seeded else name
        grouped.setdefault(row, {})[int(seeded["seed"]) if seeded else _ALONE] = name
    return {next(iter(runs.values())) if len(runs) == 1 else row: runs for row, runs in grouped.items()}


def _by_run(results: Mapping[str, Any]) -> _Figures:
    found: _Figures = {}
    chosen = results["settings"]["bootstrap"], results["settings"]["seed"]
    for task in results["tasks"].values():
        by_measure = replicates_of(outcomes_from_json(task), resamples=chosen[0], seed=chosen[1])
        for (measure, metric), by_setting in by_measure.items():
            for setting, values in by_setting.items():
                found.setdefault((measure, metric, setting.condition), {})[setting.system] = values
    return found


def _figures(by_run: _Figures, runs: _Runs) -> _Figures:
    """Of each row, over the mean of its seeds."""
    rows = {**runs, BM25: {_ALONE: BM25}}
    figures: _Figures = {}
    for key, found in by_run.items():
        for row, names in rows.items():
            if measured := [found[name] for name in names.values() if name in found]:
                figures.setdefault(key, {})[row] = np.mean(measured, axis=0)
    return figures


def _seed_figures(by_run: Mapping[str, np.ndarray], runs: Mapping[int, str]) -> list[float]:
    return [float(by_run[name][0]) for name in runs.values() if len(runs) > 1 and name in by_run]


def _pairs_table(by_run: _Figures, runs: _Runs, pairs: Sequence[tuple[str, str]], keys: Sequence[_Key]) -> str:
    rows = []
    for one, other in pairs:
        common = [seed for seed in runs[one] if seed in runs[other]]
        row = [f"{one} – {other}"]
        for key in keys:
            found = by_run[key]
            names = [(runs[one][seed], runs[other][seed]) for seed in common]
            changes = [found[own] - found[its] for own, its in names if own in found and its in found]
            row.append(_change_of(changes))
        rows.append(row)
    return table(("", *(f"{measure}, {metric}, {CONDITIONS[condition]}" for measure, metric, condition in keys)), rows)


def _change_of(changes: Sequence[np.ndarray]) -> str:
    """Mean over seeds with its interval over items, and the change of each seed."""
    if not changes:
        return "–"
    shown = show_change(estimate(np.mean(changes, axis=0)))
    if len(changes) == 1:
        return shown
    of_seeds = [float(each[0]) for each in changes]
    if not (min(of_seeds) > 0 or max(of_seeds) < 0):
        shown = shown.strip("*")
    return f"{shown} ({', '.join(f'{each:+.1f}' for each in of_seeds)})"


def _summed(costs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(cost[name] for cost in costs) for name in ("texts", "seconds")}


def _table(
    by_system: Mapping[str, np.ndarray],
    names: Sequence[str],
    costs: Mapping[str, Any],
    first: str,
    seeds: Mapping[str, Sequence[float]],
) -> str:
    rows = []
    for name in [*names, BM25]:
        if name not in by_system:
            continue
        change = "–" if name == first else show_change(estimate(by_system[name] - by_system[first]))
        row = [name, show_estimate(estimate(by_system[name])), change, _ms(name, costs)]
        if seeds:
            row.append(", ".join(f"{value:.1f}" for value in seeds.get(name, ())) or "–")
        rows.append(row)
    return table(("system", "figure", f"to {first}", "ms per text", *(["every seed"] if seeds else [])), rows)


def _ms(name: str, costs: Mapping[str, Any]) -> str:
    """What costs next to nothing with two digits that say something."""
    if name not in costs or not costs[name]["texts"]:
        return "–"
    cost = _cost(costs[name])
    return f"{cost:.1f}" if cost >= _SMALL_MS else f"{cost:.2g}"


def _cost(cost: Mapping[str, float]) -> float:
    return 1000 * cost["seconds"] / max(1, cost["texts"])


def _plot(figures: _Figures, names: Sequence[str], costs: Mapping[str, Any], picture: Path) -> None:
    """A line for every system; a panel for every measure without instruction, or for the first ones where none is, and
    one for the cost."""
    whole = _whole(figures)
    chosen = [key for key in whole if key[2] == NO_INSTRUCTION][:4] or whole[:4]
    size = (3 + 3 * (len(chosen) + 1), 1 + 0.24 * len(names))
    drawn, panels = plt.subplots(1, len(chosen) + 1, figsize=size, sharey=True, squeeze=False, layout="constrained")
    for panel, key in zip(panels[0], chosen, strict=False):
        rows = [row for row, name in enumerate(names) if name in figures[key]]
        found = [estimate(figures[key][names[row]]) for row in rows]
        values = [each.value for each in found]
        bars = [[each.value - each.low for each in found], [each.high - each.value for each in found]]
        panel.errorbar(values, rows, xerr=bars, fmt="o", capsize=2)
        panel.set_xlabel(f"{key[0]}, {key[1]}", loc="right")
    rows = [row for row, name in enumerate(names) if costs[name]["texts"]]
    times = [_cost(costs[names[row]]) for row in rows]
    panels[0][-1].plot(times, rows, "s", color="C1")
    panels[0][-1].set(xlabel="processor time per text, ms", xscale="log")
    is_wide = max(times, default=1.0) > _WIDE * min(times, default=1.0)
    panels[0][-1].xaxis.set_major_locator(LogLocator(subs=(1,) if is_wide else (1, 2, 5)))
    panels[0][-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panels[0][-1].xaxis.set_minor_formatter(NullFormatter())
    panels[0][0].set_yticks(range(len(names)), names)
    panels[0][0].invert_yaxis()
    for panel in panels[0]:
        panel.grid(alpha=0.3)
    drawn.savefig(picture, dpi=100)
    plt.close(drawn)
