"""Stands before the embedded engine and answers as a Qdrant server or cluster does where the two differ."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

_CLUSTER_PARAMS = ("shard_number", "replication_factor")
_COLLECTION = re.compile(r"/collections/([^/?]+)")


@dataclass
class QdrantFront:
    """`nodes` of a cluster; 1: none. `copies`: of each shard of an index, on how many nodes it answers.

    `lingers`: the index of a nested key keeps the values of a parent that was deleted, as Qdrant 1.18 does.
    `forgets_deletions`, `forgets_labels`: says that keys of payloads were deleted, or set, and leaves them as they are.
    """

    engine: str
    token: str
    nodes: int = 1
    copies: dict[str, list[int]] = field(default_factory=dict)
    lingers: bool = False
    forgets_deletions: bool = False
    forgets_labels: bool = False
    created: dict[str, dict[str, Any]] = field(default_factory=dict)
    params: dict[str, dict[str, Any]] = field(default_factory=dict)  # of indexes; those that the engine does not have
    url: str = ""
    _indexed: set[str] = field(default_factory=set)
    _lingering: dict[str, list[Any]] = field(default_factory=dict)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        bare = path.partition("?")[0]
        name = _COLLECTION.match(bare)
        sent = json.loads(body) if body else {}
        if bare == "/cluster":
            return self._ok(self._status())
        if name and bare == f"/collections/{name[1]}/cluster":
            return self._ok(self._cluster_of(name[1]))
        if name and method == "PUT" and bare == f"/collections/{name[1]}":
            self.created[name[1]] = dict(sent)
            self.params[name[1]] = {key: sent.pop(key) for key in _CLUSTER_PARAMS if key in sent}
        if name and method == "PATCH" and bare == f"/collections/{name[1]}":
            self.params.setdefault(name[1], {}).update(sent.pop("params", {}))
        if name and method == "GET" and bare == f"/collections/{name[1]}":
            return self._described(name[1], *self._forward(method, path, body))
        if method == "PUT" and bare.endswith("/index"):
            self._indexed.add(sent["field_name"])
        if method == "DELETE" and "/index/" in bare:
            key = bare.rpartition("/")[2]
            self._indexed.discard(key)
            self._lingering.pop(key, None)
        kinds = {kind for operation in sent.get("operations", ()) for kind in operation}
        if (self.forgets_deletions and "delete_payload" in kinds) or (self.forgets_labels and "set_payload" in kinds):
            return self._ok([{"operation_id": 0, "status": "completed"}])
        if self.lingers and "delete_payload" in kinds:
            self._keep_indexed(sent)
        if bare.endswith("/points/scroll") and (found := self._lingering_ids(sent)):
            return self._ok({"points": [{"id": each} for each in found], "next_page_offset": None})
        return self._forward(method, path, json.dumps(sent).encode() if body else body)

    def _forward(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"api-key": self.token, "content-type": "application/json"}
        answer = httpx.request(method, self.engine + path, content=body, headers=headers, timeout=60, trust_env=False)
        return answer.status_code, answer.content

    def _described(self, name: str, status: int, said: bytes) -> tuple[int, bytes]:
        if status != 200:
            return status, said
        answer = json.loads(said)
        answer["result"]["config"]["params"] |= self.params.get(name, {})
        return status, json.dumps(answer).encode()

    def _ok(self, result: object) -> tuple[int, bytes]:
        return 200, json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()

    def _status(self) -> dict[str, Any]:
        if self.nodes == 1:
            return {"status": "disabled"}
        raft = {"term": 1, "commit": 1, "pending_operations": 0, "leader": 1, "role": "Leader", "is_voter": True}
        return {
            "status": "enabled",
            "peer_id": 1,
            "peers": {str(peer): {"uri": f"http://node-{peer}:6335/"} for peer in range(1, self.nodes + 1)},
            "raft_info": raft,
            "consensus_thread_status": {"consensus_thread_status": "working", "last_update": "2026-01-01T00:00:00Z"},
            "message_send_failures": {},
        }

    def _cluster_of(self, name: str) -> dict[str, Any]:
        copies = self.copies.get(name, [2] * self.nodes)
        local = [{"shard_id": shard, "points_count": 0, "state": "Active"} for shard in range(len(copies))]
        remote = [
            {"shard_id": shard, "peer_id": 2, "state": "Active" if count > 1 else "Dead"}
            for shard, count in enumerate(copies)
        ]
        return {
            "peer_id": 1,
            "shard_count": len(copies),
            "local_shards": local,
            "remote_shards": remote,
            "shard_transfers": [],
        }

    def _keep_indexed(self, sent: Mapping[str, Any]) -> None:
        for operation in sent["operations"]:
            change = operation["delete_payload"]
            ids = [each for condition in change["filter"]["must"] for each in condition["has_id"]]
            for key in self._indexed:
                if key.partition(".")[0] in change["keys"] and "." in key:
                    self._lingering.setdefault(key, []).extend(ids)

    def _lingering_ids(self, sent: Mapping[str, Any]) -> list[Any]:
        conditions = (sent.get("filter") or {}).get("must_not") or []
        keys = [each["is_empty"]["key"] for each in conditions if "is_empty" in each]
        return [found for key in keys for found in self._lingering.get(key, ())]


@contextmanager
def qdrant_front(engine: str, token: str, **options: Any) -> Iterator[QdrantFront]:
    front = QdrantFront(engine, token, **options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, said = front.answer(self.command, self.path, body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    front.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield front
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
