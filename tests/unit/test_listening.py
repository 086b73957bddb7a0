"""The socket that the service listens on."""

from __future__ import annotations

import socket
from pathlib import Path

from app.commands.serve import listening_socket
from app.settings import Settings


def test_answers_are_sent_at_once(tmp_path: Path) -> None:
    """Else the second answer on a connection waits for the client's delayed acknowledgement, 40 ms on Linux."""
    with (
        listening_socket(Settings(home=tmp_path, port=0)) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
