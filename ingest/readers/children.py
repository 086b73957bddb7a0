"""A pool of child processes that parse documents. Each call has a child to itself, or waits for one.

Children stay warm between documents. Whatever ends a child is reported as the error of its document.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from app.errors import DocumentError, UnavailableError
from app.ports.texts import TextSink
from app.types.pages import PageWords
from app.types.texts import Findings, TextPart
from ingest.readers.child_process import Check, ChildLostError, ChildProcess
from ingest.readers.limits import MEGABYTE, ProcessLimits
from ingest.readers.messages import (
    Advance,
    AnswerReader,
    MessageError,
    PageImage,
    PageRequest,
    ReadRequest,
    Refusal,
    write_request,
)

MAX_CHILDREN = 4  # each holds the parsers in memory
_PATIENCE_S = 2.0  # wait this long for an idle child: most documents take milliseconds, starting a child takes a second
_POLL_S = 0.05
_HOW_TO_MEND = "Split it into parts, save it in a simpler form, or raise {name}."

T = TypeVar("T")


class ChildPool:
    """Thread-safe.

    `is_stopping` is polled while a child works; once true, the work ends with UnavailableError.
    """

    def __init__(
        self, process_limits: ProcessLimits, *, is_stopping: Callable[[], bool], max_children: int = MAX_CHILDREN
    ) -> None:
        self._process_limits = process_limits
        self._is_stopping = is_stopping
        self._max_children = max_children
        self._idle: list[ReaderChild] = []
        self._busy: set[ReaderChild] = set()
        self._lock = threading.Condition()
        self._closed = False

    def run(self, work: Callable[[ReaderChild], T], *, again: Callable[[], None] = lambda: None) -> T:
        """Runs `work` with a child. If the child is lost, calls `again` and retries once with a new child.

        Raises DocumentError if that one is lost, too, and whatever `work` raises.
        """
        try:
            with self._child(fresh=False) as child:
                return work(child)
        except ChildLostError:
            again()
        try:
            with self._child(fresh=True) as child:  # another cause may have ended the child: one more chance
                return work(child)
        except ChildLostError as error:
            raise DocumentError(
                f"The process that read this document ended twice ({error}): the file is damaged or "
                "malicious. If you trust it, open it and save it again."
            ) from error

    @property
    def child_ids(self) -> frozenset[int]:
        """Process ids of the children that exist now."""
        with self._lock:
            return frozenset(child.pid for child in (*self._idle, *self._busy))

    def start(self) -> None:
        """Starts the first child, so that it loads the parsers while other parts start."""
        self._idle.append(ReaderChild())

    def close(self) -> None:
        """Ends the children. Running work ends with UnavailableError shortly after."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.stop()

    def is_to_stop(self) -> bool:
        return self._closed or self._is_stopping()

    @contextmanager
    def _child(self, *, fresh: bool) -> Iterator[ReaderChild]:
        child = self._take(fresh=fresh)
        is_kept = False
        try:
            yield child
            is_kept = child.is_fresh(self._process_limits)
        finally:
            with self._lock:
                self._busy.remove(child)
                is_kept = is_kept and not self._closed
                if is_kept:
                    self._idle.append(child)
                self._lock.notify_all()
            if not is_kept:
                child.stop()

    def _take(self, *, fresh: bool) -> ReaderChild:
        impatient_at = time.monotonic() + _PATIENCE_S
        with self._lock:
            while True:
                if self._closed:
                    raise UnavailableError("The reader is closed: its worker stops. The document is read later.")
                self._remove_dead()
                if self._idle and not fresh:
                    child = self._idle.pop()
                    break
                must_start = fresh or not self._busy or time.monotonic() > impatient_at
                if must_start and len(self._busy) < self._max_children:
                    child = ReaderChild()
                    break
                self._lock.wait(_POLL_S)
                _check_stopping(self.is_to_stop)
            self._busy.add(child)
        return child

    def _remove_dead(self) -> None:
        dead = [child for child in self._idle if not child.is_alive()]
        self._idle = [child for child in self._idle if child not in dead]
        for child in dead:
            child.stop()


class ReaderChild(ChildProcess):
    """One child process that parses documents. Unusable after any error of `read` or `page`: then call `stop`."""

    module = "ingest.readers.child"

    def __init__(self) -> None:
        super().__init__()
        self._document_count = 0

    def read(self, request: ReadRequest, into: TextSink, *, is_stopping: Callable[[], bool]) -> Findings | Refusal:
        """Parses one document into `into`. Raises DocumentError, UnavailableError or ChildLostError."""
        with self._exchange(request, is_stopping) as (answer, check):
            while True:
                message = answer.next()
                if isinstance(message, Findings | Refusal):
                    return message
                if isinstance(message, Advance):
                    check.deadline += request.process_limits.page_s
                    into.advance(message.share)
                elif isinstance(message, TextPart):
                    into.write(message)
                else:
                    raise MessageError("the answer does not match the request")

    def page(self, request: PageRequest, *, is_stopping: Callable[[], bool]) -> PageWords | bytes | Refusal:
        """The words of a page, or its image if `request.width`. Raises DocumentError, UnavailableError or
        ChildLostError."""
        with self._exchange(request, is_stopping) as (answer, _):
            message = answer.next()
            if isinstance(message, PageImage) and request.width:
                return answer.image(message)
            if isinstance(message, Refusal) or (isinstance(message, PageWords) and not request.width):
                return message
            raise MessageError("the answer does not match the request")

    @contextmanager
    def _exchange(
        self, request: ReadRequest | PageRequest, is_stopping: Callable[[], bool]
    ) -> Iterator[tuple[AnswerReader, Check]]:
        self._document_count += 1
        with self.watched(request.process_limits, lambda: _check_stopping(is_stopping)) as check:
            write_request(self.requests, request)
            yield AnswerReader(self.answers, request.limits), check

    def is_fresh(self, limits: ProcessLimits) -> bool:
        return self._document_count < limits.max_documents and self._memory_bytes() < limits.idle_memory_bytes

    def time_reason(self, limits: ProcessLimits) -> str:
        return (
            f"Reading this document took longer than {limits.wall_s:g} s, which is the limit. "
            f"{_HOW_TO_MEND.format(name='GIRCSE_READ_TIMEOUT_S')}"
        )

    def cpu_reason(self, limits: ProcessLimits) -> str:
        return (
            f"Reading this document took more than {limits.cpu_s} s of CPU time, which is the limit. "
            f"{_HOW_TO_MEND.format(name='GIRCSE_READ_TIMEOUT_S')}"
        )

    def memory_reason(self, limits: ProcessLimits) -> str:
        return (
            f"Reading this document took more than {limits.memory_bytes / MEGABYTE:,.0f} MB of memory, which is the "
            f"limit. {_HOW_TO_MEND.format(name='GIRCSE_READ_MEMORY_MB')}"
        )


def _check_stopping(is_stopping: Callable[[], bool]) -> None:
    if is_stopping():
        raise UnavailableError("Reading was interrupted: the worker stops. The document is read later.")
