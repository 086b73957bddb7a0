"""Keeps a long-lived process small: glibc keeps what a large piece of work has used, in a heap for each of its threads,
and oneDNN the code that it made for products of each size."""

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

_M_ARENA_MAX = -8  # of malloc.h
_HEAPS = 2
# Read by oneDNN when it first computes. Of the ever other sizes of batches of documents it would keep a thousand;
# those of queries come again. Figures: docs/benchmarks.md
_KEPT_SIZES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")


def limit_memory() -> None:
    """To be called before threads are started and anything is computed: by default there may be eight heaps for each
    processor. What the environment says of oneDNN stands."""
    os.environ.setdefault(*_KEPT_SIZES)
    if (library := _glibc()) is not None:
        library.mallopt(_M_ARENA_MAX, _HEAPS)


def release_memory() -> None:
    """Gives freed memory back to the system, which takes some milliseconds."""
    gc.collect()
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def allowed_bytes(root: Path = Path("/")) -> int:
    """The memory that this process may take: all of the machine, or what its control groups leave it."""
    return min([psutil.virtual_memory().total, *_limits_of_groups(root)])


def _limits_of_groups(root: Path) -> Iterator[int]:
    """Of version 1 and 2, from the group of this process upwards. A container sees its own as the topmost."""
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
