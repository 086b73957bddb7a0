"""Standard output as Unix tools treat it: a reader that left ends the command, and a failed write is one line."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDIN, _STDOUT, _STDERR = range(3)
_replaced: list[TextIO | None] = []  # kept, because a stream closes its descriptor with its last reference


class _Output(io.FileIO):
    """Ends the command at the first failed write of the main thread: `with` blocks are left, and nothing is printed
    at exit.

    A reader that has left (`| head`) gives the exit code of a tool that SIGPIPE ends. SIGPIPE itself stays ignored:
    it would also end the process when a socket closes, and leave temporary files and child processes.
    """

    _is_lost = False

    def __init__(self, program: str) -> None:
        super().__init__(_STDOUT, "wb", closefd=False)
        self._program = program

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]  # None: it would block
        if self._is_lost:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            if threading.current_thread() is not threading.main_thread():
                raise
            self._is_lost = True
            if isinstance(error, BrokenPipeError):
                sys.exit(128 + signal.SIGPIPE)
            sys.stderr.write(f"{self._program}: cannot write the output: {error.strerror}.\n")
            sys.exit(1)


class _Messages(io.FileIO):
    """Drops messages that nobody can get: the work goes on."""

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def run_program(main: Callable[[], int | None]) -> NoReturn:
    """Runs `main` as the whole program and exits with the status that it returns. None is 0.

    Every `if __name__ == "__main__":` calls this. `gircse train` and `gircse eval` run such a module in their own
    process, whose streams are set up.
    """
    set_up_streams(_name_of_program())
    try:
        sys.exit(main())
    finally:
        sys.stdout.flush()


def _name_of_program() -> str:
    """`embedder.server` for `python -m embedder.server`, `make_docs.py` for `python scripts/make_docs.py`."""
    spec = sys.modules["__main__"].__spec__
    return Path(sys.argv[0]).name if spec is None else spec.name.removesuffix(".__main__")


def set_up_streams(program: str) -> None:
    """Replaces `sys.stdout` and `sys.stderr`, unless that is done. Windows has no SIGPIPE, and its consoles are no
    files.

    program: its name, for the message that the output cannot be written.
    """
    if os.name != "posix" or _replaced:
        return
    for descriptor in (_STDIN, _STDOUT, _STDERR):
        _occupy(descriptor)
    _replaced.extend((sys.stdout, sys.stderr))
    sys.stderr = _stream(_Messages(_STDERR, "wb", closefd=False), like=sys.stderr)
    sys.stdout = _stream(_Output(program), like=sys.stdout)


def _occupy(descriptor: int) -> None:
    """Lets a closed descriptor (`>&-`) fail. The next opened file, such as the database, would get its number."""
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_WRONLY if descriptor == _STDIN else os.O_RDONLY)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)


def _stream(raw: io.FileIO, *, like: TextIO | None) -> TextIO:
    """`like`: None if Python found the descriptor closed."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=like.encoding if like else "utf-8",
        errors=like.errors if like else "backslashreplace",
        line_buffering=raw.isatty() or raw.fileno() == _STDERR,
    )
