"""Measures what looking for damage costs a start: catalog and engine opened with it and without, and the first look.

Documents go in by the product's own worker, with the deterministic double of `app/testing.py` in place of the model.

    python -m research.benchmarks.integrity --documents 10000
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from app.commands.wiring import open_services
from app.commands.worker import worker_if_needed
from app.settings import Settings
from app.testing import ToyEmbedder, text_source
from app.types.documents import JobState
from embedder.command.standard_output import run_program

NAME = "library"
CHUNKS = 10  # of a document
_WORDS = ["river", "ferry", "island", "winter", "garden", "letter", "harbour", "engine", "market", "forest"]


def fill(settings: Settings, documents: int) -> int:
    """How many chunks there are then."""
    with open_services(settings) as services, worker_if_needed(services) as ensure_working:
        services.library.ensure_collection(NAME)
        for number in range(documents):
            source = text_source(f"text://{number}", _text(number))
            services.library.add_document(NAME, source)
        while sum(services.catalog.job_counts()[state] for state in (JobState.QUEUED, JobState.RUNNING)):
            ensure_working()
            time.sleep(0.5)
        return services.catalog.indexes.chunk_count(services.catalog.collection(NAME).active_index)


def _text(number: int) -> str:
    """A passage for each chunk, since paragraphs of this length share none."""
    return "\n\n".join(
        f"Part {part} of text {number}. " + " ".join(_WORDS[(number + part + word) % 10] for word in range(190))
        for part in range(CHUNKS)
    )


@contextmanager
def timed(settings: Settings) -> Iterator[tuple[float, float]]:
    """Seconds until catalog and engine are open, and of the first look at the index."""
    started = time.perf_counter()
    with open_services(settings) as services:
        opened = time.perf_counter()
        services.integrity.check_indexes()
        looked = time.perf_counter()
        assert services.integrity.is_sound(), services.integrity.damage()
        yield opened - started, looked - opened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--home", type=Path, help="keep what is made here, and take it where it is there")
    options = parser.parse_args()
    without = mock.patch("app.wiring.catalog.check_catalog", return_value=None)
    with (
        mock.patch("app.wiring.services.embedder_for", return_value=ToyEmbedder()),
        tempfile.TemporaryDirectory() as folder,
    ):
        settings = Settings(home=options.home or Path(folder, "home"))
        if not (settings.home / "catalog.db").exists():
            print(f"{fill(settings, options.documents)} chunks")
        opened: dict[str, list[float]] = {"with": [], "without": []}
        looks = []
        for _ in range(options.repeats):
            with without, timed(settings) as (seconds, _look):
                opened["without"].append(seconds)
            with timed(settings) as (seconds, look):
                opened["with"].append(seconds)
                looks.append(look)
        megabytes = sum(path.stat().st_size for path in settings.home.glob("catalog.db*")) / 1e6
    print(f"A catalog of {megabytes:.0f} MB; medians of {options.repeats}:")
    for how, seconds in opened.items():
        print(f"| catalog and engine, {how} the look at the catalog | {statistics.median(seconds):.2f} s |")
    print(f"| the first look at the index | {statistics.median(looks):.2f} s |")


if __name__ == "__main__":
    run_program(main)
