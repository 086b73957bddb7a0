"""What each option of a search costs: medians over the sample library, the options in turn for every query, each asked
for the first time. What they bring in quality is in docs/evaluation.

    python -m research.benchmarks.search_options [--queries 40]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.documents.library import SAMPLE_COLLECTION, sample_rows
from app.search.lenses import STARTERS
from app.search.service import SearchService
from app.search.value_syntax import parse_values
from app.services import Services
from app.settings import Settings
from app.types.documents import JobState
from app.types.search import SearchMode, SearchRequest
from app.wiring.ingestion import run_worker
from app.wiring.services import open_services
from embedder.command.standard_output import run_program
from embedder.evaluation.machine import cpu_name

_LENS = next(lens for lens in STARTERS if lens.name == "Same place")
_SEEN = {"instruction": _LENS.query_instruction}
_VALUES = {**_SEEN, "values": parse_values(_LENS.values), "rerank": 0}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "the default: hybrid, no instruction": {"instruction": ""},
    "dense, no instruction": {"instruction": "", "mode": SearchMode.DENSE},
    "sparse": {"mode": SearchMode.SPARSE},
    "without folding near-duplicates": {"instruction": "", "fold_duplicates": False},
    "without preferring prose": {"instruction": "", "prefer_prose": False},
    "per_document 1": {"instruction": "", "per_document": 1},
    "diversity 0.3": {"instruction": "", "diversity": 0.3},
    "a phrase excluded": {"instruction": "", "exclude": ("islands",)},
    "instructed, no second look": {**_SEEN, "rerank": 0},
    "instructed, second look at 20 (the default)": _SEEN,
    "instructed, second look at 50": {**_SEEN, "rerank": 50},
    "values, no second look": _VALUES,
    "values by a lens index, no second look": _VALUES,
    "values and second look at 20": {**_VALUES, "rerank": 20},
}
INDEXED = "values by a lens index, no second look"


def fill(services: Services) -> None:
    services.library.add_sample(sample_rows())
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, args=(services, stop))
    worker.start()
    try:
        work_off(services)
    finally:
        stop.set()
        worker.join()


def work_off(services: Services) -> None:
    while True:
        counts = services.catalog.job_counts(SAMPLE_COLLECTION)
        if not counts.get(JobState.QUEUED, 0) + counts.get(JobState.RUNNING, 0):
            return
        time.sleep(0.5)


def queries_of(count: int) -> list[str]:
    """Beginnings of sentences of the library, one for each query and option."""
    texts = [row.text.split(". ")[0] for row in sample_rows()]
    return [" ".join(text.split()[:12]) for text in texts if len(text.split()) > 6][:count]


def measure(services: Services, options: Mapping[str, Mapping[str, Any]], queries: list[str]) -> dict[str, list[float]]:
    """Each option has a search service of its own, so that it remembers no query of another one's."""
    searches = {
        name: SearchService(services.catalog, services.index, services.embedder, rerank_candidates=20)
        for name in options
    }
    took: dict[str, list[float]] = defaultdict(list)
    for number, query in enumerate(queries):
        order = random.Random(number).sample([*options], len(options))  # none always follows the same one
        for place, name in enumerate(order):
            text = f"{query} {number * len(options) + place}"  # none is remembered by the embedder
            started = time.perf_counter()
            searches[name].search(SearchRequest(text, SAMPLE_COLLECTION, **options[name]), highlight=False)
            took[name].append(1000 * (time.perf_counter() - started))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=40)
    options = parser.parse_args()
    queries = queries_of(options.queries + 3)
    with tempfile.TemporaryDirectory() as home, open_services(Settings(home=Path(home))) as services:
        fill(services)
        others = {name: fields for name, fields in OPTIONS.items() if name != INDEXED}
        measure(services, others, queries[:3])
        took = measure(services, others, queries[3:])
        services.lens_indexes.build(SAMPLE_COLLECTION, _LENS.name)
        fill(services)
        indexed = {INDEXED: OPTIONS[INDEXED]}
        measure(services, indexed, queries[:3])
        took |= measure(services, indexed, queries[3:])
    print(f"{cpu_name()}, {len(queries) - 3} queries of 12 words\n")
    print("| option | ms, median | 90th percentile |\n| --- | --- | --- |")
    for name in OPTIONS:
        ninth = statistics.quantiles(took[name], n=10)[-1]
        print(f"| {name} | {statistics.median(took[name]):.0f} | {ninth:.0f} |")


if __name__ == "__main__":
    run_program(main)
