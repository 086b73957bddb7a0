"""Keeps a long-lived process small where the C library is glibc, which keeps what a large piece of work has used, in a
heap for each of its threads."""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache

_M_ARENA_MAX = -8  # of malloc.h
_HEAPS = 2


def share_heaps() -> None:
    """To be called before threads are started: by default there may be eight heaps for each processor."""
    if (library := _glibc()) is not None:
        library.mallopt(_M_ARENA_MAX, _HEAPS)


def release_memory() -> None:
    """Gives freed memory back to the system, which takes some milliseconds."""
    gc.collect()
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None  # musl has neither
