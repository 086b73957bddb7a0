"""Pings of an embedding server keep their connection, since a new one resolves a name, which may hang."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from patience import PATIENCE_S

from app.wiring.server_pings import ServerPings


def test_a_connection_stays_open_between_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[tuple[str, int]] = []

    class Server(ThreadingHTTPServer):
        def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
            connections.append(client_address)
            super().process_request(request, client_address)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pings = ServerPings(ping_s=PATIENCE_S, base_url=f"http://127.0.0.1:{server.server_port}")
        try:
            for at in range(3):
                now = 600.0 * at  # later each time by more than clients keep connections by default
                monkeypatch.setattr(time, "monotonic", lambda now=now: now)
                assert pings.begin().result(PATIENCE_S)
        finally:
            pings.close()
            server.shutdown()
    assert len(connections) == 1
