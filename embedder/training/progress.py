"""What a person sees of a run: the log of its steps, the line of the progress bar, one sentence at the end."""

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
    """One JSON object per line. Processes that do not write have none."""

    def __init__(self, folder: Path, *, writes: bool = True) -> None:
        self._path = folder / LOG_FILE if writes else None

    def add(self, row: Mapping) -> None:
        if self._path is not None:
            with self._path.open("ab+") as file:
                if file.tell() and _last_byte(file) != b"\n":
                    file.write(b"\n")  # a kill may have cut the line before
                file.write(json.dumps(row).encode() + b"\n")


def _last_byte(file: IO[bytes]) -> bytes:
    file.seek(-1, io.SEEK_END)
    return file.read(1)


@dataclass(slots=True)
class LRUCache:
    """The last steps, as the progress bar shows them."""

    rows: deque[Mapping] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def add(self, row: Mapping) -> None:
        self.rows.append(row)

    def postfix(self) -> dict[str, str]:
        """L_1, L_K and the share of transitions at which the regulariser acts, over the last steps."""
        return {
            "loss": f"{_mean(row['loss'] for row in self.rows):.3f}",
            "L_1": f"{_mean(row['stepwise'][0] for row in self.rows):.3f}",
            "L_K": f"{_mean(row['stepwise'][-1] for row in self.rows):.3f}",
            "worse": f"{share_worse(self.rows):.0%}",
        }


def share_worse(rows: Iterable[Mapping]) -> float:
    """Share of the transitions k to k+1 whose loss rose, which is where the regulariser acts."""
    rows = list(rows)
    transitions = sum(len(row["stepwise"]) - 1 for row in rows)
    return sum(row["worse"] for row in rows) / transitions if transitions else 0.0


def read_log(folder: Path) -> list[dict]:
    """Rows in order; of a step that was logged again after a stop, the last row. A line cut by a kill is left out."""
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
    """One line about a whole run."""
    rows = read_log(folder)
    steps = [row for row in rows if "stepwise" in row]
    if not steps:
        return "No step was taken."
    last = steps[-_WINDOW:]
    line = (
        f"{len(steps)} steps, {sum(row.get('texts', 0) for row in steps):,} texts; over the last {len(last)}: "
        f"loss {_mean(row['loss'] for row in last):.3f}, L_1 {_mean(row['stepwise'][0] for row in last):.3f}, "
        f"L_K {_mean(row['stepwise'][-1] for row in last):.3f}, {share_worse(last):.0%} of transitions got worse"
    )
    scores = [row["validation"] for row in rows if "validation" in row]
    if scores:
        line += "; last validation " + ", ".join(f"{name} {value:g}" for name, value in scores[-1].items())
    return f"{line}."


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
