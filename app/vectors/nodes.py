"""An httpx transport that sends each request to a responsive node of a Qdrant server or cluster, within deadlines.

Each address in `GIRCSE_QDRANT_URL`, and each IP address of its host name, counts as a node.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import chain, count

import httpx

READ_S = 3.5  # for all attempts of a read, so that the API can report a missing index within 5 s
WRITE_S = 60.0  # per attempt: with `wait=true` a busy optimiser delays the server's answer
CONNECT_S = 1.0
RESTART_S = 2.0  # how long requests wait after the last node failed: it may be restarting
PING_S = 1.0
QUIET_S = 1.5  # ping the node if a write takes longer
RESOLVE_EVERY_S = 10.0
_PINGED_AFTER_S = 1.0
_FIRST_PAUSE_S, _GROWTH, _LONGEST_PAUSE_S = 0.05, 1.5, 1.0
_READS = re.compile(r"/(points|facet|exists|points/(scroll|count|query|query/batch|query/groups))/?")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_AWAY = frozenset({502, 503, 504})  # from a starting server, or a proxy without a server

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class QdrantNode:
    """A target of requests: a configured address, and an IP address if its name has several."""

    url: httpx.URL
    ip: str | None = None
    is_well: bool = True
    heard_at: float = 0.0  # time.monotonic() of its last response

    @property
    def name(self) -> str:
        return shown(self.url) if self.ip is None else f"{shown(self.url)} ({self.ip})"

    def addressed(self, request: httpx.Request, path: bytes, timeouts: dict[str, float]) -> httpx.Request:
        url = self.url.copy_with(host=self.ip or self.url.host, raw_path=self.url.raw_path.rstrip(b"/") + path)
        headers = request.headers.copy()
        headers["host"] = self.url.netloc.decode("ascii")
        extensions = {**request.extensions, "timeout": timeouts}
        if self.url.scheme == "https":
            extensions["sni_hostname"] = self.url.host
        return httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=extensions)


@dataclass(slots=True)
class _Attempts:
    """The deadline of one request with its repetitions, and its last failure."""

    until: float
    # The first repetition is immediate: a pooled connection may simply have been closed.
    pauses: Iterator[float] = field(default_factory=lambda: chain([0.0], _pauses()))
    error: httpx.TransportError | None = None
    answer: httpx.Response | None = None

    def left_s(self) -> float:
        return self.until - time.monotonic()

    def note(self, failure: httpx.TransportError | httpx.Response) -> None:
        self.error = failure if isinstance(failure, httpx.TransportError) else None
        self.answer = failure if isinstance(failure, httpx.Response) else None
        time.sleep(max(0.0, min(next(self.pauses), self.left_s())))

    def end(self, nodes: str) -> httpx.Response:
        if self.answer is not None:
            return self.answer
        raise self.error or httpx.ConnectError(f"{nodes} did not answer a moment ago")


class NodeTransport(httpx.BaseTransport):
    """An httpx transport over several nodes. It repeats failed requests, as all of `QdrantVectorIndex` allow.

    After a failure it uses the next node; a thread pings the failed one until it responds. If all nodes have failed,
    requests wait until RESTART_S after the last failure, and then fail at once. Raises httpx.TransportError.
    """

    def __init__(self, urls: Sequence[str], *, read_s: float = READ_S, write_s: float = WRITE_S) -> None:
        self._urls = [httpx.URL(url) for url in urls]
        self._prefix = self._urls[0].raw_path.rstrip(b"/")  # the client puts the first address's path before its own
        self._read_s, self._write_s = read_s, write_s
        has_tls = any(url.scheme == "https" for url in self._urls)  # else skip loading certificates, which takes 40 ms
        self._http = httpx.Client(limits=httpx.Limits(max_connections=None), verify=has_tls)
        self._turns = count()
        self._changed = threading.Condition()
        self._nodes: list[QdrantNode] = [QdrantNode(url) for url in self._urls]
        self._resolved_at = -RESOLVE_EVERY_S
        self._failed_at = 0.0  # when the last working node failed
        self._watch: threading.Thread | None = None
        self._is_closed = False

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._http.close()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        path = request.url.raw_path.removeprefix(self._prefix)
        is_read = _is_read(request.method, path)
        attempts = _Attempts(time.monotonic() + self._read_s)
        while (node := self._next_node(attempts)) is not None:
            if not is_read and not self._is_reachable(node):
                continue
            try:
                if is_read:
                    answer = self._send(node, request, path, self._time_for(attempts))
                else:
                    answer = self._send_watched(node, request, path)
            except httpx.TransportError as error:
                self._fail(node, repr(error))
                attempts.note(error)
                continue
            node.heard_at = time.monotonic()
            if answer.status_code not in _AWAY:
                return answer
            self._fail(node, f"status {answer.status_code}")
            attempts.note(answer)
        return attempts.end(", ".join(map(shown, self._urls)))

    def _next_node(self, attempts: _Attempts) -> QdrantNode | None:
        """A working node, round-robin; None after the deadline, or if no node has worked for RESTART_S."""
        with self._changed:
            self._begin_watch_if_due()
            while not self._is_closed:
                well = [node for node in self._nodes if node.is_well]
                if attempts.left_s() <= 0:
                    return None
                if well:
                    return well[next(self._turns) % len(well)]
                patience_s = min(attempts.left_s(), self._failed_at + RESTART_S - time.monotonic())
                if patience_s <= 0:
                    return None
                self._changed.wait(patience_s)
            return None

    def _time_for(self, attempts: _Attempts) -> float:
        """Seconds for the next attempt of a read. If there is another working node, it leaves it half of the time."""
        has_other = sum(node.is_well for node in self._nodes) > 1
        return max(attempts.left_s() / (2 if has_other else 1), 0.001)

    def _send_watched(self, node: QdrantNode, request: httpx.Request, path: bytes) -> httpx.Response:
        """A write may take `write_s` while the node answers pings. Raises httpx.ReadTimeout early if it hangs."""
        sent: Future[httpx.Response] = Future()

        def send() -> None:
            try:
                sent.set_result(self._send(node, request, path, self._write_s))
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it again
                sent.set_exception(error)

        threading.Thread(target=send, name="qdrant-write", daemon=True).start()
        while not wait([sent], timeout=QUIET_S).done:
            if not self._answers(node):
                raise httpx.ReadTimeout("the node no longer responds", request=request)
        return sent.result()

    def _send(self, node: QdrantNode, request: httpx.Request, path: bytes, seconds: float) -> httpx.Response:
        """Sends one attempt and reads the whole response, both within `seconds`."""
        until = time.monotonic() + seconds
        timeouts = {"connect": min(CONNECT_S, seconds), "read": seconds, "write": seconds, "pool": seconds}
        answer = self._http.send(sent := node.addressed(request, path, timeouts), stream=True)
        try:
            body = b"".join(_within(until, answer, sent))
        finally:
            answer.close()
        return httpx.Response(
            answer.status_code, headers=answer.headers, stream=httpx.ByteStream(body), extensions=answer.extensions
        )

    def _is_reachable(self, node: QdrantNode) -> bool:
        """Pings the node unless it responded recently. For writes: their long deadlines do not reveal a dead node."""
        if time.monotonic() - node.heard_at < _PINGED_AFTER_S or self._answers(node):
            return True
        self._fail(node, "no answer to a ping")
        return False

    def _answers(self, node: QdrantNode) -> bool:
        request = httpx.Request("GET", node.url)
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), PING_S)
        try:
            answer = self._http.send(node.addressed(request, b"/readyz", timeouts))
        except (httpx.HTTPError, RuntimeError):  # RuntimeError: the client was closed
            return False
        node.heard_at = time.monotonic()
        return answer.status_code not in _AWAY

    def _fail(self, node: QdrantNode, reason: object) -> None:
        with self._changed:
            if node.is_well:
                node.is_well = False
                _log.warning("Qdrant at %s fails (%s); not used until it responds again.", node.name, reason)
                if not any(other.is_well for other in self._nodes):
                    self._failed_at = time.monotonic()
            self._begin_watch_if_due()

    def _begin_watch_if_due(self) -> None:
        """Starts the watch thread if needed; call with the lock held. The thread ends when all nodes work and the names
        are resolved."""
        if self._watch is None and not self._is_closed and self._needs_watch():
            self._watch = threading.Thread(target=self._watch_nodes, name="qdrant-nodes", daemon=True)
            self._watch.start()

    def _needs_watch(self) -> bool:
        return not all(node.is_well for node in self._nodes) or self._is_lookup_due()

    def _is_lookup_due(self) -> bool:
        return time.monotonic() - self._resolved_at >= RESOLVE_EVERY_S

    def _watch_nodes(self) -> None:
        for pause_s in _pauses():
            if self._is_lookup_due():
                self._look_up()
            for node in [node for node in self._nodes if not node.is_well]:
                if self._answers(node):
                    self._recover(node)
            with self._changed:
                if self._is_closed or not self._needs_watch():
                    self._watch = None
                    return
                self._changed.wait(pause_s)

    def _recover(self, node: QdrantNode) -> None:
        with self._changed:
            node.is_well = True
            self._changed.notify_all()
        _log.warning("Qdrant at %s responds again.", node.name)

    def _look_up(self) -> None:
        """Resolves the names again and replaces the nodes. A name that does not resolve becomes one node without IP."""
        found = [(url, ip) for url in self._urls for ip in _ips_of(url)]
        with self._changed:
            known = {(node.url, node.ip): node for node in self._nodes}
            self._nodes = [known.get(address) or QdrantNode(*address) for address in found]
            self._resolved_at = time.monotonic()
            self._changed.notify_all()


def shown(url: httpx.URL) -> str:
    """The address without user and password."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path.rstrip('/')}"


def _is_read(method: str, path: bytes) -> bool:
    if method == "GET":
        return True
    collection, _, operation = path.partition(b"?")[0].decode("ascii").removeprefix("/collections/").partition("/")
    return method == "POST" and bool(collection) and _READS.fullmatch(f"/{operation}") is not None


def _within(until: float, answer: httpx.Response, request: httpx.Request) -> Iterator[bytes]:
    """Yields raw parts of the body until the deadline. httpx's timeout is per part and does not limit a slow body."""
    for part in answer.iter_raw():
        yield part
        if time.monotonic() > until:
            raise httpx.ReadTimeout("the response takes too long", request=request)


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)


def _ips_of(url: httpx.URL) -> list[str | None]:
    """The IP addresses of a host, of the family that has more; [None], which means to connect by name, if it has at
    most one per family or does not resolve."""
    try:
        found = socket.getaddrinfo(url.host, None, type=socket.SOCK_STREAM)
    except OSError:
        return [None]
    by_family = [list(dict.fromkeys(str(info[4][0]) for info in found if info[0] is family)) for family in _FAMILIES]
    most = max(by_family, key=len)
    return list(most) if len(most) > 1 else [None]
