"""Limits the memory of a long-lived process: glibc keeps freed memory in one heap per thread, and oneDNN caches
compiled code for each matrix size."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath

import psutil

_M_ARENA_MAX = -8  # from malloc.h
_HEAPS = 2
# oneDNN reads this variable at its first computation. Its default caches a thousand sizes; batches of documents nearly
# always have new sizes, and the few sizes of queries fit into 128. Figures: docs/benchmarks.md
_KEPT_SIZES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")


def limit_memory() -> None:
    """Limits glibc's heaps (by default up to eight per processor) and oneDNN's cache. Call it before any thread starts
    and anything is computed. A value for oneDNN in the environment takes precedence."""
    os.environ.setdefault(*_KEPT_SIZES)
    if (library := _glibc()) is not None:
        library.mallopt(_M_ARENA_MAX, _HEAPS)


def release_memory() -> None:
    """Returns freed memory to the system; takes some milliseconds."""
    gc.collect()
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def allowed_bytes(root: Path = Path("/")) -> int:
    """The memory limit of this process in bytes: the machine's memory, or the lowest limit of its control groups."""
    return min([psutil.virtual_memory().total, *_limits_of_groups(root)])


def _limits_of_groups(root: Path) -> Iterator[int]:
    """Memory limits of control groups (version 1 and 2), from the process's group upwards. In a container, the
    container's group is the topmost."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text("ascii", "replace").splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                base, name = ("", "memory.max") if not controllers else ("memory", "memory.limit_in_bytes")
                folder = root / "sys/fs/cgroup" / base
                for part in (PurePosixPath(group.lstrip("/")), *PurePosixPath(group.lstrip("/")).parents):
                    with suppress(OSError, ValueError):  # no such group here, or "max"
                        yield int((folder / part / name).read_text("ascii"))


@cache
def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None  # musl has neither
