"""Measures the largest memory of worker, reader and engine while one very large document is taken in.

The model is the deterministic double of app.testing, so that what is measured is everything around the model. Linux.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

import app.wiring.services
from app.settings import load_settings
from app.testing import ToyEmbedder
from app.types.documents import JobState, NewDocument
from app.wiring.ingestion import run_worker
from embedder.command.standard_output import run_program

MEGABYTE = 1_000_000
COLLECTION = "large"
_CHILD = "--as-worker"
_OPEN = (JobState.QUEUED, JobState.RUNNING)
_LOOK_S = 0.5
_NOTE_S = 0.2
_WORD = 250


def main() -> None:
    if _CHILD in sys.argv:
        work(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2_000, help="of the text file, in MB")
    parser.add_argument("--pages", type=int, default=3_000, help="of the PDF")
    parser.add_argument("--chunk-tokens", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60, help="after which a run is stopped, and how far it was")
    parser.add_argument("--folder", type=Path, help="where to make the files; they are removed afterwards")
    parser.add_argument("--only", choices=("text", "pdf"))
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    print(
        "| document | chunks | seconds | MB, worker | MB, reader | MB, engine |\n|---|---|---|---|---|---|", flush=True
    )
    makers: dict[str, tuple[str, Callable[[Path], None]]] = {
        "text": (f"text, {options.size:,} MB", lambda path: make_text(path, options.size)),
        "pdf": (f"PDF, {options.pages:,} pages", lambda path: make_pdf(path, options.pages)),
    }
    for kind, (what, make) in makers.items():
        if options.only in (None, kind):
            with tempfile.TemporaryDirectory(dir=options.folder) as name:
                file = Path(name) / f"large.{'txt' if kind == 'text' else kind}"
                make(file)
                print(
                    f"| {what} | {measure(Path(name) / 'home', file, options.chunk_tokens, options.minutes)} |",
                    flush=True,
                )


def make_text(file: Path, megabytes: int) -> None:
    """Long words, all different, so that cutting them up takes little of the time."""
    rng = random.Random(1)
    with file.open("w", encoding="ascii") as lines:
        for _ in range(megabytes):
            digits = rng.randbytes(MEGABYTE // 2).hex()
            lines.writelines(f"{digits[start : start + _WORD]}.\n" for start in range(0, MEGABYTE, _WORD))


def make_pdf(file: Path, pages: int) -> None:
    rng, canvas = random.Random(1), Canvas(str(file))
    words = ["tide", "rock", "harbour", "letter", "winter", "garden", "engine", "paper", "river", "copper"]
    for page in range(pages):
        for line in range(45):
            canvas.drawString(60, 780 - 16 * line, f"{page}.{line} " + " ".join(rng.choices(words, k=11)) + ".")
        canvas.showPage()
    canvas.save()


def measure(home: Path, file: Path, chunk_tokens: int, minutes: float) -> str:
    largest: dict[str, float] = {}
    limits = {
        "GIRCSE_HOME": str(home),
        "GIRCSE_MAX_DOCUMENT_MB": "4000",
        "GIRCSE_MAX_DOCUMENT_CHARACTERS": str(4_000 * MEGABYTE),
        "GIRCSE_READ_TIMEOUT_S": "3600",
        "GIRCSE_LEASE_S": "600",
    }
    command = [
        sys.executable,
        "-m",
        "research.benchmarks.memory",
        _CHILD,
        str(home),
        str(file),
        str(chunk_tokens),
        str(minutes),
    ]
    with (
        subprocess.Popen(command, env=os.environ | limits, stdout=subprocess.PIPE, text=True) as process,
        watching(lambda: note_largest(process.pid, largest)),
    ):
        said, _ = process.communicate()
    if process.returncode:
        sys.exit(f"the worker ended with {process.returncode}")
    return f"{said.strip()} | " + " | ".join(f"{largest.get(name, 0):.0f}" for name in ("gircse", "reader", "edge"))


def work(home: Path, file: Path, chunk_tokens: int, minutes: float) -> None:
    """Takes the file in as a worker does; prints chunks and seconds."""
    home.mkdir(parents=True, exist_ok=True)
    embedder = ToyEmbedder(dimension=16, is_recording=False)
    app.wiring.services.embedder_for = lambda *_, **__: embedder  # type: ignore[assignment, misc]
    stop = threading.Event()
    with app.wiring.services.open_services(load_settings()) as services:
        services.library.create_collection(COLLECTION, chunk_tokens=chunk_tokens)
        new = NewDocument(file.as_uri(), "", "", _stored(services.blobs, file), file.stat().st_size)
        _, job = services.catalog.submit(COLLECTION, new)
        assert job is not None

        def stop_when_done() -> None:
            while services.catalog.job(job.id).state in _OPEN and time.perf_counter() < start + 60 * minutes:
                time.sleep(_LOOK_S)
                progress[0] = services.catalog.job(job.id).progress or progress[0]
            stop.set()

        start, progress = time.perf_counter(), [0.0]
        threading.Thread(target=stop_when_done, daemon=True).start()
        run_worker(services, stop)
        ended = services.catalog.job(job.id)
        if ended.error:
            sys.exit(f"{ended.state}: {ended.error}")
        points = services.index.count(services.catalog.collection(COLLECTION).active_index)
        is_done = "" if ended.state is JobState.DONE else f" (stopped at {progress[0]:.0%})"
        print(f"{points:,}{is_done} | {time.perf_counter() - start:.0f}")


def _stored(blobs: app.ports.parts.BlobStore, file: Path) -> str:
    digest = hashlib.sha256()
    for block in _blocks(file):
        digest.update(block)
    blobs.put_parts(digest.hexdigest(), _blocks(file))
    return digest.hexdigest()


def _blocks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while block := stream.read(MEGABYTE):
            yield block


@contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_NOTE_S):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def note_largest(pid: int, largest: dict[str, float]) -> None:
    """The high-water marks of the process and what it started, as Linux keeps them.

    Of the engine only what is its own: the files that it maps are the system's cache, which takes what is free.
    """
    for each in (pid, *_descendants(pid)):
        try:
            command = Path(f"/proc/{each}/cmdline").read_text()
            status = Path(f"/proc/{each}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        name = "reader" if "readers" in command else "edge" if "edge" in command else "gircse"
        field = "RssAnon" if name == "edge" else "VmHWM"
        mark = next((line for line in status.splitlines() if line.startswith(field)), f"{field}: 0 kB")
        largest[name] = max(largest.get(name, 0), int(mark.split()[1]) / 1024)


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(each) for each in task.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield child
            yield from _descendants(child)


if __name__ == "__main__":
    run_program(main)
