"""Optimizes the shard in a folder that no other process uses: `python -m app.edge.optimize_shard FOLDER WANTED`.

The server runs it on a copy, with a pipe on stdin. The exit code is NOTHING_TO_DO if the shard was already optimal.
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
_NICENESS = 5  # searches have priority


def _end_with_stdin() -> None:
    """Make the kernel kill this process (SIGIO) when the pipe on stdin closes.

    A thread could not do that while Edge holds the GIL. Windows lacks this: there the process finishes its work after
    its owner has ended, and its copy is discarded.
    """
    if sys.platform != "win32":
        stdin = sys.stdin.fileno()
        fcntl.fcntl(stdin, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(stdin, fcntl.F_SETFL, fcntl.fcntl(stdin, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([stdin], [], [], 0)[0]:  # already closed
            sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "wanted", type=Optimization.model_validate_json, help="configuration and payload indexes, as JSON"
    )
    arguments = parser.parse_args()
    wanted: Optimization = arguments.wanted
    _end_with_stdin()
    if sys.platform != "win32":
        os.nice(_NICENESS)
    shard = edge.EdgeShard.load(path=str(arguments.folder), config=wanted.config.to_edge())
    for index in wanted.indexes:  # before building the graph, which gets extra links for indexed fields
        shard.update(operation=index.to_edge())
    was_changed = shard.optimize() or bool(wanted.indexes)
    shard.flush()
    shard.close()
    sys.exit(0 if was_changed else NOTHING_TO_DO)


if __name__ == "__main__":
    main()
