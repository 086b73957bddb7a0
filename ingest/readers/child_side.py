"""What every child process does at its start: take its pipes, silence libraries, limit its own resources."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import warnings
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import BinaryIO

from ingest.readers.limits import ProcessLimits

try:
    import resource
except ImportError:  # Windows: the worker watches time and memory from outside
    resource = None  # type: ignore[assignment]

_WALL_GRACE_S = 10  # the worker ends a slow child earlier; this is for a child whose worker was killed
# Address space, not memory: libraries of text recognition reserve it and mostly do not use it.
_RESERVED_BYTES = 1_000_000_000
_STATM = Path("/proc/self/statm")
_OOM_SCORE = Path("/proc/self/oom_score_adj")
_ENDED_FIRST = 900  # of 1,000


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Moves the pipes to new descriptors and silences 0 and 1: output of libraries must not reach the worker."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    # Libraries log every oddity of a file; the answer reports what matters.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    return requests, answers


def be_ended_first() -> None:
    """Makes the kernel's out-of-memory killer choose this process before the service (Linux): one document is
    refused."""
    with suppress(OSError):
        _OOM_SCORE.write_text(f"{_ENDED_FIRST}", "ascii")


def forbid_files() -> None:
    """Forbids writing files and core dumps, where the system can."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit(limits: ProcessLimits, start_bytes: int) -> None:
    """Sets limits for one request: CPU time, wall time, and address space beyond `start_bytes` (0: no such limit)."""
    if resource is None:
        return
    cpu_s = int(time.process_time()) + 1 + limits.cpu_s
    _limit_to(resource.RLIMIT_CPU, cpu_s)
    if start_bytes:
        _limit_to(resource.RLIMIT_AS, start_bytes + limits.memory_bytes + _RESERVED_BYTES)
    # The default action of SIGALRM needs no interpreter, so it also ends a parser that never releases the GIL.
    signal.setitimer(signal.ITIMER_REAL, limits.wall_s + _WALL_GRACE_S)


def prolong(seconds: float) -> None:
    """Adds `seconds` to the limits on CPU time and wall time."""
    if resource is None:
        return
    cpu_s, _ = resource.getrlimit(resource.RLIMIT_CPU)
    _limit_to(resource.RLIMIT_CPU, cpu_s + ceil(seconds))
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, left + seconds)


def _limit_to(kind: int, most: int) -> None:
    """Sets the soft limit, at most to the hard one: a service under `ulimit` or systemd's LimitAS cannot raise that."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def lift_alarm() -> None:
    """Removes the limit on wall time between requests."""
    if resource is not None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def address_space() -> int:
    """Bytes of address space mapped so far. 0 outside Linux, where RLIMIT_AS has no effect either."""
    if not sys.platform.startswith("linux"):
        return 0
    return int(_STATM.read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
