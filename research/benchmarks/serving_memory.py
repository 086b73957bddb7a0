"""Memory of a process and of those that it starts, its own (anonymous) and mapped files apart, as Linux counts them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_LOOK_S = 0.2
_KB_PER_MB = 1000


@dataclass(frozen=True)
class Memory:
    """In MB. What is mapped is the system's cache, which others get when they need it."""

    own: float
    mapped: float


@dataclass
class Largest:
    total: float = 0.0  # own memory of all of them together, in MB


def memory_of(pid: int) -> Memory:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    own, mapped = (int(fields[name].split()[0]) / _KB_PER_MB for name in ("RssAnon", "RssFile"))
    return Memory(own, mapped)


@contextmanager
def largest_memory(pid: int) -> Iterator[Largest]:
    largest, done = Largest(), threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_S):
            largest.total = max(largest.total, sum(_own(each) for each in (pid, *_children(pid))))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield largest
    finally:
        done.set()
        thread.join()


def _own(pid: int) -> float:
    try:
        return memory_of(pid).own
    except (FileNotFoundError, ProcessLookupError, KeyError):  # it has ended
        return 0.0


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
