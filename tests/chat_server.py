"""A server with OpenAI's chat API on this machine for tests: it streams what a test says, or fails as one makes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from served import in_thread

Words = Callable[[dict[str, Any]], Sequence[str]]


def event_of(text: str | None, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": reason}
    return b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"


@dataclass
class ChatServer:
    """`words` are streamed, a piece an event; `raw` is sent in their place, as it is."""

    words: Words = lambda body: ["It is so [1]."]
    status: int = 200
    raw: bytes | None = None
    content_type: str = "text/event-stream"
    pause_s: float = 0.0  # before each piece after the first
    first_pause_s: float = 0.0
    dies_after: int | None = None  # pieces, in the middle of the stream
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def pieces(self, body: dict[str, Any]) -> Iterator[bytes]:
        if self.raw is not None:
            yield self.raw
            return
        for number, text in enumerate(self.words(body)):
            if number == self.dies_after:
                return
            yield event_of(text)
        yield event_of(None, "stop")
        yield b"data: [DONE]\n\n"


@contextmanager
def chat_server(**options: Any) -> Iterator[ChatServer]:
    state = ChatServer(**options)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.bodies.append({"path": self.path, **body})
            state.keys.append(self.headers.get("authorization"))
            self.send_response(state.status)
            self.send_header("content-type", state.content_type)
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            for number, piece in enumerate(state.pieces(body)):
                if state.ended.wait(state.pause_s if number else state.first_pause_s):
                    return
                try:
                    self.wfile.write(piece)
                except OSError:  # the client has gone
                    return

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    with in_thread(server):
        try:
            yield state
        finally:
            state.ended.set()
