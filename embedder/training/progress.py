"""Reports a run's progress: the log of steps, the progress bar, and a summary at the end."""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

LOG_FILE = "log.jsonl"
_WINDOW = 50  # steps


class RunLog:
    """Writes one JSON object per line. Only process 0 has a log."""

    def __init__(self, folder: Path, *, writes: bool = True) -> None:
        self._path = folder / LOG_FILE if writes else None

    def add(self, row: Mapping) -> None:
        if self._path is not None:
            with self._path.open("ab+") as file:
                if file.tell() and _last_byte(file) != b"\n":
                    file.write(b"\n")  # a kill may have truncated the last line
                file.write(json.dumps(row).encode() + b"\n")


def _last_byte(file: IO[bytes]) -> bytes:
    file.seek(-1, io.SEEK_END)
    return file.read(1)


@dataclass(slots=True)
class RecentSteps:
    """Averages over the last steps, for the progress bar."""

    rows: deque[Mapping] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def add(self, row: Mapping) -> None:
        self.rows.append(row)

    def postfix(self) -> dict[str, str]:
        """Losses and the share of transitions where the regulariser acts, over the last steps."""
        shown = {name: f"{value:.3f}" for name, value in _mean_losses(self.rows).items()}
        return shown if is_reconstruction(self.rows) else {**shown, "worse": f"{share_worse(self.rows):.0%}"}


def is_reconstruction(rows: Iterable[Mapping]) -> bool:
    """Whether the run is Anchor's first stage, which has L_Q2D and L_D2Q instead of L_1..L_K."""
    return any(row.get("reconstruction") for row in rows)


def share_worse(rows: Iterable[Mapping]) -> float:
    """Share of the transitions k to k+1 with a rising loss, where the regulariser acts."""
    rows = list(rows)
    transitions = sum(len(row["stepwise"]) - 1 for row in rows)
    return sum(row["worse"] for row in rows) / transitions if transitions else 0.0


def read_log(folder: Path) -> list[dict]:
    """Rows in order. A step that was logged again after a stop counts once, with its last row; skips a truncated
    line."""
    path = folder / LOG_FILE
    rows: dict[object, dict] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.is_file() else ()):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        key = (row["step"], "validation" in row) if "step" in row else ("line", number)
        rows.pop(key, None)
        rows[key] = row
    return list(rows.values())


def summarise(folder: Path) -> str:
    """A one-line summary of a run."""
    rows = read_log(folder)
    steps = [row for row in rows if "stepwise" in row]
    if not steps:
        return "No step was taken."
    last = steps[-_WINDOW:]
    losses = ", ".join(f"{name} {value:.3f}" for name, value in _mean_losses(last).items())
    texts = sum(row.get("texts", 0) for row in steps)
    line = f"{len(steps)} steps, {texts:,} texts; over the last {len(last)}: {losses}"
    if not is_reconstruction(last):
        line += f", {share_worse(last):.0%} of transitions got worse"
    scores = [row["validation"] for row in rows if "validation" in row]
    if scores:
        line += "; last validation " + ", ".join(f"{name} {value:g}" for name, value in scores[-1].items())
    return f"{line}."


def _mean_losses(rows: Iterable[Mapping]) -> dict[str, float]:
    rows = list(rows)
    field_name, names = (
        ("reconstruction", ("L_Q2D", "L_D2Q")) if is_reconstruction(rows) else ("stepwise", ("L_1", "L_K"))
    )
    first, last = (_mean(row[field_name][at] for row in rows) for at in (0, -1))
    return {"loss": _mean(row["loss"] for row in rows), names[0]: first, names[1]: last}


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
