"""Times ingestion: a first run and one where nothing changed, in turn with LangChain's `index()`.

Both embed with the same model at the same steps and split texts into chunks of the same size, each in a new process
that has loaded the model. Times are wall clock, without that; of several repeats the median counts. Run it as
`python -m research.benchmarks.ingest`, with the extra [dev]; `--qdrant` also measures a server (qdrant_choice.py).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import psutil
import torch
from langchain_classic.indexes import SQLRecordManager
from langchain_core.documents import Document
from langchain_core.indexing import index
from langchain_qdrant import QdrantVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, VectorParams

from app.documents.intake import Intake
from app.services import Services
from app.settings import load_settings
from app.types.defaults import CHUNK_OVERLAP, CHUNK_TOKENS
from app.types.documents import JobState, SourceFailure
from app.wiring.bulk import open_engine
from app.wiring.services import open_services
from app.wiring.sources import RowFields, find_files
from embedder import GircseEmbeddings
from embedder.command.standard_output import run_program
from research.benchmarks.qdrant_choice import QdrantChoice, add_qdrant_options, qdrant_choices

SAMPLE = Path(__file__).parents[2] / "sample" / "library.jsonl"
COLLECTION = "benchmark"
STEPS = 5
_POLL_S = 0.02
_LISTEN_S = 1.0  # counting jobs takes processor time from who does them
_OPEN = (JobState.QUEUED, JobState.RUNNING, JobState.FAILED)

# Gets ready what works off the queue while its block is open. What it gives is called as soon as the queue is filled.
Engine = Callable[[Services, str, QdrantChoice], AbstractContextManager[Callable[[], object]]]
Seconds = dict[str, float]


@contextmanager
def worker_processes(
    services: Services, collection: str, qdrant: QdrantChoice, *, count: int
) -> Iterator[Callable[[], object]]:
    """So many `gircse worker`, each with its model loaded. They begin with the first document in the queue."""
    home = services.settings.home
    threads = max(1, torch.get_num_threads() // count)  # each its share of the cores
    environment = {**os.environ, **qdrant.environment, "GIRCSE_HOME": str(home), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", "from app.cli import main; main()", "--debug", "worker"]
    logs = [home / f"worker-{number}.log" for number in range(count)]
    processes = []
    try:
        for log in logs:
            with log.open("w") as opened:
                processes.append(subprocess.Popen(command, env=environment, stdout=opened, stderr=opened))
        while not all("The worker has the model" in log.read_text() for log in logs):
            if any(process.poll() is not None for process in processes):
                raise RuntimeError(f"A worker ended: {[log.read_text()[-2000:] for log in logs]}")
            time.sleep(_POLL_S)
        yield lambda: None
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


@contextmanager
def ray_cluster(services: Services, collection: str, qdrant: QdrantChoice) -> Iterator[Callable[[], object]]:
    """What `gircse ingest --engine ray` does on one machine: a cluster that is up, and shards of a filled queue.

    As a worker it loads its model once, before the clock.
    """
    stop = threading.Event()
    with open_engine(services) as engine, ThreadPoolExecutor(1) as thread:
        engine.wait_until_loaded(1)
        try:
            yield cache(lambda: thread.submit(engine.run, collection, stop))
        finally:
            stop.set()


ENGINES: dict[str, Engine] = {
    "1 worker": partial(worker_processes, count=1),
    "2 workers": partial(worker_processes, count=2),
    "Ray, 1 node": ray_cluster,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=SAMPLE, help="JSONL with id, title and text")
    parser.add_argument("--limit", type=int, default=500, help="rows of it")
    parser.add_argument("--copies", type=int, default=1, help="of each row, numbered, for a larger corpus")
    parser.add_argument("--join", type=int, default=1, help="rows that make one document")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    add_qdrant_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, qdrant_choices(options) as choices:
        rows = read_rows(options.corpus, limit=options.limit, copies=options.copies)
        corpus = write_corpus(rows, Path(folder) / "corpus.jsonl", join=options.join)
        found: dict[str, list[Seconds]] = defaultdict(list)
        for repeat in range(options.repeats):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                langchain = process.submit(run_langchain, corpus, Path(folder) / f"langchain-{repeat}")
                found["LangChain"].append(langchain.result())
            for name, qdrant in itertools.product(options.engines, choices):
                row = name if qdrant.url is None else f"{name}, {qdrant.label}"
                home = Path(folder) / f"{row.replace(' ', '-')}-{repeat}"
                found[row].append(run_ours(corpus, home, ENGINES[name], qdrant))
        print_runs(found)


def read_rows(source: Path, *, limit: int, copies: int) -> list[dict[str, str]]:
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()[:limit]]
    copied = [(copy, row) for copy in range(1, copies) for row in rows]
    numbered = [{**row, "id": f"{row['id']}-{copy}", "text": f"{copy}. {row['text']}"} for copy, row in copied]
    return rows + numbered


def write_corpus(rows: list[dict[str, str]], target: Path, *, join: int) -> Path:
    with target.open("w", encoding="utf-8") as written:
        for start in range(0, len(rows), join):
            part = rows[start : start + join]
            joined = {"id": part[0]["id"], "title": part[0]["title"], "text": "\n\n".join(row["text"] for row in part)}
            written.write(json.dumps(joined) + "\n")
    return target


def run_langchain(corpus: Path, folder: Path) -> Seconds:
    """Qdrant's Python local mode on disk, and a record manager on SQLite, as its documentation shows them."""
    embeddings = GircseEmbeddings(document_steps=STEPS)
    embeddings.embed_documents(["Warms up."])
    folder.mkdir()
    encoder = embeddings._encoder
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=CHUNK_TOKENS,
        chunk_overlap=CHUNK_OVERLAP,
        length_function=lambda text: len(encoder.token_offsets(text)),
    )
    client = QdrantClient(path=str(folder / "qdrant"))
    client.create_collection(COLLECTION, vectors_config=VectorParams(size=encoder.dimension, distance=Distance.COSINE))
    store = QdrantVectorStore(client, COLLECTION, embedding=embeddings)
    records = SQLRecordManager(COLLECTION, db_url=f"sqlite:///{folder / 'records.db'}")
    records.create_schema()

    def run() -> None:
        rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
        documents = [Document(row["text"], metadata={"source": row["id"], "title": row["title"]}) for row in rows]
        chunks = splitter.split_documents(documents)
        index(chunks, records, store, cleanup="incremental", source_id_key="source")

    found = {**timed("first", run), **timed("unchanged", run)}
    count = client.count(COLLECTION).count
    client.close()
    return {**found, "documents": line_count(corpus), "chunks": count}


def run_ours(corpus: Path, home: Path, engine: Engine, qdrant: QdrantChoice) -> Seconds:
    collection = f"{COLLECTION}-{uuid.uuid4().hex[:12]}"  # of this run alone, on a server that has others
    with open_services(load_settings(home=home, **qdrant.settings)) as services:
        services.library.create_collection(collection, document_steps=STEPS)

        def run() -> None:
            take_in(services, corpus, collection)
            begin()
            while any(services.catalog.job_counts()[state] for state in _OPEN):
                listener.wait(_LISTEN_S)

        with engine(services, collection, qdrant) as begin, services.catalog.listening() as listener:
            found = {**timed("first", run), **timed("unchanged", run)}
        held = services.catalog.counted_collection(collection)
        services.library.delete_collection(collection)
    if held.document_count != line_count(corpus):
        raise RuntimeError(f"{held.document_count} of {line_count(corpus)} documents were taken in.")
    return {**found, "documents": held.document_count, "chunks": held.chunk_count}


def take_in(services: Services, corpus: Path, collection: str) -> None:
    intake = Intake(services.library, collection)
    for taken in intake.add_all(find_files([corpus], rows=RowFields())):
        if isinstance(taken, SourceFailure):
            raise RuntimeError(f"{taken.name}: {taken.reason}")


def print_runs(found: dict[str, list[Seconds]]) -> None:
    print(
        f"{platform.machine()}, {torch.get_num_threads()} threads; {STEPS} steps; medians of {len(found['LangChain'])}"
    )
    print("| | documents | chunks | first run: s | CPU s | documents/s | chunks/s | unchanged run: s | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, runs in found.items():
        median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        first = f"{median['first']:.1f} | {median['first cpu']:.1f}"
        rates = f"{median['documents'] / median['first']:.1f} | {median['chunks'] / median['first']:.1f}"
        unchanged = f"{median['unchanged']:.2f} | {median['unchanged cpu']:.2f}"
        print(f"| {name} | {median['documents']:.0f} | {median['chunks']:.0f} | {first} | {rates} | {unchanged} |")
    for name, runs in found.items():
        for what in ("first", "unchanged"):
            pairs = [theirs[what] / ours[what] for theirs, ours in zip(found["LangChain"], runs, strict=True)]
            print(f"{name}, {what} run: {statistics.median(pairs):.2f} times as fast as LangChain", file=sys.stderr)


def line_count(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


def timed(name: str, run: Callable[[], None]) -> Seconds:
    cpu, begin = cpu_seconds(), time.perf_counter()
    run()
    return {name: time.perf_counter() - begin, f"{name} cpu": cpu_seconds() - cpu}


def cpu_seconds() -> float:
    """Of this process and those that it started: workers, readers, the vector engine."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    run_program(main)
