"""Asks an OpenID provider over HTTP: bounded in time and size, following nothing."""

from __future__ import annotations

import json
import ssl
import time
from typing import Any

import httpx

from app.errors import ProviderUnavailableError

TIMEOUT_S = 10.0  # a person waits meanwhile
MAX_BYTES = 512 * 1024
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}


class ProviderClient:
    """TLS by the system's certificates, to which SSL_CERT_FILE adds one's own; no proxy of the environment."""

    def __init__(self) -> None:
        self._timeout_s = TIMEOUT_S
        self._client = httpx.Client(
            timeout=TIMEOUT_S, trust_env=False, verify=ssl.create_default_context(), headers=_HEADERS
        )

    def get(self, url: str) -> dict[str, Any]:
        """Raises ProviderUnavailableError."""
        status, answer = self._ask("GET", url)
        if status != httpx.codes.OK:
            raise ProviderUnavailableError(f"{url} answers {status}")
        return answer

    def post(self, url: str, form: dict[str, str], *, auth: httpx.Auth | None) -> tuple[int, dict[str, Any]]:
        """The status and what is said. Raises ProviderUnavailableError."""
        return self._ask("POST", url, data=form, auth=auth)

    def close(self) -> None:
        self._client.close()

    def _ask(self, method: str, url: str, **options: Any) -> tuple[int, dict[str, Any]]:
        until = time.monotonic() + self._timeout_s
        body = bytearray()
        try:
            with self._client.stream(method, url, **options) as answer:
                for part in answer.iter_raw():
                    body += part
                    if len(body) > MAX_BYTES:
                        raise ProviderUnavailableError(f"{url} answers more than {MAX_BYTES:,} bytes")
                    if time.monotonic() > until:
                        raise ProviderUnavailableError(f"{url} was not done within {self._timeout_s:g} s")
        except httpx.HTTPError as error:
            raise ProviderUnavailableError(f"{url} does not answer: {error or type(error).__name__}") from error
        return answer.status_code, _object_of(url, answer.status_code, bytes(body))


def _object_of(url: str, status: int, body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ProviderUnavailableError(f"{url} answers {status} without a JSON object")
    return said
