"""The socket that the service listens on."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from app.commands.serve import listening_socket
from app.errors import InputError
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


def test_nothing_listens_to_the_network_without_access_control(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"GIRCSE_ACCESS_CONTROL=true GIRCSE_HOST=0\.0\.0\.0 gircse up"),
        listening_socket(Settings(home=tmp_path, host="0.0.0.0", port=0)),
    ):
        pass


def test_with_access_control_it_does(tmp_path: Path) -> None:
    with listening_socket(Settings(home=tmp_path, host="0.0.0.0", port=0, access_control=True)) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"
