"""What an untrusted client may try over HTTP: other machines, other files, bombs, forged headers and log lines."""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from api_application import api_of
from fastapi.testclient import TestClient

from app.documents.fetching import BackgroundFetching
from app.types.documents import Source
from app.wiring.sources import url_reader
from ingest.urls import UrlReader

SECRET = "marzipan-4711"
CONTROLS = ["\r\n", "\n", "\x1b[2K", "\x85", "\u2028"]
FORGED = "2026-01-01 00:00:00 ERROR app: forged"


@pytest.fixture
def client(toy_services: Any) -> Iterator[TestClient]:
    with client_of(toy_services) as client:
        yield client


@pytest.fixture(scope="module")
def lasting_client(lasting_services: Any) -> Iterator[TestClient]:
    """For what is refused."""
    with client_of(lasting_services) as client:
        yield client


@contextmanager
def client_of(application: Any) -> Iterator[TestClient]:
    application.add("The cat sleeps on the sofa.")
    services = application.services
    read_url = url_reader(services.settings).read
    with closing(BackgroundFetching(services.catalog, services.library, read_url=read_url)) as fetching:
        api = api_of(services, read_url=read_url, fetching=fetching, max_body_bytes=200_000)
        yield TestClient(api, raise_server_exceptions=False)


@pytest.fixture
def inner_port() -> Iterator[int]:
    """A service of this machine that answers every request with a secret, and counts the requests."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        stop = threading.Event()
        came: list[bytes] = []

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    came.append(connection.recv(1000))
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + SECRET.encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        stop.set()
        thread.join(5)
        assert came == []


ADDRESSES = [
    "http://127.0.0.1:{port}/",
    "http://localhost:{port}/",
    "http://[::1]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://0x7f000001:{port}/",
    "http://2130706433:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://127.1:{port}/",
    "http://0.0.0.0:{port}/",
    "http://127.0.0.1:{port}\\@example.org/",
    "http://example.org@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@example.org/",
    "http://169.254.169.254/latest/meta-data/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_x",
]


def test_no_address_leads_to_this_machine_or_its_network(
    client: TestClient, toy_services: Any, inner_port: int
) -> None:
    path = "/api/v1/collections/library/fetches"
    for address in ADDRESSES:
        url = address.format(port=inner_port)
        answer = client.post("/api/v1/documents", json={"url": url})
        assert answer.status_code == 422, url
        assert client.post(path, json={"urls": [url]}).status_code in (202, 422), url
        assert SECRET not in answer.text
    while any(each["state"] != "failed" for each in client.get(path).json()):
        threading.Event().wait(0.01)
    assert SECRET not in client.get(path).text
    assert len(toy_services.services.catalog.documents()) == 1


def test_redirect_to_this_machine_is_not_followed(toy_services: Any, inner_port: int) -> None:
    """The first hop is let through by name; the second one is checked as the first was."""

    async def resolve(host: str, _: int) -> list[str]:
        return ["127.0.0.2"] if host == "docs.example" else ["127.0.0.1"]

    with socket.create_server(("127.0.0.2", 0)) as outer:

        def redirect() -> None:
            connection, _ = outer.accept()
            with connection:
                connection.recv(1000)
                target = f"Location: http://inner.example:{inner_port}/\r\n"
                connection.sendall(f"HTTP/1.1 302 Found\r\n{target}Content-Length: 0\r\n\r\n".encode())

        thread = threading.Thread(target=redirect, daemon=True)
        thread.start()
        reader = UrlReader(resolve=resolve, is_allowed=lambda address: address == "127.0.0.2")
        client = TestClient(api_of(toy_services.services, read_url=reader.read))
        url = f"http://docs.example:{outer.getsockname()[1]}/"
        answer = client.post("/api/v1/documents", json={"url": url})
        thread.join(5)
    assert answer.status_code == 422
    assert "inner.example" in answer.json()["detail"]
    assert SECRET not in answer.text


def files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


TRAVERSALS = ["../../escaped.txt", "..\\..\\escaped.txt", "/tmp/escaped.txt", "..%2f..%2fescaped.txt", "a\x00/../b.txt"]


@pytest.mark.parametrize("name", TRAVERSALS)
def test_names_of_files_lead_nowhere(client: TestClient, toy_services: Any, tmp_path: Path, name: str) -> None:
    outside = {path for path in files_below(tmp_path) if path.parts[0] != "files"}
    answer = client.post("/api/v1/documents", files={"file": (name, SECRET.encode())}, data={"uri": f"file:///{name}"})
    if answer.status_code == 202:
        shown = client.get(f"/api/v1/documents/{answer.json()['document']['id']}/content")
        assert shown.text == SECRET
        assert "/" not in shown.headers["content-disposition"].split("filename")[-1].replace("''", "")
    new = {path for path in files_below(tmp_path) if path.parts[0] != "files"} - outside
    assert {path.name.partition("-")[0] for path in new} <= {"catalog_test.db"}
    assert not (tmp_path.parent / "escaped.txt").exists()


@pytest.mark.parametrize(
    "place", ["../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "a%00b"]
)
def test_paths_lead_nowhere(lasting_client: TestClient, place: str) -> None:
    for path in (f"/api/v1/documents/{place}", f"/api/v1/documents/{place}/content", f"/api/v1/collections/{place}"):
        answer = lasting_client.get(path)
        assert answer.status_code in (404, 405)
        assert "root:" not in answer.text
    for name in (place, f"a/{place}"):
        assert lasting_client.post("/api/v1/collections", json={"name": name}).status_code == 422


def test_document_that_calls_itself_a_file_of_the_server_is_not_read_from_there(
    client: TestClient, toy_services: Any
) -> None:
    posted = client.post("/api/v1/documents", json={"text": "harmless", "uri": "file:///etc/hostname"}).json()
    toy_services.work_off()
    assert client.get(f"/api/v1/documents/{posted['document']['id']}/content").text == "harmless"
    assert client.get(f"/api/v1/documents/{posted['document']['id']}/text").json()["text"] == "harmless"


def zip_bomb() -> bytes:
    """An archive of 300 KB that unpacks to more than a document may be."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.txt", "w") as member:
        for _ in range(260):
            member.write(b"bomb " * 209_715)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "told"),
    [("bomb.zip", "MB"), ("entities.xml", "entities"), ("laughs.xml", "entities")],
)
def test_bombs_and_entities_fail_alone(toy_services: Any, tmp_path: Path, name: str, told: str) -> None:
    toy_services.add("The cat sleeps on the sofa.")
    (tmp_path / "secret.txt").write_text(SECRET)
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    content = {
        "bomb.zip": zip_bomb,
        "entities.xml": lambda: f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{tmp_path}/secret.txt">]><a>&x;</a>'.encode(),
        "laughs.xml": lambda: f'<!DOCTYPE a [<!ENTITY l0 "ha">{laughs}]><a>&l9;</a>'.encode(),
    }[name]()
    client = TestClient(api_of(toy_services.services))  # with the limit of a real server
    posted = client.post("/api/v1/documents", files={"file": (name, content)})
    assert posted.status_code == 202
    toy_services.work_off()
    document = client.get(f"/api/v1/documents/{posted.json()['document']['id']}").json()
    assert document["state"] == "failed"
    assert told in document["error"]
    assert SECRET not in json.dumps(document)
    assert client.post("/api/v1/search", json={"query": "cat"}).json()["hits"]


BODIES = {
    "/api/v1/search": "query",
    "/api/v1/refine": "text",
    "/api/v1/documents": "text",
    "/api/v1/collections": "document_instruction",
    "/api/v1/lenses": "note",
    "/api/v1/judgements": "query",
    "/api/v1/evaluations": "collection",
    "/api/v1/collections/library/fetches": "urls",
}


@pytest.mark.parametrize("is_chunked", [False, True], ids=["declared", "chunked"])
def test_oversized_bodies_are_refused_everywhere(lasting_client: TestClient, is_chunked: bool) -> None:
    for path, field in BODIES.items():
        body = json.dumps({field: "x" * 300_000}).encode()
        content: Any = iter([body[:100_000], body[100_000:]]) if is_chunked else body
        answer = lasting_client.post(path, content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 413, path
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"a":' * 30_000, b'{"query": ' + b"9" * 100_000 + b"}", b'{"query": 1e999999}'],
    ids=["lists", "objects", "digits", "exponent"],
)
def test_deep_and_huge_values_are_refused(lasting_client: TestClient, body: bytes) -> None:
    for path in BODIES:
        answer = lasting_client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422), path
        assert answer.headers["content-type"] == "application/problem+json"
        assert len(answer.content) < 10_000


@pytest.mark.parametrize("control", CONTROLS)
def test_no_header_is_split_by_an_untrusted_name(client: TestClient, toy_services: Any, control: str) -> None:
    name = f"a{control}Set-Cookie: x=1{control}{control}<script>.txt"
    posted = client.post("/api/v1/documents", json={"text": "A text.", "uri": f"upload://{name}", "title": name})
    assert posted.status_code == 202
    toy_services.work_off()
    shown = client.get(f"/api/v1/documents/{posted.json()['document']['id']}/content")
    assert shown.status_code == 200
    assert "set-cookie" not in shown.headers
    listed = client.get("/api/v1/documents", params={"collection": f"b{control}Set-Cookie: x=1", "limit": 1})
    assert "set-cookie" not in listed.headers
    found = client.get("/api/v1/documents", params={"collection": "library", "text": "t", "limit": 1})
    assert found.headers["link"].isprintable()


@pytest.mark.parametrize("control", CONTROLS)
def test_no_log_line_is_forged(toy_services: Any, caplog: pytest.LogCaptureFixture, control: str) -> None:
    """Whatever formats the records: what ours say holds none of these characters as they are."""
    toy_services.add("The cat sleeps on the sofa.")
    caplog.set_level(logging.DEBUG)
    forged = f"x{control}{FORGED}"

    def fail(url: str) -> Source:
        raise RuntimeError("no route")

    with closing(
        BackgroundFetching(toy_services.services.catalog, toy_services.services.library, read_url=fail)
    ) as fetching:
        api = api_of(toy_services.services, fetching=fetching)
        client = TestClient(api, raise_server_exceptions=False)
        client.post("/api/v1/search", json={"query": forged, "collection": forged, "instruction": forged})
        client.post("/api/v1/collections", json={"name": forged})
        client.get(f"/api/v1/documents/{quote(forged)}")
        client.post("/api/v1/documents", files={"file": (f"{forged}.pdf", b"%PDF-1.7 broken")}, data={"title": forged})
        client.post("/api/v1/documents", json={"text": " ", "uri": forged, "title": forged})
        client.post("/api/v1/collections/library/fetches", json={"urls": [f"https://{forged}/"]})
        toy_services.work_off()
        while any(each["state"] != "failed" for each in client.get("/api/v1/collections/library/fetches").json()):
            threading.Event().wait(0.01)
        toy_services.services.library.index_status = lambda name: 1 / 0
        toy_services.services.catalog.collections()
        assert client.get(f"/api/v1/collections/{quote(forged)}/index").status_code in (404, 500)
    ours = [each for each in caplog.records if each.name.startswith(("app", "ingest"))]
    assert any("forged" in each.getMessage() or "Fetching" in each.getMessage() for each in ours)
    assert not [each.getMessage() for each in ours if control in each.getMessage()]
