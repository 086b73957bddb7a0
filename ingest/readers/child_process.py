"""The parent's side of a child process that handles untrusted input: starts it, watches it while it answers, ends it.

Time and memory are limited per request. Whatever ends the child is reported as a readable reason.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, ClassVar, cast

import psutil

from app.errors import ReadingLimitError, UnavailableError
from ingest.readers.limits import ProcessLimits
from ingest.readers.messages import OUT_OF_MEMORY_EXIT_CODE, READY, MessageError, read_frame
from ingest.readers.watchdog import Watchdog

_START_TIMEOUT_S = 120
_STOP_TIMEOUT_S = 2
_POLL_S = 0.05
# The variables that Python and the loader need. Passwords and keys are left out: a document could exploit the child.
_ENVIRONMENT = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "USERPROFILE", "APPDATA"),
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Otherwise glibc keeps large blocks freed by text recognition: half a gigabyte instead of a fifth.
_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "1000000"}


class ChildLostError(Exception):
    """The child ended, or answered invalidly, for a reason that need not lie in its input."""


class Check:
    """Raises ReadingLimitError once the child exceeds its time or memory. Also raises what `look` raises."""

    def __init__(
        self,
        limits: ProcessLimits,
        start_bytes: int,
        memory_bytes: Callable[[], int],
        look: Callable[[], None],
        reasons: ChildProcess,
    ) -> None:
        self.deadline = time.monotonic() + limits.wall_s
        self._limits = limits
        self._most_bytes = start_bytes + limits.memory_bytes
        self._memory_bytes = memory_bytes
        self._look = look
        self._reasons = reasons
        self._look_at = time.monotonic() + _POLL_S  # first check of memory: most documents are parsed by then

    def __call__(self) -> None:
        self._look()
        now = time.monotonic()
        if now > self.deadline:
            raise ReadingLimitError(self._reasons.time_reason(self._limits))
        if now >= self._look_at:
            self._look_at = now + _POLL_S
            if self._memory_bytes() > self._most_bytes:
                raise ReadingLimitError(self._reasons.memory_reason(self._limits))


class ChildProcess(ABC):
    """Unusable after any error: then call `stop`."""

    module: ClassVar[str]  # the module that the child runs
    environment: ClassVar[tuple[str, ...]] = ()  # names of further variables that are passed on

    def __init__(self) -> None:
        names = (*_ENVIRONMENT, *self.environment)
        environment = {name: os.environ[name] for name in names if name in os.environ} | _ONE_THREAD | _GIVE_BACK
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            # -P: a folder named `ingest` in the working directory must not shadow this package.
            [sys.executable, "-P", "-m", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C goes to the worker, which then ends its children
        )
        self._watchdog = Watchdog(self.kill, name=f"{self.module}-{self._process.pid}")
        self._vitals = psutil.Process(self._process.pid)
        self._start_bytes: int | None = None

    @abstractmethod
    def time_reason(self, limits: ProcessLimits) -> str: ...

    @abstractmethod
    def cpu_reason(self, limits: ProcessLimits) -> str: ...

    @abstractmethod
    def memory_reason(self, limits: ProcessLimits) -> str: ...

    @contextmanager
    def watched(self, limits: ProcessLimits, look: Callable[[], None]) -> Iterator[Check]:
        """The block sends one request and reads its answer, while a watchdog checks limits and calls `look`.

        Raises ReadingLimitError, ChildLostError, UnavailableError, and what `look` raises.
        """
        if self._start_bytes is None:
            self._start_bytes = self._wait_until_ready(look)
        check = Check(limits, self._start_bytes, self._memory_bytes, look, self)
        try:
            with self._watchdog.watching(check):
                yield check
        except (EOFError, OSError) as error:
            raise self._ending(limits) from error
        except MessageError as error:
            raise ChildLostError(str(error)) from error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def requests(self) -> BinaryIO:
        assert self._process.stdin is not None
        return cast(BinaryIO, self._process.stdin)

    @property
    def answers(self) -> BinaryIO:
        assert self._process.stdout is not None
        return cast(BinaryIO, self._process.stdout)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()  # it holds no state worth saving

    def stop(self) -> None:
        self.kill()
        self._process.wait()
        self._watchdog.end()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # unsent bytes cannot be flushed
                if pipe is not None:
                    pipe.close()

    def _wait_until_ready(self, look: Callable[[], None]) -> int:
        """Waits until the child has loaded its libraries; returns the bytes of memory that they take."""
        deadline = time.monotonic() + _START_TIMEOUT_S

        def check() -> None:
            look()
            if time.monotonic() > deadline:
                raise UnavailableError(f"The process that reads documents did not start within {_START_TIMEOUT_S} s.")

        try:
            with self._watchdog.watching(check):
                read_frame(self.answers, max_bytes=len(READY))
        except (EOFError, OSError, MessageError) as error:
            raise UnavailableError(
                f"The process that reads documents does not start ({self._last_sign()}). "
                f"`{sys.executable} -m {self.module}` says why."
            ) from error
        return self._memory_bytes()

    def _memory_bytes(self) -> int:
        try:
            return self._vitals.memory_info().rss
        except psutil.Error:
            return 0  # it has just ended; the pipes will report that

    def _ending(self, limits: ProcessLimits) -> ReadingLimitError | ChildLostError:
        """The error for a child that closed its pipes, by its exit code or signal."""
        sign = self._last_sign()
        exit_code = self._process.returncode
        if exit_code == OUT_OF_MEMORY_EXIT_CODE:
            return ReadingLimitError(self.memory_reason(limits))
        if sign == "signal SIGXCPU":
            return ReadingLimitError(self.cpu_reason(limits))
        if sign == "signal SIGALRM":
            return ReadingLimitError(self.time_reason(limits))
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
