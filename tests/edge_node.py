"""The embedded engine as a Qdrant server of one node: a fixed port and key, from the variables that `qdrant` reads.

What the tests start in place of Qdrant's own program where they are given none. It can be killed, stopped and started
again like that.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path

import uvicorn

from app.edge.connection import HOST, EdgeConnection
from app.edge.server import create_app
from app.edge.shards import Shards


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end it
    folder = Path(os.environ["QDRANT__STORAGE__STORAGE_PATH"])
    folder.mkdir(parents=True, exist_ok=True)
    port, key = int(os.environ["QDRANT__SERVICE__HTTP_PORT"]), os.environ["QDRANT__SERVICE__API_KEY"]
    engine = create_app(Shards(folder), EdgeConnection(port=port, token=key, pid=os.getpid()), folder)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    uvicorn.run(engine, host=HOST, port=port, log_level=logging.WARNING, access_log=False, ws="none")


def _end_with_stdin() -> None:
    """The tests hold the other end, which closes however they end."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
