"""The curves of a training run as one picture."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_WINDOW = 20  # steps per point; single batches are too different to compare


def plot_run(log: Path, picture: Path) -> None:
    """First and last stepwise loss by kind of batch, and how often a step got worse than the one before."""
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    steps = [row for row in rows if "stepwise" in row]
    by_kind: dict[str, list[dict]] = defaultdict(list)
    for row in steps:
        by_kind[row["kind"]].append(row)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for kind, members in sorted(by_kind.items()):
        points = [members[i : i + _WINDOW] for i in range(0, len(members), _WINDOW)]
        left.plot(
            [point[-1]["step"] for point in points],
            [sum(row["stepwise"][-1] for row in point) / len(point) for point in points],
            label=kind,
        )
    left.set(xlabel="optimiser step", ylabel="contrastive loss at the last step K", title="Loss by kind of batch")
    left.legend(fontsize=8)
    points = [steps[i : i + _WINDOW] for i in range(0, len(steps), _WINDOW)]
    right.plot(
        [point[-1]["step"] for point in points],
        [
            100 * sum(row["worse"] for row in point) / sum(len(row["stepwise"]) - 1 or 1 for row in point)
            for point in points
        ],
    )
    right.set(xlabel="optimiser step", ylabel="% of transitions", title="Where the regulariser acts: L(k+1) > L(k)")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
