"""The process in which documents are parsed, one after the other: `python -m ingest.readers.child`.

It speaks over stdin and stdout (see messages.py) and ends when stdin closes, so that it never outlives its worker.
It limits itself where the system can, besides being watched from outside.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
import warnings
from math import ceil
from pathlib import Path
from typing import BinaryIO

from app.errors import DocumentError
from app.types.pages import PageWords
from app.types.texts import Findings, TextPart
from ingest.readers.document import page_of, read_file
from ingest.readers.errors import damaged, parser_errors
from ingest.readers.limits import ProcessLimits
from ingest.readers.messages import (
    OUT_OF_MEMORY_EXIT_CODE,
    READY,
    Advance,
    PageRequest,
    ReadRequest,
    Refusal,
    read_request,
    write_frame,
    write_image,
    write_message,
)

try:
    import resource
except ImportError:  # Windows: the worker watches time and memory from outside
    resource = None  # type: ignore[assignment]

_WALL_GRACE_S = 10  # the worker ends a slow child first; this is for a child whose worker was killed
# Address space, not memory: what the libraries of text recognition reserve, and mostly do not use.
_RESERVED_BYTES = 1_000_000_000
_STATM = Path("/proc/self/statm")


def main() -> None:
    requests, answers = _take_streams()
    # Libraries report every oddity of a file; the answer says what matters.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    _forbid_files()
    inbox: queue.SimpleQueue[ReadRequest | PageRequest] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    write_frame(answers, READY)
    request = inbox.get()
    start_bytes = _address_space()  # with what the thread has reserved for itself
    while True:
        _limit(request.process_limits, start_bytes)
        try:
            answer = _answer(request, _Parts(answers, request.process_limits))
        except MemoryError:
            os._exit(OUT_OF_MEMORY_EXIT_CODE)  # what is half done holds memory: nothing can be relied on any more
        _lift_alarm()
        if isinstance(answer, bytes):
            write_image(answers, answer)
        else:
            write_message(answers, answer)
        request = inbox.get()


class _Parts:
    """The `TextSink` at whose other end the worker is."""

    def __init__(self, answers: BinaryIO, limits: ProcessLimits) -> None:
        self._answers = answers
        self._limits = limits

    def advance(self, share: float) -> None:
        _prolong(self._limits.page_s)
        write_message(self._answers, Advance(share))

    def write(self, part: TextPart) -> None:
        write_message(self._answers, part)

    def clear(self) -> None:
        raise AssertionError("unreachable: the worker starts over")


def _answer(request: ReadRequest | PageRequest, parts: _Parts) -> Findings | PageWords | bytes | Refusal:
    path = Path(request.path)
    try:
        if isinstance(request, PageRequest):
            return page_of(path, request.media_type, request.page, request.width, request.limits)
        return read_file(path, uri=request.uri, media_type=request.media_type, into=parts, limits=request.limits)
    except DocumentError as error:
        return Refusal(str(error))
    except FileNotFoundError:
        return Refusal("", is_missing=True)
    except parser_errors() as error:
        return Refusal(str(damaged("document", error)))


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes move to descriptors of their own: whatever a library prints must not reach the worker."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    return requests, answers


def _receive(requests: BinaryIO, inbox: queue.SimpleQueue[ReadRequest | PageRequest]) -> None:
    try:
        while True:
            inbox.put(read_request(requests))
    except EOFError:
        os._exit(0)  # even in the middle of a document: its reader was cancelled


def _forbid_files() -> None:
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _limit(limits: ProcessLimits, start_bytes: int) -> None:
    if resource is None:
        return
    cpu_s = int(time.process_time()) + 1 + limits.cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))
    if start_bytes:
        resource.setrlimit(
            resource.RLIMIT_AS, (start_bytes + limits.memory_bytes + _RESERVED_BYTES, resource.RLIM_INFINITY)
        )
    # Its default action needs no interpreter: it also ends a parser that never gives the lock back.
    signal.setitimer(signal.ITIMER_REAL, limits.wall_s + _WALL_GRACE_S)


def _prolong(seconds: float) -> None:
    if resource is None:
        return
    cpu_s, _ = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s + ceil(seconds), resource.RLIM_INFINITY))
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, left + seconds)


def _lift_alarm() -> None:
    if resource is not None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _address_space() -> int:
    """Bytes mapped so far; 0 where the system does not say, which is also where RLIMIT_AS has no effect."""
    if not sys.platform.startswith("linux"):
        return 0
    return int(_STATM.read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
