"""Tables and pictures of what `make bench` measured: reads the JSON files of a folder and writes speed.md beside them.

python -m research.benchmarks.speed_report docs/evaluation
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from embedder.command.standard_output import run_program
from research.benchmarks.encode import ratio_of

OURS = "ours, K=0"
PEER = "sentence-transformers, float32"
_SHOWN = ("ours, K=1", "ours, K=5", "ours, K=20", "sentence-transformers, bfloat16", "sentence-transformers, float32")
_RATIOS = (1, 1.5, 2, 3, 5, 8, 15, 30)
Report = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of encode.json and query-latency.json")
    parser.add_argument(
        "--processors", action="store_true", help="write processors.md alone, with those of its folders"
    )
    options = parser.parse_args()
    (write_processors if options.processors else write_report)(options.folder)


def write_report(folder: Path) -> None:
    """speed.md and the pictures, of those files that are there."""
    parts = []
    if encode := _read(folder / "encode.json"):
        draw_encode(encode, folder / "encode.png")
        parts += ["# Embedding", _origin(encode), "![by length](encode.png)", *encode_tables(encode)]
    if queries := _read(folder / "query-latency.json"):
        draw_queries(queries, folder / "query-latency.png")
        parts += ["# A query", _origin(queries), "![by steps](query-latency.png)", query_table(queries)]
    if not parts:
        raise SystemExit(f"{folder} has neither encode.json nor query-latency.json; run make bench.")
    (folder / "speed.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def write_processors(folder: Path) -> None:
    """processors.md: our figures beside those of each peer, for the processor of `folder` and of its folders."""
    folders = [folder, *sorted(path.parent for path in folder.glob("*/encode.json"))]
    reports = [report for each in folders if (report := _read(each / "encode.json"))]
    if not reports:
        raise SystemExit(f"Neither {folder} nor a folder in it has encode.json; run make bench.")
    parts = [
        "# By processor",
        "Medians of a call, and how many times the time of one pass of sentence-transformers in float32, its default. "
        "A lesser processor is this one, whose libraries were told to take it for that (`--as-if` of "
        "`python -m research.benchmarks` sets what they are told).",
    ]
    for report in reports:
        parts += [f"## {report['machine']}", f"```sh\npython {report['command']}\n```", peer_table(report)]
    (folder / "processors.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def peer_table(report: Report) -> str:
    names = list(report["rows"][0]["seconds"])
    columns = [f"{row['batch']} of {row['tokens']} tokens" for row in report["rows"]]
    lines = [f"| texts in a call | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in names:
        cells = [
            f"{1000 * statistics.median(row['seconds'][name]):.1f} ms, "
            f"×{ratio_of(row['seconds'][name], row['seconds'][PEER]):.2f}"
            for row in report["rows"]
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _read(path: Path) -> Report | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _origin(report: Report) -> str:
    return f"```sh\npython {report['command']}\n```\n\n{report['machine']}"


def encode_tables(report: Report) -> list[str]:
    """Milliseconds of a call: the median and the range of the rounds; and how many times our own single pass."""
    tables = []
    for batch in sorted({row["batch"] for row in report["rows"]}):
        rows = [row for row in report["rows"] if row["batch"] == batch]
        names = list(rows[0]["seconds"])
        lengths = [f"{row['tokens']} tokens" for row in rows]
        lines = [
            f"## {batch} text{'s' * (batch > 1)} in a call\n",
            f"| ms | {' | '.join(lengths)} |",
            "|---" * (len(rows) + 1) + "|",
        ]
        for name in names:
            lines.append(f"| {name} | {' | '.join(_cell(row, name) for row in rows)} |")
        tables.append("\n".join(lines))
    return tables


def _cell(row: Mapping[str, Any], name: str) -> str:
    seconds = row["seconds"][name]
    middle, least, most = (1000 * each for each in (statistics.median(seconds), min(seconds), max(seconds)))
    spread = f" ({least:.0f} to {most:.0f})" if len(seconds) > 1 and most >= 10 else ""
    times = "" if name == OURS else f", ×{ratio_of(seconds, row['seconds'][OURS]):.2f}"
    return f"{middle:.1f}{spread}{times}" if middle < 100 else f"{middle:.0f}{spread}{times}"


def draw_encode(report: Report, picture: Path) -> None:
    """Times our own single pass, over the length of texts; a panel for every batch."""
    batches = sorted({row["batch"] for row in report["rows"]})
    figure, panels = plt.subplots(
        1, len(batches), figsize=(4 * len(batches), 4), layout="constrained", squeeze=False, sharey=True
    )
    for panel, batch in zip(panels[0], batches, strict=True):
        rows = [row for row in report["rows"] if row["batch"] == batch]
        dynamic = [name for name in rows[0]["seconds"] if name.startswith("DynamicCache, bfloat16")]
        for name in (*_SHOWN, *dynamic):
            if all(name in row["seconds"] for row in rows):
                ratios = [ratio_of(row["seconds"][name], row["seconds"][OURS]) for row in rows]
                style = "-" if name.startswith("ours") else "--"
                panel.plot([row["tokens"] for row in rows], ratios, style, marker="o", label=name)
        panel.axhline(1, color="black", linewidth=1)
        panel.set(
            title=f"{batch} text{'s' * (batch > 1)} in a call", xlabel="tokens of a text", xscale="log", yscale="log"
        )
        panel.set_xticks([row["tokens"] for row in rows], [str(row["tokens"]) for row in rows])
        panel.minorticks_off()
        panel.set_yticks(_RATIOS, [f"{each:g}" for each in _RATIOS])
    panels[0][0].set_ylabel("time, in single passes of ours")
    panels[0][-1].legend(fontsize=7)
    _save(figure, picture)


def query_table(report: Report) -> str:
    lines = [
        "| dtype | steps | embed ms, p50 | p95 | p99 | index ms, p50 | both, p50 | p95 | floor of the steps "
        "| times that | then: why, p50 |",
        "|---" * 11 + "|",
    ]
    for row in report["rows"]:
        embed, index, total = row["embed"], row["index"], row["total"]
        lines.append(
            f"| {row['dtype']} | {row['steps']} | {embed['p50']:.1f} | {embed['p95']:.1f} | {embed['p99']:.1f} "
            f"| {index['p50']:.1f} | {total['p50']:.1f} | {total['p95']:.1f} | {row['floor_ms']:.1f} "
            f"| {embed['p50'] / row['floor_ms']:.2f} | {row['explain']['p50']:.0f} |"
        )
    kinds = list(dict.fromkeys(kind for row in report["rows"] for kind in row["profile"]))
    lines += ["", f"| within embed | steps | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    for row in report["rows"]:
        shares = " | ".join(f"{row['profile'].get(kind, 0):.0%}" for kind in kinds)
        lines.append(f"| {row['dtype']} | {row['steps']} | {shares} |")
    return "\n".join(lines)


def draw_queries(report: Report, picture: Path) -> None:
    """Milliseconds of a query, stacked: what the model takes, by kind of work, and the index."""
    rows = report["rows"]
    kinds = list(dict.fromkeys(kind for row in rows for kind in row["profile"]))
    figure, panel = plt.subplots(figsize=(8, 0.5 * len(rows) + 1.5), layout="constrained")
    names = [f"{row['dtype']}, {row['steps']} step{'s' * (row['steps'] > 1)}" for row in rows]
    start = [0.0] * len(rows)
    for kind in (*kinds, "index"):
        widths = [
            row["index"]["p50"] if kind == "index" else row["embed"]["p50"] * row["profile"].get(kind, 0)
            for row in rows
        ]
        panel.barh(names, widths, left=start, label=kind)
        start = [one + other for one, other in zip(start, widths, strict=True)]
    panel.plot([row["floor_ms"] for row in rows], names, "k|", markersize=18, label="floor: weights read once a step")
    panel.invert_yaxis()
    panel.set(xlabel=f"milliseconds (median) of a query to {rows[0]['points']:,} chunks")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, markerscale=0.5)
    _save(figure, picture)


def _save(figure: Any, picture: Path) -> None:
    figure.savefig(picture, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    run_program(main)
