"""Whether naming the values of a lens makes it obeyed: two documents re-ranked through REST for a query, of which one
shares the value of the wanted aspect alone and the other that of the rival aspect alone (chance 50; what ignores the
instruction gets 50 over both directions).

The values are the names of the labels of the triplets' source, as its labels files hold them (at most 200, the most
frequent). Each triplet is asked of `POST /v1/rerank` twice: with the instruction, and with the values too.

    python -m research.benchmarks.value_triplets --triplets data/dev --labels data/dev data/train [--each 100]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from tqdm.auto import tqdm

from app.settings import Settings
from app.types.values import OTHER
from app.wiring.services import open_services
from app.wiring.web import open_web
from embedder.command.standard_output import run_program
from embedder.evaluation.data import files_of, is_tuning, name_of, read_rows
from embedder.evaluation.machine import cpu_name

MOST_VALUES = 200
CHARACTERS = 600  # of a text: about as long as a chunk
# Whose values are words for what a text is about: places, topics, languages, products, companies. Others are its form,
# a feeling, a speech act or a number.
IN_WORDS = frozenset(
    {
        *("country", "region", "nationality"),
        *("topic", "subject", "hazard", "focus", "domain", "category"),
        *("language", "product", "company"),
    }
)


def read_triplets(folder: Path, each: int) -> Mapping[str, Sequence[dict[str, Any]]]:
    """By task, `source:wanted|rival`."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in files_of(folder, "triplets"):
        for row in read_rows(path):
            found[row["task"]].append(row)
    return {task: random.Random(0).sample(rows, min(each, len(rows))) for task, rows in sorted(found.items())}


def read_names(folders: Sequence[Path]) -> Mapping[tuple[str, str], Sequence[str]]:
    """Names of labels by (source, aspect), the most frequent first."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for folder in folders:
        for path in files_of(folder, "labels"):
            for row in read_rows(path):
                for aspect, label in row["labels"].items():
                    counts[name_of(path), aspect].update([label] if isinstance(label, str) else label or ())
    return {key: _takeable([name for name, _ in count.most_common()])[:MOST_VALUES] for key, count in counts.items()}


def _takeable(names: Sequence[str]) -> list[str]:
    """One of those that differ in case alone; `other` is there in any case, and `=` begins synonyms."""
    different = {name.casefold(): name for name in reversed(names) if "=" not in name}
    return [name for name in names if name in different.values() and name.casefold() != OTHER]


def is_obeyed(client: TestClient, triplet: Mapping[str, Any], values: Sequence[str]) -> bool:
    texts = [triplet["pos"][0][:CHARACTERS], triplet["neg"][0][:CHARACTERS]]
    body = {"query": triplet["query"][:CHARACTERS], "documents": texts, "instruction": triplet["instruction"]}
    answer = client.post("/v1/rerank", json={**body, "values": list(values)}).raise_for_status().json()
    first, second = answer["results"]
    return first["index"] == 0 and first["relevance_score"] > second["relevance_score"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triplets", type=Path, required=True, help="a folder with triplets.*.jsonl.gz")
    parser.add_argument("--labels", type=Path, nargs="+", required=True, help="folders with labels.*.jsonl.gz")
    parser.add_argument("--each", type=int, default=100, help="triplets of a task, of both halves")
    parser.add_argument("--half", choices=("odd", "even"), default="odd", help="even: the one to tune on")
    options = parser.parse_args()
    names = read_names(options.labels)
    rows: dict[str, tuple[int, int, float, float]] = {}  # number of values and of triplets, and shares of 100
    with (
        tempfile.TemporaryDirectory() as home,
        open_services(Settings(home=Path(home))) as services,
        open_web(services) as application,
        TestClient(application, base_url="http://127.0.0.1") as client,
    ):
        for task, every in tqdm(read_triplets(options.triplets, options.each).items(), mininterval=30):
            source, _, aspects = task.partition(":")
            values = names.get((source, aspects.partition("|")[0]), ())
            triplets = [each for each in every if is_tuning(each["query"]) == (options.half == "even")]
            if len(values) < 2 or not triplets:
                continue
            without, told = (
                100 * statistics.fmean(is_obeyed(client, each, named) for each in triplets) for named in ((), values)
            )
            rows[task] = (len(values), len(triplets), without, told)
    print(render(rows))


def render(rows: Mapping[str, tuple[int, int, float, float]]) -> str:
    lines = [f"{cpu_name()}, {sum(each[1] for each in rows.values())} triplets", ""]
    lines += [
        "| source: wanted, against rival | values | triplets | instruction | values |",
        "| --- | --- | --- | --- | --- |",
    ]
    in_words = {task for task in rows if task.partition(":")[2].partition("|")[0] in IN_WORDS}
    for task in sorted(rows, key=lambda task: (task not in in_words, task)):
        source, _, aspects = task.partition(":")
        wanted, _, rival = aspects.partition("|")
        count, number, without, told = rows[task]
        mark = "" if task in in_words else " (not in words)"
        lines.append(f"| {source}: {wanted}, against {rival}{mark} | {count} | {number} | {without:.0f} | {told:.0f} |")
    for title, tasks in (("values in words", in_words), ("others", rows.keys() - in_words)):
        if tasks:
            means = [statistics.fmean(rows[task][column] for task in tasks) for column in (2, 3)]
            lines.append(f"| **mean, {title}** | | | {means[0]:.1f} | {means[1]:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_program(main)
