"""`gircse` in processes of its own, forked from one in which its libraries are imported already.

Starting `gircse up` takes eight seconds of processor time; five of them are imports, which read no environment and open
nothing. What depends on how a program starts (test_cli, test_offline, test_startup) starts it as a person does.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import DupFd
from typing import IO, Any, Self

from preloaded import PRELOADED

_programs = multiprocessing.get_context("forkserver")
_programs.set_forkserver_preload(PRELOADED)


class ForkedProgram:
    """What subprocess.Popen is to a command. `stdout` can be read (text) where no file was given for it."""

    def __init__(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], stdout: Any = None, stderr: Any = None
    ) -> None:
        self.args = list(arguments)
        self.stdout: io.TextIOBase | None = None
        if stdout is None:
            read_end, write_end = os.pipe()
            self.stdout = os.fdopen(read_end, encoding="utf-8", errors="replace")  # type: ignore[assignment]
            stdout = os.fdopen(write_end, "wb")
        files = SentFiles(stdout.fileno(), (stderr or sys.__stderr__).fileno())
        self._process = _programs.Process(target=_run, args=(self.args, dict(environment), files))
        self._process.start()
        if self.stdout is not None:
            stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.stdout is not None:
            self.stdout.close()
        self.wait()


def start_forked(arguments: Sequence[str], *, environment: Mapping[str, str], log: IO[bytes]) -> ForkedProgram:
    """For research.benchmarks.load.application."""
    return ForkedProgram(arguments, environment=environment, stdout=log, stderr=log)


class SentFiles:
    """File descriptors on their way to another process."""

    def __init__(self, *descriptors: int) -> None:
        self.descriptors = descriptors

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, tuple(DupFd(each) for each in self.descriptors)


def _detached(*sent: Any) -> SentFiles:
    return SentFiles(*(each.detach() for each in sent))


def _run(arguments: list[str], environment: dict[str, str], files: SentFiles) -> None:
    for descriptor, place in zip(files.descriptors, (1, 2), strict=True):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdout, sys.stderr = (os.fdopen(place, "w", buffering=1, encoding="utf-8") for place in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["gircse", *arguments]
    assert threading.active_count() == 1, threading.enumerate()  # a fork takes no other thread along
    sys.modules["app.cli"].main()
