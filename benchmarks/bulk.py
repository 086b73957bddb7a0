"""Measures `gircse ingest` on very many small documents: seconds, and the largest memory of each process (on Linux).

The model is the deterministic double of app.testing, so that what is measured is everything around the model.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import app.wiring.services
from app.cli import main as gircse
from app.testing import ToyEmbedder

FILES_PER_FOLDER = 1000
_CHILD = "--as-gircse"
_LOOK_S = 0.2
_WORDS = ["tide", "rock", "harbour", "letter", "winter", "garden", "engine", "paper", "river", "copper"]


class _Double(ToyEmbedder):
    """Keeps nothing of what it embeds."""

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        vectors = super().embed_documents(texts, instruction=instruction, steps=steps)
        self.embedded_texts.clear()
        return vectors


@dataclass(frozen=True, slots=True)
class Measured:
    what: str
    seconds: float
    cpu_s: float  # of gircse itself, without the engine's process; what counts on a machine that others use, too
    largest_mb: dict[str, float]  # by process

    def __str__(self) -> str:
        memory = " | ".join(f"{self.largest_mb.get(name, 0):.0f}" for name in ("gircse", "reader", "edge"))
        return f"| {self.what} | {self.seconds:.0f} | {self.cpu_s:.1f} | {memory} |"


def main() -> None:
    if _CHILD in sys.argv:
        run_as_gircse()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--work", action="store_true", help="also work off the files, not only hand them in")
    parser.add_argument("--folder", type=Path, help="where to make the files; they are removed afterwards")
    options = parser.parse_args()
    count = options.documents
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        files, rows = make_files(folder / "files", count), make_rows(folder / "rows.jsonl", count)
        print("| what | seconds | CPU seconds | MB, gircse | MB, reader | MB, engine |", "|---" * 6 + "|", sep="\n")
        (folder / "none").mkdir()
        print(measure("nothing: the program starts", folder / "home", "ingest", str(folder / "none")), flush=True)
        for what, source in (("tiny files", [str(files)]), ("rows with metadata", [str(rows), "--rows"])):
            home = folder / f"home of {what}"
            for run in ("handed in", "handed in again"):
                print(measure(f"{what}, {run}", home, "ingest", *source, "--no-wait"), flush=True)
        if options.work:
            home = folder / "home of tiny files"
            print(measure("tiny files, worked off", home, "ingest", str(files)), flush=True)
            print(measure("tiny files, unchanged", home, "ingest", str(files)), flush=True)


def make_files(folder: Path, count: int) -> Path:
    for number in range(count):
        file = folder / f"{number // FILES_PER_FOLDER:05}" / f"{number:07}.txt"
        if number % FILES_PER_FOLDER == 0:
            file.parent.mkdir(parents=True)
        file.write_text(_text(number), encoding="utf-8")
    return folder


def make_rows(file: Path, count: int) -> Path:
    with file.open("w", encoding="utf-8") as lines:
        for number in range(count):
            row = {"id": number, "title": f"Row {number}", "text": _text(number), "year": 1900 + number % 125}
            lines.write(json.dumps({**row, "kind": _WORDS[number % 7], "is_open": number % 2 == 0}) + "\n")
    return file


def _text(number: int) -> str:
    return f"Note {number}: the {_WORDS[number % 10]} and the {_WORDS[number // 10 % 10]}, seen from afar."


def measure(what: str, home: Path, *arguments: str) -> Measured:
    command = [sys.executable, "-m", "benchmarks.bulk", _CHILD, *arguments]
    largest: dict[str, float] = {}
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "GIRCSE_HOME": str(home)}, stdout=subprocess.DEVNULL)
    with watching(lambda: note_largest(process.pid, largest)):
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"gircse ended with {process.returncode}")
    return Measured(what, seconds, used.ru_utime + used.ru_stime, largest)


@contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_S):
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


def run_as_gircse() -> None:
    sys.argv.remove(_CHILD)
    app.wiring.services.embedder_for = lambda *_, **__: _Double()  # type: ignore[assignment, misc]
    gircse()


if __name__ == "__main__":
    main()
