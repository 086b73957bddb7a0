"""Optimises the shard in a folder that no other process uses: `python -m app.edge.optimize_shard FOLDER WANTED`.

Run by the server on a copy, with a pipe on stdin. Ends with the code NOTHING_TO_DO when the shard was optimal already.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
from pathlib import Path

import qdrant_edge as edge

from app.edge.messages import Optimization

if sys.platform != "win32":
    import fcntl

NOTHING_TO_DO = 10
_NICENESS = 5  # searches come first


def _end_with_stdin() -> None:
    """Lets the kernel end this process (SIGIO) when the pipe closes; a thread could not, while Edge holds the GIL.

    Windows has no such thing: there a process without an owner works to the end, and its copy is discarded.
    """
    if sys.platform != "win32":
        stdin = sys.stdin.fileno()
        fcntl.fcntl(stdin, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(stdin, fcntl.F_SETFL, fcntl.fcntl(stdin, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([stdin], [], [], 0)[0]:  # it was closed before
            sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("wanted", type=Optimization.model_validate_json, help="what the shard is to be, as JSON")
    arguments = parser.parse_args()
    wanted: Optimization = arguments.wanted
    _end_with_stdin()
    if sys.platform != "win32":
        os.nice(_NICENESS)
    shard = edge.EdgeShard.load(path=str(arguments.folder), config=wanted.config.to_edge())
    for index in wanted.indexes:  # before the graph, which gets links for what can be filtered by
        shard.update(operation=index.to_edge())
    was_changed = shard.optimize() or bool(wanted.indexes)
    shard.flush()
    shard.close()
    sys.exit(0 if was_changed else NOTHING_TO_DO)


if __name__ == "__main__":
    main()
