"""Counts by value of whole collections, as a lens index has them, against what the texts are: macro-F1 over the labels
of five label sets, beside the zero-shot figure of plain MiniLM (the label whose name is nearest, none is `other`).

    python -m research.benchmarks.value_facets --data data/dev [--texts 600]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import f1_score

from app.search.judgements import new_lens
from app.services import Services
from app.settings import Settings
from app.types.documents import JobState, Source
from app.types.lens_indexes import LensIndexState
from app.types.values import OTHER
from app.wiring.ingestion import run_worker
from app.wiring.services import open_services
from embedder.command.standard_output import run_program
from embedder.evaluation.data import read_instructions, read_rows
from embedder.evaluation.embedders import MiniLmEmbedder
from embedder.evaluation.machine import cpu_name

SETS = (
    ("banking77", "intent"),
    ("clinc150", "intent"),
    ("hwu64", "intent"),
    ("cfpb_complaints", "product"),
    ("factbook", "topic"),
)
CHARACTERS = 600  # so that a text is a chunk
_PATIENCE_S = 1800.0


class LabelSet(NamedTuple):
    name: str
    instruction: str
    texts: Sequence[str]
    labels: Sequence[str]


def read_set(folder: Path, name: str, aspect: str, most: int) -> LabelSet:
    rows = {
        row["text"][:CHARACTERS]: row["labels"].get(aspect) for row in read_rows(folder / f"labels.{name}.jsonl.gz")
    }
    one = sorted((text, label) for text, label in rows.items() if isinstance(label, str) and label != OTHER)
    chosen = random.Random(0).sample(one, min(most, len(one)))
    instruction = read_instructions(folder)[name][aspect]
    return LabelSet(name, instruction, [text for text, _ in chosen], [label for _, label in chosen])


def values_of(services: Services, found: LabelSet) -> list[str]:
    """Of each text the value that the table of the collection says, by way of ingestion and a lens index."""
    services.library.ensure_collection(found.name)
    lens = new_lens(found.name, found.instruction, values=sorted(set(found.labels)))
    services.catalog.save_lens(lens)
    sources = [Source(str(at), str(at), "text/plain", data=text.encode()) for at, text in enumerate(found.texts)]
    services.library.add_documents(found.name, sources)
    services.lens_indexes.build(found.name, found.name)
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, args=(services, stop))
    worker.start()
    try:
        wait(services, found.name)
    finally:
        stop.set()
        worker.join()
    best: dict[int, str] = {}
    for page in services.value_tables.pages(found.name, found.name):
        for row in page:
            best.setdefault(int(row.uri), row.value)
    return [best[at] for at in range(len(found.texts))]


def wait(services: Services, collection: str) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        counts = services.catalog.job_counts(collection)
        is_open = counts.get(JobState.QUEUED, 0) + counts.get(JobState.RUNNING, 0)
        [status] = services.lens_indexes.status(collection)
        if not is_open and status.state is LensIndexState.READY and status.chunks:
            return
        time.sleep(1)
    raise SystemExit(f"The lens index of {collection} was not built within {_PATIENCE_S:g} s.")


def zero_shot(model: MiniLmEmbedder, found: LabelSet) -> list[str]:
    names = sorted(set(found.labels))
    texts, phrases = (model.embed(each, instruction="", steps=())[None] for each in (found.texts, names))
    return [names[at] for at in np.argmax(texts @ phrases.T, axis=1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with labels.NAME.jsonl.gz")
    parser.add_argument("--texts", type=int, default=600, help="of a set, at most")
    options = parser.parse_args()
    minilm = MiniLmEmbedder()
    print(f"{cpu_name()}\n")
    print(
        "| label set | labels | texts | macro-F1 of the counts | of them *other* | of the others | MiniLM, zero-shot |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as home, open_services(Settings(home=Path(home))) as services:
        for name, aspect in SETS:
            found = read_set(options.data, name, aspect, options.texts)
            told, nearest = values_of(services, found), zero_shot(minilm, found)
            labels = sorted(set(found.labels))
            fits = [at for at, value in enumerate(told) if value != OTHER]
            f1, of_fitting, plain = (
                100
                * f1_score([found.labels[at] for at in rows], [by[at] for at in rows], labels=labels, average="macro")
                for rows, by in ((range(len(told)), told), (fits, told), (range(len(told)), nearest))
            )
            other = 100 * (1 - len(fits) / len(told))
            facts = f"{name}: {aspect} | {len(labels)} | {len(told)}"
            print(f"| {facts} | {f1:.1f} | {other:.0f} % | {of_fitting:.1f} | {plain:.1f} |", flush=True)


if __name__ == "__main__":
    run_program(main)
