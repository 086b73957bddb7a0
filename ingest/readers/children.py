"""Child processes that parse documents, and a pool of them: each call has one to itself, or waits for one.

Children stay warm between documents. Whatever ends one becomes the reason on the document that it was reading.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TypeVar, cast

import psutil

from app.errors import DocumentError, UnavailableError
from app.ports.texts import TextSink
from app.types.pages import PageWords
from app.types.texts import Findings, TextPart
from ingest.readers.limits import (
    MEGABYTE,
    ProcessLimits,
)
from ingest.readers.messages import (
    OUT_OF_MEMORY_EXIT_CODE,
    READY,
    Advance,
    AnswerReader,
    MessageError,
    PageImage,
    PageRequest,
    ReadRequest,
    Refusal,
    read_frame,
    write_request,
)
from ingest.readers.watchdog import Watchdog

MAX_CHILDREN = 4  # each holds the parsers in memory
_PATIENCE_S = 2.0  # most documents are read in milliseconds, and starting another child takes a second
_START_TIMEOUT_S = 120
_STOP_TIMEOUT_S = 2
_POLL_S = 0.05
# What Python and the loader need. Not passed on: passwords and keys, which a document could otherwise reach.
_ENVIRONMENT = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "USERPROFILE", "APPDATA"),
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# glibc otherwise keeps the large blocks that text recognition frees: half a gigabyte instead of a fifth of one.
_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "1000000"}
_HOW_TO_MEND = "Split it into parts, save it in a simpler form, or raise {name}."

T = TypeVar("T")


class ChildPool:
    """Safe to use from several threads.

    `is_stopping` is asked while a child is at work; once it says yes, the work ends with UnavailableError.
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
        """What `work` makes of a child; once more with a fresh one where the child is lost, after `again`."""
        try:
            with self._child(fresh=False) as child:
                return work(child)
        except ChildLostError:
            again()
        try:
            with self._child(fresh=True) as child:  # perhaps something else ended the child: one more chance
                return work(child)
        except ChildLostError as error:
            raise DocumentError(
                f"The process that read this document ended twice ({error}): the file is damaged, or made to do "
                "harm. Open it, if you trust it, and save it again."
            ) from error

    @property
    def child_ids(self) -> frozenset[int]:
        """Process ids of the children that are there now."""
        with self._lock:
            return frozenset(child.pid for child in (*self._idle, *self._busy))

    def start(self) -> None:
        """The first child, which loads the parsers while others get ready, too."""
        self._idle.append(ReaderChild())

    def close(self) -> None:
        """Ends the children. Work under way ends with UnavailableError within a moment."""
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


class ChildLostError(Exception):
    """The child ended, or spoke nonsense, for a reason that need not lie in the document."""


class _Check:
    """Raises once a child has used up what it may, or is to stop."""

    def __init__(
        self,
        limits: ProcessLimits,
        start_bytes: int,
        memory_bytes: Callable[[], int],
        is_stopping: Callable[[], bool],
    ) -> None:
        self.deadline = time.monotonic() + limits.wall_s
        self._limits = limits
        self._most_bytes = start_bytes + limits.memory_bytes
        self._memory_bytes = memory_bytes
        self._is_stopping = is_stopping
        self._look_at = time.monotonic() + _POLL_S  # at its memory: most documents are read by then

    def __call__(self) -> None:
        _check_stopping(self._is_stopping)
        now = time.monotonic()
        if now > self.deadline:
            raise DocumentError(_time_reason(self._limits))
        if now >= self._look_at:
            self._look_at = now + _POLL_S
            if self._memory_bytes() > self._most_bytes:
                raise DocumentError(_memory_reason(self._limits))


class ReaderChild:
    """One child process. After any error of `read` it is of no more use: call `stop`."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _ONE_THREAD | _GIVE_BACK
        self._process = subprocess.Popen(
            # -P: a folder named `ingest` where the user stands must not be taken for ours.
            [sys.executable, "-P", "-m", "ingest.readers.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the worker, which then ends its children
        )
        self._watchdog = Watchdog(self._process.kill, name=f"reader-{self._process.pid}")
        self._vitals = psutil.Process(self._process.pid)
        self._start_bytes: int | None = None
        self._document_count = 0

    def read(self, request: ReadRequest, into: TextSink, *, is_stopping: Callable[[], bool]) -> Findings | Refusal:
        """Raises DocumentError, UnavailableError or ChildLostError."""
        with self._asked(request, is_stopping) as (answer, check):
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
                    raise MessageError("the answer is of another kind than was asked for")

    def page(self, request: PageRequest, *, is_stopping: Callable[[], bool]) -> PageWords | bytes | Refusal:
        """Its words, or its picture. Raises DocumentError, UnavailableError or ChildLostError."""
        with self._asked(request, is_stopping) as (answer, _):
            message = answer.next()
            if isinstance(message, PageImage) and request.width:
                return answer.image(message)
            if isinstance(message, Refusal) or (isinstance(message, PageWords) and not request.width):
                return message
            raise MessageError("the answer is of another kind than was asked for")

    @contextmanager
    def _asked(
        self, request: ReadRequest | PageRequest, is_stopping: Callable[[], bool]
    ) -> Iterator[tuple[AnswerReader, _Check]]:
        if self._start_bytes is None:
            self._start_bytes = self._wait_until_ready(is_stopping)
        self._document_count += 1
        limits = request.process_limits
        check = _Check(limits, self._start_bytes, self._memory_bytes, is_stopping)
        try:
            with self._watchdog.watching(check):
                write_request(self._requests, request)
                yield AnswerReader(self._answers, request.limits), check
        except (EOFError, OSError) as error:
            raise self._ending(limits) from error
        except MessageError as error:
            raise ChildLostError(str(error)) from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def is_fresh(self, limits: ProcessLimits) -> bool:
        return self._document_count < limits.max_documents and self._memory_bytes() < limits.idle_memory_bytes

    def stop(self) -> None:
        self._process.kill()  # it holds nothing that could be lost
        self._process.wait()
        self._watchdog.end()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # bytes that it no longer took
                if pipe is not None:
                    pipe.close()

    def _wait_until_ready(self, is_stopping: Callable[[], bool]) -> int:
        """Waits until the parsers are loaded and gives the memory that they take."""
        deadline = time.monotonic() + _START_TIMEOUT_S

        def check() -> None:
            _check_stopping(is_stopping)
            if time.monotonic() > deadline:
                raise UnavailableError(f"The process that reads documents did not start within {_START_TIMEOUT_S} s.")

        try:
            with self._watchdog.watching(check):
                read_frame(self._answers, max_bytes=len(READY))
        except (EOFError, OSError, MessageError) as error:
            raise UnavailableError(
                f"The process that reads documents does not start ({self._last_sign()}). "
                f"`{sys.executable} -m ingest.readers.child` says why."
            ) from error
        return self._memory_bytes()

    @property
    def _requests(self) -> BinaryIO:
        assert self._process.stdin is not None
        return cast(BinaryIO, self._process.stdin)

    @property
    def _answers(self) -> BinaryIO:
        assert self._process.stdout is not None
        return cast(BinaryIO, self._process.stdout)

    def _memory_bytes(self) -> int:
        try:
            return self._vitals.memory_info().rss
        except psutil.Error:
            return 0  # it is just gone; the pipes will say so

    def _ending(self, limits: ProcessLimits) -> DocumentError | ChildLostError:
        """What a child that closed its pipes died of."""
        sign = self._last_sign()
        exit_code = self._process.returncode
        if exit_code == OUT_OF_MEMORY_EXIT_CODE:
            return DocumentError(_memory_reason(limits))
        if sign == "signal SIGXCPU":
            return DocumentError(_cpu_reason(limits))
        if sign == "signal SIGALRM":
            return DocumentError(_time_reason(limits))
        return ChildLostError(sign)

    def _last_sign(self) -> str:
        try:
            exit_code = self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "it no longer answers"
        try:
            return f"signal {signal.Signals(-exit_code).name}" if exit_code < 0 else f"exit code {exit_code}"
        except ValueError:
            return f"signal {-exit_code}"


def _check_stopping(is_stopping: Callable[[], bool]) -> None:
    if is_stopping():
        raise UnavailableError("Reading was interrupted: the worker stops. The document is read later.")


def _time_reason(limits: ProcessLimits) -> str:
    return (
        f"Reading this document took longer than {limits.wall_s:g} s, which is the limit. "
        f"{_HOW_TO_MEND.format(name='GIRCSE_READ_TIMEOUT_S')}"
    )


def _cpu_reason(limits: ProcessLimits) -> str:
    return (
        f"Reading this document took more than {limits.cpu_s} s of CPU time, which is the limit. "
        f"{_HOW_TO_MEND.format(name='GIRCSE_READ_TIMEOUT_S')}"
    )


def _memory_reason(limits: ProcessLimits) -> str:
    return (
        f"Reading this document took more than {limits.memory_bytes / MEGABYTE:,.0f} MB of memory, which is the limit. "
        f"{_HOW_TO_MEND.format(name='GIRCSE_READ_MEMORY_MB')}"
    )
