"""What standing searches add to ingestion: the same texts with none and with many, in pairs of short rounds, by
processor time of the worker and of the embedded engine.

    python -m research.benchmarks.standing
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil

from app.documents.library import sample_rows
from app.services import Services
from app.settings import Settings
from app.testing import text_source
from app.types.access import Role, User
from app.types.documents import utc_now
from app.types.standing import Strength, Watch
from app.wiring.ingestion import open_pipeline
from app.wiring.services import open_services
from embedder.command.standard_output import run_program
from ingest.pipeline import IngestPipeline

PLAIN, WATCHED = "plain", "watched"
_LEASE = timedelta(minutes=30)
_BLOCK = 256


def watch(services: Services, count: int) -> None:
    """Queries are first sentences of the sample library, of which others are then new."""
    texts = [row.text.split(". ")[0][:200] for row in sample_rows()]
    for number in range(-(-count // 500)):
        services.catalog.access.add_user(User(f"reader-{number}", Role.READER, utc_now()))
    for number in range(count):
        question = {"query": f"{texts[number % len(texts)]} {number // len(texts) or ''}", "collection": WATCHED}
        saved = services.catalog.searches.save_search(f"reader-{number // 500}", f"search {number}", question)
        services.catalog.standing.watch(saved.owner, saved.id, Watch([Strength.FAIR, Strength.STRONG][number % 2]))


def ingest(services: Services, pipeline: IngestPipeline, collection: str, texts: list[str], label: str) -> float:
    """Seconds of processor time."""
    for number, text in enumerate(texts):
        services.library.add_document(collection, text_source(f"text://{label}-{number}", text))
    began = _spent()
    while job := services.catalog.claim("benchmark", lease=_LEASE):
        others = services.catalog.shards.claim_batch(
            job, "benchmark", limit=_BLOCK - 1, max_bytes=8_192, max_attempts=2, lease=_LEASE
        )
        for outcome in pipeline.run_block([job, *others], heartbeat=lambda *_: None).values():
            if isinstance(outcome, Exception):
                raise outcome
    return _spent() - began


def _spent() -> float:
    """By this process and those that it has started, ended ones too: readers are replaced now and then."""
    own = psutil.Process(os.getpid())
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


@contextmanager
def opened() -> Iterator[tuple[Services, IngestPipeline]]:
    with (
        tempfile.TemporaryDirectory() as home,
        open_services(Settings(home=Path(home))) as services,
        open_pipeline(services, is_stopping=lambda: False) as pipeline,
    ):
        yield services, pipeline


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=1_000)
    parser.add_argument("--documents", type=int, default=50, help="in each round")
    parser.add_argument("--before", type=int, default=370, help="documents that are there; the index must not double")
    parser.add_argument("--rounds", type=int, default=4, help="even")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [row.text for row in sample_rows()]
    with opened() as (services, pipeline):
        for name in (PLAIN, WATCHED):
            services.library.ensure_collection(name)
            ingest(services, pipeline, name, rows[: options.before], "first")
        watch(services, options.searches)
        began = time.perf_counter()
        ingest(services, pipeline, WATCHED, rows[-2:], "prepare")
        print(f"{options.searches:,} searches prepared in {time.perf_counter() - began:.1f} s, once")
        spent: dict[str, list[float]] = {PLAIN: [], WATCHED: []}
        for turn in range(options.rounds + 1):
            # The first of a pair pays for shapes that the second finds prepared: each is there in both orders.
            texts = [rows[(60 + (turn + 1) // 2 * 97 + n) % len(rows)] for n in range(options.documents)]
            for name in (PLAIN, WATCHED) if turn % 2 else (WATCHED, PLAIN):
                # No chunk is the same twice: what is embedded is remembered.
                own = [f"{text} ".replace(". ", f", {name} {turn}. ") for text in texts]
                spent[name].append(ingest(services, pipeline, name, own, f"{name}-{turn}"))
        owners = {f"reader-{number // 500}" for number in range(options.searches)}
        found = sum(each.unseen for owner in owners for each in services.catalog.standing.of_owner(owner))
    # The first round, in which caches are filled, is no pair.
    plain, watched = spent[PLAIN][1:], spent[WATCHED][1:]
    added = [b / a - 1 for a, b in zip(plain, watched, strict=True)]
    print(f"{options.documents} documents a round, {sum(plain):.2f} s without and {sum(watched):.2f} s with, in all")
    print(f"added: {sum(watched) / sum(plain) - 1:+.1%}; median of the pairs {statistics.median(added):+.1%}")
    print(f"pairs: {', '.join(f'{each:+.1%}' for each in added)}; {found:,} passages told")
    if options.out:
        options.out.write_text(json.dumps({"spent_s": spent, "added": added, "told": found}, indent=1))


if __name__ == "__main__":
    run_program(main)
