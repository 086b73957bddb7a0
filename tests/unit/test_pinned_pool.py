"""Connections of buckets: to checked addresses alone, with the name that was asked for in TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme
from source_origins import HOST, guard_of, serving
from urllib3.exceptions import MaxRetryError

from app.errors import DocumentError
from ingest.addresses import is_public
from ingest.recurring.hosts import SourceHostGuard
from ingest.recurring.pinned_pool import pinned_pool


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.headers["Host"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(tls)
    with serving(Answering, tls=tls) as found:
        yield found


def test_tls_is_for_the_name_that_was_asked(port: int) -> None:
    with pinned_pool(guard_of(lambda _: True)) as pool:
        assert pool.request("GET", f"https://{HOST}:{port}/").data == f"{HOST}:{port}".encode()
    elsewhere = SourceHostGuard(is_allowed=lambda _: True, resolve=lambda *_: ["127.0.0.1"])
    with pinned_pool(elsewhere) as pool, pytest.raises(MaxRetryError, match="certificate"):
        pool.request("GET", f"https://other:{port}/")


def test_a_private_address_is_not_connected_to(port: int) -> None:
    with pinned_pool(guard_of(is_public)) as pool, pytest.raises(DocumentError, match="not on the public internet"):
        pool.request("GET", f"https://{HOST}:{port}/")
