"""Plots the curves of a training run in one picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from embedder.training.progress import is_reconstruction, read_log, share_worse

_WINDOW = 20  # steps averaged per point; single batches are too noisy


def plot_run(run: Path, picture: Path) -> None:
    """Plots loss by kind of batch, every L_k, where the regulariser acts, and the validation scores of a run's
    folder."""
    rows = read_log(run)
    steps = [row for row in rows if "stepwise" in row]
    figure, axes = plt.subplots(2, 2, figsize=(12, 9), layout="constrained")
    (by_kind, by_step), (worse, validation) = axes
    for kind in sorted({row["kind"] for row in steps}):
        _line(by_kind, [row for row in steps if row["kind"] == kind], lambda row: row["stepwise"][-1], kind)
    if is_reconstruction(steps):
        by_kind.set(ylabel="reconstruction loss", title="Loss by kind of batch")
        for at, name in enumerate(("L_Q2D", "L_D2Q")):
            _line(by_step, steps, partial(_loss_at, "reconstruction", at), name)
        by_step.set(ylabel="cross-entropy per token", title="Loss of either direction")
        worse.set_axis_off()
    else:
        by_kind.set(ylabel="contrastive loss at the last step K", title="Loss by kind of batch")
        for k in range(max((len(row["stepwise"]) for row in steps), default=0)):
            having = [row for row in steps if len(row["stepwise"]) > k]
            _line(by_step, having, partial(_loss_at, "stepwise", k), f"L_{k + 1}")
        by_step.set(ylabel="contrastive loss", title="Loss at every refinement step")
        points = _points(steps)
        worse.plot([point[-1]["step"] for point in points], [100 * share_worse(point) for point in points])
        worse.set(ylabel="% of transitions", title="Where the regulariser acts: L(k+1) > L(k)")
    scores = [row for row in rows if "validation" in row]
    for name in sorted({name for row in scores for name in row["validation"]}):
        having = [row for row in scores if name in row["validation"]]
        validation.plot([row["step"] for row in having], [row["validation"][name] for row in having], "o-", label=name)
    validation.set(ylabel="score × 100", title="Validation" if scores else "Validation: not configured")
    for each in axes.flat:
        each.set_xlabel("optimiser step")
        if each.get_legend_handles_labels()[0]:
            each.legend(fontsize=8, ncols=2)
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def _loss_at(name: str, at: int, row: dict) -> float:
    return row[name][at]


def _points(rows: Sequence[dict]) -> list[Sequence[dict]]:
    return [rows[i : i + _WINDOW] for i in range(0, len(rows), _WINDOW)]


def _line(axes: Axes, rows: Sequence[dict], value: Callable[[dict], float], label: str) -> None:
    points = _points(rows)
    axes.plot(
        [point[-1]["step"] for point in points],
        [sum(map(value, point)) / len(point) for point in points],
        label=label,
    )
