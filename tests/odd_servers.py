"""HTTP servers that answer, hang, refuse, fail or dawdle, as a test tells them."""

from __future__ import annotations

import json
import socket
import threading
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

HOST = "127.0.0.1"


class Mode(StrEnum):
    WELL = "well"
    HANGING = "hanging"  # takes the request and says nothing until the mode changes, as a paused container does
    SLOW = "slow"  # the same, but says that it is there
    FAILING = "failing"  # 503
    REFUSING = "refusing"  # the same, but says that it is there
    DAWDLING = "dawdling"  # a byte now and then, for ever
    CUTTING = "cutting"  # ends the connection in place of an answer


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # connections at once, of tests with many requests


class OddServer:
    """`stop` closes its port, `start` opens the same one again. `paths` are the requests it was sent, except pings.
    `pings` counts those."""

    def __init__(self, name: str = "one") -> None:
        self.name = name
        self.mode = Mode.WELL
        self.paths: list[str] = []
        self.pings = 0
        self.headers: list[dict[str, str]] = []
        self._changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        with socket.create_server((HOST, 0)) as chosen:
            self.port: int = chosen.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def turn(self, mode: Mode) -> None:
        with self._changed:
            self.mode = mode
            self._changed.notify_all()

    def start(self) -> None:
        self._server = _Server((HOST, self.port), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self.turn(Mode.CUTTING)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_while(self, mode: Mode) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.mode is not mode, timeout=120)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        odd = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.path.endswith("z"):
                    odd.pings += 1
                else:
                    odd.paths.append(f"{self.command} {self.path}")
                    odd.headers.append({key.lower(): value for key, value in self.headers.items()})
                odd.wait_while(Mode.HANGING)
                if not self.path.endswith("z"):
                    odd.wait_while(Mode.SLOW)
                if odd.mode is Mode.CUTTING:
                    self.close_connection = True
                    return
                is_refused = odd.mode is Mode.REFUSING and not self.path.endswith("z")
                self.send_response(503 if odd.mode is Mode.FAILING or is_refused else 200)
                if odd.mode is Mode.DAWDLING:
                    self.dawdle()
                    return
                said = json.dumps({"from": odd.name, "sent": body.decode()}).encode()
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def dawdle(self) -> None:
                self.send_header("content-length", "1000000")
                self.end_headers()
                pause = threading.Event()
                while odd.mode is Mode.DAWDLING:
                    try:
                        self.wfile.write(b" ")
                    except OSError:
                        break
                    pause.wait(0.02)
                self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        return Handler
