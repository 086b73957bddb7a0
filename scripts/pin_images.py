"""Pins third-party images by digest in Dockerfile, compose file and the workflow of public CI: `scripts/pin_images.py`.

Asks each image's registry for the manifest of its tag, and computes the digest itself. `--check` needs no network: it
lists images without a digest and exits with 1 if there are any; `--release` does the same only if this commit has a
version tag.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("Dockerfile", "docker-compose.yml", ".github/workflows/ci.yml")
# Matches base images and images of services, literal or as a variable's default. Variables of our own images begin with
# GIRCSE_.
_IMAGE = re.compile(
    r"^(?:ARG BASE=|\s+image: (?:\$\{(?!GIRCSE_)\w+:-)?)"
    r"(?P<image>[a-z0-9][^\s@]*:[^\s@:/}]+)(?P<digest>@sha256:[0-9a-f]{64})?(?P<end>\}?)$",
    re.MULTILINE,
)
_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_TIMEOUT_S = 30
DOCKER_HUB = "registry-1.docker.io"


@dataclass(frozen=True)
class Image:
    """`name` as written, without its tag."""

    name: str
    tag: str

    @property
    def registry(self) -> str:
        host, slash, _ = self.name.partition("/")
        return host if slash and ("." in host or ":" in host) else DOCKER_HUB

    @property
    def repository(self) -> str:
        name = self.name.removeprefix(f"{self.registry}/")
        is_short = self.registry == DOCKER_HUB and "/" not in name
        return f"library/{name}" if is_short else name


def images_in(text: str) -> Iterator[tuple[Image, str]]:
    """Images with their digests ("" without one)."""
    for match in _IMAGE.finditer(text):
        name, _, tag = match["image"].rpartition(":")
        yield Image(name, tag), (match["digest"] or "").removeprefix("@")


def digest_of(image: Image) -> str:
    """The digest of the multi-platform index, if there is one."""
    scheme = "http" if image.registry.startswith("127.0.0.1:") else "https"
    url = f"{scheme}://{image.registry}/v2/{image.repository}/manifests/{image.tag}"
    headers = {"Accept": ", ".join(_TYPES)}
    try:
        body = _get(url, headers)
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
        body = _get(url, {**headers, "Authorization": f"Bearer {_token(error.headers['WWW-Authenticate'] or '')}"})
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _token(challenge: str) -> str:
    """An anonymous token; the challenge is `Bearer realm="…",service="…",scope="…"`."""
    parameters = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = parameters.pop("realm")
    answer = json.loads(_get(f"{realm}?{urllib.parse.urlencode(parameters)}", {}))
    return str(answer.get("token") or answer["access_token"])


def _get(url: str, headers: dict[str, str]) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_S) as answer:
        return bytes(answer.read())


def pin(text: str) -> str:
    """The text with the current digest of each tag."""

    def pinned(match: re.Match[str]) -> str:
        name, _, tag = match["image"].rpartition(":")
        before = match[0].removesuffix((match["digest"] or "") + match["end"])
        return f"{before}@{digest_of(Image(name, tag))}{match['end']}"

    return _IMAGE.sub(pinned, text)


def is_release(root: Path) -> bool:
    """True if this commit has a version tag."""
    command = ["git", "-C", str(root), "describe", "--exact-match", "--tags", "--match", "v[0-9]*", "HEAD"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def main(*options: str, root: Path = ROOT) -> int:
    texts = {name: (root / name).read_text("utf-8") for name in FILES}
    if "--release" in options and not is_release(root):
        print("This commit is no release: images need no digests.")
        return 0
    if not {"--check", "--release"} & set(options):
        try:
            texts = {name: pin(text) for name, text in texts.items()}
        except OSError as error:
            print(f"A registry does not respond ({error}): wrote nothing.")
            return 1
        for name, text in texts.items():
            (root / name).write_text(text, "utf-8")
    images = [(name, *pinned) for name, text in texts.items() for pinned in images_in(text)]
    for name, image, digest in images:
        print(f"{name}: {image.name}:{image.tag} {digest or 'HAS NO DIGEST: make digests'}")
    return 0 if all(digest for _, _, digest in images) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
