"""Digests of images are asked of their registry, and a release without them is refused."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from served import in_thread

from scripts import pin_images
from scripts.pin_images import Image

INDEX = b'{"schemaVersion": 2, "manifests": []}'
DIGEST = f"sha256:{hashlib.sha256(INDEX).hexdigest()}"
OLD = f"sha256:{'0' * 64}"


class Registry(BaseHTTPRequestHandler):
    """Gives a token to anybody, and an index to those who show it. Its own word on the digest is wrong."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        here = f"http://{self.headers['Host']}"
        if url.path == "/token":
            assert parse_qs(url.query) == {"service": ["here"], "scope": ["repository:team/app:pull"]}
            self._answer(200, b'{"token": "of-anybody"}')
        elif url.path != "/v2/team/app/manifests/1.2-slim":
            self._answer(404, b"{}")
        elif self.headers["Authorization"] != "Bearer of-anybody":
            challenge = f'Bearer realm="{here}/token",service="here",scope="repository:team/app:pull"'
            self._answer(401, b"{}", **{"WWW-Authenticate": challenge})
        else:
            assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
            self._answer(200, INDEX, **{"Docker-Content-Digest": OLD})

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    with in_thread(server):
        yield f"127.0.0.1:{server.server_port}"


def root_of(folder: Path, image: str) -> Path:
    (folder / "Dockerfile").write_text(f"# A base.\nARG BASE={image}\nFROM ${{BASE}}\nARG VERSION=0.1.0\n")
    (folder / "docker-compose.yml").write_text(
        f"services:\n  web:\n    image: ${{GIRCSE_IMAGE:-ours:0.1}}\n  base:\n    image: {image}\n    user: 1:1\n"
    )
    (folder / ".github" / "workflows").mkdir(parents=True, exist_ok=True)
    (folder / ".github" / "workflows" / "ci.yml").write_text(
        f"jobs:\n  tests:\n    services:\n      one:\n        image: {image}\n"
    )
    return folder


@pytest.mark.parametrize("before", ["", f"@{OLD}"])
def test_digests_are_written_beside_their_tags(registry: str, tmp_path: Path, before: str) -> None:
    image = f"{registry}/team/app:1.2-slim"
    root = root_of(tmp_path, image + before)
    assert pin_images.main(root=root) == 0
    for name in pin_images.FILES:
        assert f"{image}@{DIGEST}\n" in (root / name).read_text()
        assert (root / name).read_text().count("sha256") == 1
    assert pin_images.main("--check", root=root) == 0


@pytest.mark.parametrize("before", ["", f"@{OLD}"])
def test_digest_is_written_into_the_default_of_a_variable(registry: str, tmp_path: Path, before: str) -> None:
    image = f"{registry}/team/app:1.2-slim"
    root = root_of(tmp_path, image)
    compose = root / "docker-compose.yml"
    compose.write_text(f"services:\n  other:\n    image: ${{OTHER_IMAGE:-{image}{before}}}\n    user: 1:1\n")
    assert pin_images.main(root=root) == 0
    assert f"    image: ${{OTHER_IMAGE:-{image}@{DIGEST}}}\n    user" in compose.read_text()
    assert pin_images.main("--check", root=root) == 0


def test_a_tag_that_is_not_there_changes_nothing(
    registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = root_of(tmp_path, f"{registry}/team/app:9")
    before = (root / "Dockerfile").read_text()
    assert pin_images.main(root=root) == 1
    assert (root / "Dockerfile").read_text() == before
    assert "404" in capsys.readouterr().out


def test_every_image_of_this_repository_has_a_digest() -> None:
    texts = [(pin_images.ROOT / name).read_text(encoding="utf-8") for name in pin_images.FILES]
    found = [(image.name, digest) for text in texts for image, digest in pin_images.images_in(text)]
    assert {name for name, _ in found} == {"python", "postgres", "qdrant/qdrant"}
    assert [name for name, digest in found if not digest] == []


def test_a_release_needs_digests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = root_of(tmp_path, "postgres:17.6")
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "--quiet", "-m", "a"],
    ):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    assert pin_images.main("--release", root=root) == 0
    subprocess.run(["git", "-C", str(root), "tag", "v1.2.0"], check=True)
    assert pin_images.main("--release", root=root) == 1
    assert "postgres:17.6 HAS NO DIGEST" in capsys.readouterr().out
    root_of(root, f"postgres:17.6@{OLD}")
    assert pin_images.main("--release", root=root) == 0


@pytest.mark.parametrize(
    ("name", "registry", "repository"),
    [
        ("postgres", "registry-1.docker.io", "library/postgres"),
        ("qdrant/qdrant", "registry-1.docker.io", "qdrant/qdrant"),
        ("ghcr.io/a/b", "ghcr.io", "a/b"),
        ("localhost:5000/a", "localhost:5000", "a"),
    ],
)
def test_where_an_image_is(name: str, registry: str, repository: str) -> None:
    assert (Image(name, "1").registry, Image(name, "1").repository) == (registry, repository)


def test_all_images_of_others_are_found() -> None:
    texts = [(pin_images.ROOT / name).read_text() for name in pin_images.FILES]
    assert {image.name for text in texts for image, _ in pin_images.images_in(text)} == {
        "python",
        "qdrant/qdrant",
        "postgres",
    }
