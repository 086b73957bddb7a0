"""A Qdrant server in which a test sees its own collections alone, whatever else is there: all names get a prefix.

So the same tests run side by side on one server, and on one that others use: the product asks this address, and all
collections with the prefix are removed in the end.
"""

from __future__ import annotations

import http.client
import json
import re
import select
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from served import in_thread

PREFIX = "gircse-test-"
_ALIASES = "/collections/aliases"
_COLLECTION = re.compile(r"^/collections/([^/]+)(.*)$")
_NAMES = ("collection_name", "alias_name", "old_alias_name", "new_alias_name")
_NOT_PASSED = ("host", "content-length", "accept-encoding", "connection")


class _Names(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(url)
        self.prefix = f"{PREFIX}{uuid.uuid4().hex[:12]}-"

    def connect(self) -> http.client.HTTPConnection:
        secure = self.upstream.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(self.upstream.hostname or "", self.upstream.port)

    def path_there(self, path: str) -> str:
        found = _COLLECTION.match(path)
        if found is None or path.partition("?")[0] == _ALIASES:
            return self.upstream.path.rstrip("/") + path
        name, _, query = found[1].partition("?")
        tail = f"?{query}" if query else found[2]
        return f"{self.upstream.path.rstrip('/')}/collections/{quote(self.prefix + unquote(name))}{tail}"

    def body_there(self, path: str, body: bytes) -> bytes:
        if path.partition("?")[0] != _ALIASES:
            return body
        actions = json.loads(body)
        for action in actions["actions"]:
            for change in action.values():
                change.update({name: self.prefix + change[name] for name in _NAMES if name in change})
        return json.dumps(actions).encode()

    def body_here(self, path: str, status: int, body: bytes) -> bytes:
        if status != 200:
            return body.replace(self.prefix.encode(), b"")
        plain = path.partition("?")[0]
        if plain == "/collections":
            return self._own(body, "collections", ["name"])
        if plain.endswith("/aliases"):
            return self._own(body, "aliases", ["alias_name", "collection_name"])
        return body

    def _own(self, body: bytes, key: str, names: list[str]) -> bytes:
        answer: dict[str, Any] = json.loads(body)
        if not isinstance(answer["result"], dict):  # of a change of aliases
            return body
        own = [each for each in answer["result"][key] if each[names[0]].startswith(self.prefix)]
        answer["result"][key] = [{name: each[name].removeprefix(self.prefix) for name in names} for each in own]
        return json.dumps(answer).encode()


class _Handler(BaseHTTPRequestHandler):
    """A connection of a client, and one of its own to the server. Either ends with the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Names

    def setup(self) -> None:
        super().setup()
        self._there = self.server.connect()

    def finish(self) -> None:
        self._there.close()
        with suppress(OSError):
            super().finish()

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED}
        try:
            self._forget_closed()
            self._there.request(
                self.command,
                self.server.path_there(self.path),
                self.server.body_there(self.path, body) or None,
                headers,
            )
            answer = self._there.getresponse()
            content = self.server.body_here(self.path, answer.status, answer.read())
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # as the server did it: without an answer
            return
        with suppress(OSError):  # a client that waits no longer
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers.get("content-type", "application/json"))
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _forget_closed(self) -> None:
        """Servers end connections that were idle for some seconds; the next request opens another one."""
        if self._there.sock is not None and select.select([self._there.sock], [], [], 0)[0]:
            self._there.close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def own_names(url: str, *, api_key: str | None) -> Iterator[str]:
    """An address at which the server of `url` looks empty. What is made there is removed when the block ends."""
    server = _Names(url)
    with in_thread(server):
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            _remove_all(url, server.prefix, api_key)


def _remove_all(url: str, prefix: str, api_key: str | None) -> None:
    from qdrant_client import QdrantClient  # a second to import, for the tests that have a server alone

    client = QdrantClient(
        url=url, headers={"api-key": api_key} if api_key else None, check_compatibility=False, timeout=60
    )
    for each in client.get_collections().collections:
        if each.name.startswith(prefix):
            client.delete_collection(each.name)
    client.close()
