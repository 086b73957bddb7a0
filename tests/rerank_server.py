"""A rerank server on this machine for tests: it scores by shared words, or answers as a test makes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from served import in_thread

Answer = Callable[[dict[str, Any]], Any]


def shared_words(query: str, texts: Sequence[str]) -> list[float]:
    """The share of the query's words that a text holds."""
    words = set(query.lower().split())
    return [len(words & set(text.lower().split())) / len(words) for text in texts]


def cohere_answer(body: dict[str, Any]) -> Any:
    scores = shared_words(body["query"], body["documents"])
    rows = [{"index": index, "relevance_score": score} for index, score in enumerate(scores)]
    return {"id": "1", "results": sorted(rows, key=lambda row: -row["relevance_score"])[: body["top_n"]]}


def tei_answer(body: dict[str, Any]) -> Any:
    scores = shared_words(body["query"], body["texts"])
    return [{"index": index, "score": score} for index, score in reversed(list(enumerate(scores)))]


class RerankServer:
    """`answer` gives an object, or bytes that are sent as they are."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.status = 200
        self.pause_s = 0.0
        self.dies = False
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""
        self.ended = threading.Event()


@contextmanager
def rerank_server(answer: Answer = cohere_answer) -> Iterator[RerankServer]:
    state = RerankServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.bodies.append(body)
            state.keys.append(self.headers.get("authorization"))
            if state.dies:
                self.close_connection = True
                return
            state.ended.wait(state.pause_s)
            found = state.answer(body)
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(state.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/rerank"
    with in_thread(server):
        try:
            yield state
        finally:
            state.ended.set()
