"""What search_scale.py found: a JSON file that keeps the sizes of other runs, a table and a picture."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from embedder.evaluation.machine import cpu_name
from research.benchmarks.serving_memory import Memory

_PACKAGES = ("qdrant-edge-py", "qdrant-client", "numpy")
_TARGET_MS = 50


@dataclass(frozen=True, kw_only=True)
class Row:
    corpus: str
    points: int
    search: str
    filter: str
    queries: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    batch_ms: float | None  # a query in a batch of 32
    recall: float | None  # None of searches by words, which are exact
    memory: Memory | None  # None, as `disk_mb`, of a server
    disk_mb: float | None
    load_s: float
    engine: str = "embedded"
    build_s: float = 0.0
    build_peak_mb: float = 0.0

    @property
    def key(self) -> tuple[object, ...]:
        return self.corpus, self.points, self.search, self.filter, self.engine


def report(rows: Sequence[Row], command: str, folder: Path | None) -> None:
    """Written into the folder, beside the rows of other sizes."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "search-scale.json"
    former = json.loads(file.read_text("utf-8")) if file.exists() else {"rows": [], "commands": []}
    new = {row.key for row in rows}
    others = [row for row in map(_row, former["rows"]) if row.key not in new]
    rows = sorted([*others, *rows], key=lambda row: row.points)
    commands = list(dict.fromkeys([*former["commands"], command]))
    content = {"machine": machine(), "commands": commands, "rows": [asdict(row) for row in rows]}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "search-scale.md").write_text(_page(rows, commands), encoding="utf-8")
    plot(rows, folder / "search-scale.png")


def machine() -> dict[str, str]:
    memory = next((line for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "")
    return {
        "processor": cpu_name(),
        "cores": str(os.cpu_count()),
        "memory": memory.partition(":")[2].strip(),
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| engine | corpus | chunks | search | filter | p50 ms | p95 ms | p99 ms | in a batch, ms | recall@10 "
        "| build s | engine's own MB | mapped MB | disk MB |",
        "|---" * 14 + "|",
    ]
    for row in rows:
        times = f"{row.p50_ms:.1f} | {row.p95_ms:.1f} | {row.p99_ms:.1f}"
        batch = "" if row.batch_ms is None else f"{row.batch_ms:.1f}"
        memory = " | " if row.memory is None else f"{row.memory.own:,.0f} | {row.memory.mapped:,.0f}"
        sizes = f"{memory} | {'' if row.disk_mb is None else f'{row.disk_mb:,.0f}'}"
        share = "" if row.recall is None else f"{row.recall:.4f}"
        build = f"{row.build_s:.0f}" if row.build_s else ""
        lines.append(
            f"| {row.engine} | {row.corpus} | {row.points:,} | {row.search} | {row.filter} | {times} | {batch} "
            f"| {share} | {build} | {sizes} |"
        )
    return "\n".join(lines)


def plot(rows: Sequence[Row], picture: Path) -> None:
    """Unfiltered searches by meaning of the synthetic corpora in the embedded engine: p95 and recall over the size."""
    shown = [row for row in rows if row.corpus == "synthetic" and not row.filter and row.engine == "embedded"]
    shown = [row for row in shown if row.search.startswith(("exact", "graph"))]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for search in dict.fromkeys(row.search for row in shown):
        line = [row for row in shown if row.search == search]
        sizes = [row.points for row in line]
        left.plot(sizes, [row.p95_ms for row in line], marker="o", label=search)
        right.plot(sizes, [row.recall for row in line], marker="o", label=search)
    left.axhline(_TARGET_MS, color="black", linestyle="--", linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="chunks", ylabel="p95 of a search, ms")
    right.set(xscale="log", xlabel="chunks", ylabel="recall@10 against exact search")
    left.legend(fontsize=8)
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def _page(rows: Sequence[Row], commands: Sequence[str]) -> str:
    about = "  \n".join(f"{key}: {value}" for key, value in machine().items())
    return "\n".join(["```sh", *commands, "```", "", about, "", table(rows), ""])


def _row(content: dict[str, object]) -> Row:
    memory = content.pop("memory")
    return Row(**content, memory=Memory(**memory) if isinstance(memory, dict) else None)  # type: ignore[arg-type]


def _lines(file: str) -> list[str]:
    path = Path(file)
    return path.read_text().splitlines() if path.exists() else []
