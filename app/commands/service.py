"""Sends requests of commands to a running service with the same home, which spares loading the model again."""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated

import typer

from app.errors import ConflictError, GircseError, InputError, NotFoundError, UnavailableError
from app.runtime.service_socket import ServiceRecord, connect, find_services
from app.settings import Settings

ANSWER_S = 300.0
BUSY_S = 60.0  # how long to retry a service that answers 429
# Settings that determine answers. A service with other values is not used.
COMPARED = (
    "database_url",
    "qdrant_url",
    "model",
    "device",
    "dtype",
    "query_tolerance",
    "embedder_url",
    "rerank_by",
    "rerank_candidates",
    "rerank_steps",
    "rerank_model",
    "rerank_url",
    "rerank_api",
    "rerank_query",
    "answer_url",
    "answer_model",
)
_PAGE = 1000  # the most results that the API gives at once
_ERRORS: Mapping[int, type[GircseError]] = {400: InputError, 404: NotFoundError, 409: ConflictError, 422: InputError}

Local = Annotated[bool, typer.Option("--local", help="Load the model in this process, even if a service is running.")]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningService:
    record: ServiceRecord

    def collection_names(self) -> list[str]:
        names: list[str] = []
        while True:
            page = json.loads(self.get(f"/api/v1/collections?limit={_PAGE}&offset={len(names)}"))
            names += [each["name"] for each in page]
            if len(page) < _PAGE:
                return names

    def get(self, path: str) -> bytes:
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, object]) -> bytes:
        return self._ask("POST", path, json.dumps(body).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        until = time.monotonic() + BUSY_S
        while True:
            answer = self._send(method, path, body)
            pause_s = float(answer.getheader("retry-after") or 1)
            if answer.status != http.HTTPStatus.TOO_MANY_REQUESTS or time.monotonic() + pause_s > until:
                break
            time.sleep(pause_s)
        content = answer.read()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise _error_of(answer.status, content)
        return content

    def _send(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        socket = connect(self.record)
        if socket is None:
            raise UnavailableError(f"The service of process {self.record.pid} has just ended. Try again.")
        socket.settimeout(ANSWER_S)
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket  # instead of a TCP connection, which HTTPConnection would open
        try:
            connection.request(method, path, body, {"content-type": "application/json", "connection": "close"})
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise UnavailableError(
                f"The service of process {self.record.pid} did not respond ({type(error).__name__}: {error}). Try "
                "again, or use --local."
            ) from None


def find_service(settings: Settings, *, local: bool = False) -> RunningService | None:
    """The newest running service of this home with the same version and explicitly set settings, or None."""
    if local or not settings.ask_service:
        return None
    wanted = digests(settings, only_given=True)
    for record in find_services(settings.home):
        others = [name for name, digest in wanted.items() if record.settings.get(name) != digest]
        if record.version != version("gircse-search"):
            others.append("version")
        if others:
            log.info("The service of process %d is not used: it differs in %s", record.pid, ", ".join(others))
            continue
        connection = connect(record)
        if connection is not None:
            connection.close()
            return RunningService(record)
    return None


def digests(settings: Settings, *, only_given: bool = False) -> dict[str, str]:
    """SHA-256 digests of the settings that determine answers, by name.

    `only_given` leaves out settings that are not set explicitly. Digests, because a URL may contain a password.
    """
    names = [name for name in COMPARED if not only_given or name in settings.model_fields_set]
    return {name: hashlib.sha256(repr(getattr(settings, name)).encode()).hexdigest() for name in names}


def _error_of(status: int, content: bytes) -> GircseError:
    try:
        body = json.loads(content)
        detail = str(
            body["error"]["message"] if "error" in body else body["detail"]
        )  # OpenAI's routes have their own format
    except (ValueError, KeyError, TypeError):
        detail = f"The service answers with status {status}. See its log, or use --local."
    return _ERRORS.get(status, UnavailableError)(detail)
