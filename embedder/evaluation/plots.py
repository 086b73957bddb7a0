"""Plots of a report: scores by number of steps, and the model against its baselines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from embedder.evaluation.outcomes import BM25, MINILM
from embedder.evaluation.scoring import Score

_COLUMNS = 3
_COLOURS = {"none": "tab:grey", "query": "tab:orange", "both": "tab:blue"}


def plot_steps(scores: Sequence[Score], model: str, picture: Path) -> None:
    """One panel per measure: equal steps on both sides, with the 95 % band; MiniLM's better setting dashed."""
    measures = list(dict.fromkeys((each.measure, each.metric) for each in scores))
    rows = max(1, math.ceil(len(measures) / _COLUMNS))
    figure, axes = plt.subplots(
        rows, _COLUMNS, figsize=(4.4 * _COLUMNS, 3.2 * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(measures) :]:
        axis.set_visible(False)
    for axis, (measure, metric) in zip(axes.flat, measures, strict=False):
        members = [each for each in scores if (each.measure, each.metric) == (measure, metric)]
        for condition, colour in _COLOURS.items():
            line = sorted(_alike(members, model, condition), key=lambda each: each.setting.query_steps or 0)
            steps = [each.setting.query_steps or 0 for each in line]
            axis.plot(
                steps,
                [each.estimate.value for each in line],
                marker="o",
                color=colour,
                label=f"instruction: {condition}",
            )
            bands = [each.estimate.low for each in line], [each.estimate.high for each in line]
            axis.fill_between(steps, *bands, color=colour, alpha=0.15)
        if others := [each.estimate.value for each in members if each.setting.system == MINILM]:
            axis.axhline(max(others), color="black", linestyle="--", linewidth=1, label=MINILM)
        measured = {each.setting.query_steps for each in members if each.setting.query_steps}
        axis.set(title=f"{measure}, {metric}", xlabel="steps K", ylabel="score ×100", xticks=sorted(measured))
    lines = {line.get_label(): line for axis in axes.flat for line in axis.get_lines() if len(line.get_xdata())}
    figure.legend(lines.values(), lines.keys(), loc="outside upper right", ncols=len(_COLOURS) + 1, fontsize=8)
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def plot_baselines(scores: Sequence[Score], model: str, picture: Path) -> None:
    """Bars with 95 % intervals: the model at its most steps, and the baselines; each in its better condition."""
    measures = list(dict.fromkeys((each.measure, each.metric) for each in scores))
    figure, axis = plt.subplots(figsize=(max(6.0, 1.3 * len(measures)), 4.5), layout="constrained")
    width = 0.27
    for place, system in enumerate((model, MINILM, BM25)):
        best = [_best([s for s in scores if (s.measure, s.metric) == each], system) for each in measures]
        bars = [(at, each.estimate) for at, each in enumerate(best) if each]
        axis.bar(
            [at + (place - 1) * width for at, _ in bars],
            [each.value for _, each in bars],
            width,
            yerr=[[max(0.0, e.value - e.low) for _, e in bars], [max(0.0, e.high - e.value) for _, e in bars]],
            capsize=2,
            label=system,
        )
    axis.set_xticks(
        range(len(measures)), [f"{measure}\n{metric}" for measure, metric in measures], rotation=40, ha="right"
    )
    axis.set_ylabel("score ×100")
    figure.legend(loc="outside upper right", ncols=3, fontsize=8)
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def _alike(scores: Sequence[Score], model: str, condition: str) -> list[Score]:
    return [
        each
        for each in scores
        if each.setting.system == model
        and each.setting.condition == condition
        and each.setting.query_steps == each.setting.document_steps
    ]


def _best(scores: Sequence[Score], system: str) -> Score | None:
    own = [each for each in scores if each.setting.system == system]
    most = max((each.setting.query_steps or 0 for each in own), default=0)
    at_most = [
        each
        for each in own
        if (each.setting.query_steps or 0) == most and each.setting.document_steps == each.setting.query_steps
    ]
    return max(at_most, key=lambda each: each.estimate.value, default=None)
