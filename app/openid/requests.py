"""HTTP requests to an OpenID provider, with limits for time and size, and without redirects."""

from __future__ import annotations

import json
import ssl
import time
from typing import Any

import httpx

from app.errors import ProviderUnavailableError

TIMEOUT_S = 10.0  # short, since a person waits
MAX_BYTES = 512 * 1024
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}


class ProviderClient:
    """Uses the system's certificates plus SSL_CERT_FILE, and ignores proxies of the environment."""

    def __init__(self) -> None:
        self._timeout_s = TIMEOUT_S
        self._client = httpx.Client(
            timeout=TIMEOUT_S, trust_env=False, verify=ssl.create_default_context(), headers=_HEADERS
        )

    def get(self, url: str) -> dict[str, Any]:
        """Returns the JSON object of a 200 response. Raises ProviderUnavailableError."""
        status, response = self._send("GET", url)
        if status != httpx.codes.OK:
            raise ProviderUnavailableError(f"{url} responds {status}")
        return response

    def post(self, url: str, form: dict[str, str], *, auth: httpx.Auth | None) -> tuple[int, dict[str, Any]]:
        """Returns the status and the JSON object of the response. Raises ProviderUnavailableError."""
        return self._send("POST", url, data=form, auth=auth)

    def close(self) -> None:
        self._client.close()

    def _send(self, method: str, url: str, **options: Any) -> tuple[int, dict[str, Any]]:
        until = time.monotonic() + self._timeout_s
        body = bytearray()
        try:
            with self._client.stream(method, url, **options) as answer:
                for part in answer.iter_raw():
                    body += part
                    if len(body) > MAX_BYTES:
                        raise ProviderUnavailableError(f"{url} sends more than {MAX_BYTES:,} bytes")
                    if time.monotonic() > until:
                        raise ProviderUnavailableError(f"{url} did not finish within {self._timeout_s:g} s")
        except httpx.HTTPError as error:
            raise ProviderUnavailableError(f"{url} does not respond: {error or type(error).__name__}") from error
        return answer.status_code, _object_of(url, answer.status_code, bytes(body))


def _object_of(url: str, status: int, body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ProviderUnavailableError(f"{url} responds {status} without a JSON object")
    return content
