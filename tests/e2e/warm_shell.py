"""A shell whose `gircse` and `python FILE` run in forked processes in which their libraries are imported already.

Everything else in the shell is real: its pipes, its files, its exit codes. A small program on PATH hands arguments,
environment, folder and the three standard files over a socket, and waits for the exit code.
"""

from __future__ import annotations

import array
import json
import multiprocessing
import os
import runpy
import socket
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Self

from forked import SentFiles
from patience import wait_until
from preloaded import PRELOADED

_CLIENT = """#!{python} -IS
import array, json, os, socket, sys
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
if name.startswith("python") and (not arguments or arguments[0].startswith("-")):
    os.execv({python!r}, [{python!r}, *arguments])
request = json.dumps({{"name": name, "arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}})
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    files = array.array("i", [0, 1, 2])
    connection.sendmsg([len(request.encode()).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    connection.sendall(request.encode())
    sys.exit(int(connection.recv(16) or sys.exit("the process that ran it was lost")))
"""
_STOP_S = 60


class WarmShell:
    """The folder `programs` belongs at the front of PATH while this is open."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(PRELOADED)
        self._running: list[Any] = []
        self._lock = threading.Lock()  # an exit code can be read once, and starting a process looks at all others
        self._listener = socket.socket(socket.AF_UNIX)
        address = str(folder / "warm")
        self._listener.bind(address)
        self._listener.listen()
        for name in ("gircse", "python", "python3"):
            (self.programs / name).write_text(_CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
            (self.programs / name).chmod(0o755)
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_until_idle(self) -> None:
        """Until the processes whose programs in the shell have ended are gone, too."""
        wait_until(lambda: not self._running, timeout_s=_STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in list(self._running):
            process.terminate()
        self.wait_until_idle()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the accepting thread
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * array.array("i").itemsize))
            descriptors = array.array("i")
            descriptors.frombytes(ancillary[0][2])
            with connection.makefile("rb") as stream:
                request = json.loads(stream.read(int.from_bytes(head, "big")))
            process = self._forks.Process(target=_run, args=(request, SentFiles(*descriptors)))
            with self._lock:
                process.start()
                self._running.append(process)
            for descriptor in descriptors:
                os.close(descriptor)
            watching = (connection.dup(), process)
            threading.Thread(target=self._terminate_with_shell, args=watching, daemon=True).start()
            wait([process.sentinel])
            with self._lock:
                code = process.exitcode
                self._running.remove(process)
            with suppress(OSError):  # the program in the shell was killed
                connection.sendall(str(code if code >= 0 else 128 - code).encode())
                connection.shutdown(socket.SHUT_RDWR)

    def _terminate_with_shell(self, connection: socket.socket, process: Any) -> None:
        """A shell that is killed takes its programs along."""
        with connection, suppress(OSError):
            connection.recv(1)
            if process in self._running:
                process.terminate()


def _run(request: dict[str, Any], files: SentFiles) -> None:
    for descriptor, place in zip(files.descriptors, (0, 1, 2), strict=True):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout, sys.stderr = (os.fdopen(place, "w", buffering=1, encoding="utf-8") for place in (1, 2))
    os.setsid()  # away from the terminal of the tests
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["name"], *request["arguments"]]
    if request["name"] == "gircse":
        sys.modules["app.cli"].main()
    else:
        sys.argv = sys.argv[1:]
        sys.path.insert(0, request["folder"])
        runpy.run_path(sys.argv[0], run_name="__main__")
