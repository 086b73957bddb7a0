"""What a lens index costs and brings: building it, memory, disk, searches with and without it, and ingestion beside it.

Chunks are synthetic: vectors drawn around those of the sample library (spread_vectors.py), in the embedded
engine; model, catalog, worker's job and searches are the product's own.

    python -m research.benchmarks.lens_index --chunks 100000 --home DIR --load    # minutes; begun again, it goes on
    python -m research.benchmarks.lens_index --chunks 100000 --home DIR
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
from tqdm import tqdm

from app.documents.library import sample_rows
from app.search.lenses import find_lens
from app.search.value_syntax import parse_values
from app.services import Services
from app.settings import Settings
from app.testing import text_source
from app.types.documents import Collection, Job, Point
from app.types.search import SearchRequest
from app.wiring.ingestion import open_pipeline
from app.wiring.services import open_services
from embedder.command.standard_output import run_program
from ingest.pipeline import IngestPipeline
from research.benchmarks.serving_memory import largest_memory, memory_of
from research.benchmarks.spread_vectors import fit_spread

NAME, LENS, OTHER_LENS = "library", "Same place", "Same topic"
_UPSERTED = 2_000
_QUERY_STEP = 20  # of the sample library's titles, each is a query
_INGESTED = 10  # documents
_LEASE = timedelta(minutes=10)
_MEGABYTE = 1e6
_REPEATS = 5
_LABELS_READ_S = 10.0  # by then they are, in the background
_asked = itertools.count(1)


def fill(services: Services, collection: Collection, count: int) -> None:
    """What an earlier run loaded stays: a point's number says all about it."""
    present = services.index.count(collection.active_index)
    if present >= count:
        return
    rows = list(sample_rows())
    texts = [row.text[:800] for row in rows]
    real = services.embedder.embed_documents(
        texts, instruction=collection.document_instruction, steps=collection.document_steps
    )
    drawn = fit_spread(np.asarray(real, dtype=np.float32)).draw(count, seed=0)
    for start in tqdm(range(present // _UPSERTED * _UPSERTED, count, _UPSERTED), desc="load", unit_scale=_UPSERTED):
        vectors = drawn[start : start + _UPSERTED].tolist()
        points = [_point(start + n, _part_of(texts, start + n), vector) for n, vector in enumerate(vectors)]
        services.index.upsert(collection.active_index, points)


def _part_of(texts: list[str], number: int) -> str:
    """Of different lengths: equal ones would all be of one score by their words, and a search fetches whole ties."""
    words = texts[number % len(texts)].split()
    turn = number // len(texts)
    first = turn * 3 % max(len(words) - 20, 1)
    return " ".join(words[first : first + 20 + turn * 7 % 90])


def _point(number: int, text: str, vector: list[float]) -> Point:
    place = {"ordinal": number % 10, "start": 0, "end": len(text), "page": None, "text_hash": f"{number:064}"}
    owner = {"document_id": f"d{number // 10}", "title": f"Text {number // 10}", "uri": f"text://{number // 10}"}
    payload = {"page_content": text, "metadata": {**owner, **place, "half": f"h{number % 2}"}}
    return Point(str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))), vector, payload)


@dataclass(frozen=True)
class Clock:
    """Wall time, and the processor time of this process and of the engine: others may be at work on the machine."""

    engine: int  # its process

    def __call__(self) -> np.ndarray:
        threads = Path(f"/proc/{self.engine}/task").glob("*/schedstat")
        engine = sum(int(each.read_text().split()[0]) for each in threads) / 1e9
        return np.array([time.perf_counter(), time.process_time(), engine])


@dataclass(frozen=True)
class Times:
    """In ms, of n pairs: (n, 3) of a search with the fields, and by how much that is more than of the same one without.
    Columns: wall, processor time of this process, and of the engine's."""

    whole: np.ndarray
    more: np.ndarray

    def __str__(self) -> str:
        """Medians: they hold where others are at work on the machine, too."""
        medians = zip(np.median(self.whole, axis=0), np.median(self.more, axis=0), strict=True)
        return " | ".join(f"{whole:.1f} ms ({more:+.1f})" for whole, more in medians)


def search_times(services: Services, clock: Clock, *, repeats: int = 1, **fields: object) -> Times:
    """No query was asked before but for its vectors, which the model's share would be. Of each pair now one, now the
    other comes first, since the second finds the engine's pages read. With `repeats` the least of so many counts, which
    other work on the machine moves little: where nothing is remembered of a query but what all chunks are."""
    queries = [f"{row.title} {next(_asked)}" for row in list(sample_rows())[::_QUERY_STEP]]
    whole, more = [], []
    for number, query in enumerate(queries):
        plain = SearchRequest(query, NAME, "", rerank=0)
        for steps in (None, 0):
            services.search.refine(query, instruction="", steps=steps)
        taken = {True: np.full(3, np.inf), False: np.full(3, np.inf)}
        for has_fields in repeats * ((True, False) if number % 2 else (False, True)):
            begun = clock()
            services.search.search(replace(plain, **fields) if has_fields else plain, highlight=False)  # type: ignore[arg-type]
            taken[has_fields] = np.minimum(taken[has_fields], (clock() - begun) * 1000)
        whole.append(taken[True])
        more.append(taken[True] - taken[False])
    return Times(np.array(whole), np.array(more))


def queued(services: Services, lens: str) -> Job:
    services.lens_indexes.build(NAME, lens)
    return claimed(services)


def build(services: Services, pipeline: IngestPipeline, job: Job) -> None:
    pipeline.run(job, heartbeat=lambda done: services.catalog.heartbeat(job, lease=_LEASE, progress=done))


def claimed(services: Services) -> Job:
    job = services.catalog.claim("benchmark", lease=_LEASE)
    assert job is not None
    return job


def ingest(services: Services, pipeline: IngestPipeline, number: int) -> float:
    """Seconds for documents of about a chunk each, one after the other."""
    run = time.time_ns()  # an earlier one had others
    for at in range(_INGESTED):
        services.library.add_document(
            NAME, text_source(f"text://{run}/{number}/{at}", f"{run} {number} {at} " + "A new text. " * 40)
        )
    jobs = [claimed(services) for _ in range(_INGESTED)]
    started = time.perf_counter()
    for job in jobs:
        pipeline.run(job, heartbeat=lambda done: None)
    return time.perf_counter() - started


@contextmanager
def beside(action: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=action)
    thread.start()
    yield
    thread.join()


def disk_mb(home: Path) -> float:
    return sum(file.stat().st_blocks * 512 for file in home.rglob("*") if file.is_file()) / _MEGABYTE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--home", type=Path, required=True, help="where the chunks stay for the next run")
    parser.add_argument("--load", action="store_true", help="only load them")
    arguments = parser.parse_args()
    arguments.home.mkdir(parents=True, exist_ok=True)
    with open_services(Settings(home=arguments.home)) as services:
        if NAME not in {each.name for each in services.catalog.collections()}:
            services.library.create_collection(NAME)
        fill(services, services.catalog.collection(NAME), arguments.chunks)
        if not arguments.load:
            with open_pipeline(services, is_stopping=lambda: False) as pipeline:
                report(services, pipeline, arguments.home)


def remove_former(services: Services) -> None:
    """What an earlier run built."""
    for each in services.lens_indexes.status(NAME):
        services.lens_indexes.delete(NAME, each.lens)
    services.library.remove_unneeded()


def report(services: Services, pipeline: IngestPipeline, home: Path) -> None:
    values = parse_values(find_lens(services.catalog, LENS).values)
    remove_former(services)
    print("machine's load:", " ".join(f"{each:.1f}" for each in os.getloadavg()))
    pid = int(json.loads((home / "edge" / "edge.json").read_text())["pid"])
    clock = Clock(pid)

    def searches(name: str, *, repeats: int = 1, **fields: object) -> None:
        print(f"| {name} | {search_times(services, clock, repeats=repeats, **fields)} |", flush=True)

    print("| search (more than without) | wall | processor, product | processor, engine |\n|---|---|---|---|")
    searches("twice the same")
    searches("twice the same, the least of five", repeats=_REPEATS)
    searches("values of candidates", values=values)
    searches("one value of candidates", values=values, value="Africa")
    disk, memory = disk_mb(home), memory_of(pid)
    job, begun = queued(services, LENS), clock()
    with largest_memory(pid) as largest:
        build(services, pipeline, job)
    wall, own, engine = clock() - begun
    grown = memory_of(pid)
    services.search.search(SearchRequest("Africa", NAME, "", values=values), highlight=False)  # labels are read
    time.sleep(_LABELS_READ_S)
    searches("values of the collection", values=values)
    searches("the same, the least of five", values=values, repeats=_REPEATS)
    searches("one value of the collection", values=values, value="Africa")
    searches("values, within a filter", values=values, filters={"half": "h1"})
    print("\n| what | measured |\n| --- | --- |")
    told = f"{wall:.1f} s; processor {own:.1f} s here, {engine:.1f} s in the engine"
    print(f"| building ({len(values)} values) | {told} |")
    print(f"| disk | {disk:.0f} -> {disk_mb(home):.0f} MB |")
    told = f"{memory.own:.0f} -> {grown.own:.0f} MB, largest {largest.total:.0f} MB"
    print(f"| engine's own memory | {told} |", flush=True)
    alone = ingest(services, pipeline, 1)
    job = queued(services, OTHER_LENS)
    with beside(lambda: build(services, pipeline, job)):
        together = ingest(services, pipeline, 2)
    print(f"| ingesting {_INGESTED} documents | alone {alone:.1f} s, beside a build {together:.1f} s |")


if __name__ == "__main__":
    run_program(main)
