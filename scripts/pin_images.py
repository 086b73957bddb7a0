"""Writes the digest of each image of others beside its tag, in Dockerfile, compose file and the workflow of public CI:
`scripts/pin_images.py`.

Asks the registry of each image for what its tag is now, and computes the digest of the answer itself. `--check` asks
nobody: it names the images without a digest and ends with 1 where there are any; `--release` does so where this commit
has the tag of a version.
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
# A base image, and the image of a service, alone or as the default of a variable. Images built here have a variable
# that begins with GIRCSE_.
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
    """With the digest, if one stands there."""
    for found in _IMAGE.finditer(text):
        name, _, tag = found["image"].rpartition(":")
        yield Image(name, tag), (found["digest"] or "").removeprefix("@")


def digest_of(image: Image) -> str:
    """Of the index of all platforms, where there is one."""
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
    """For anybody: `Bearer realm="…",service="…",scope="…"`."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = asked.pop("realm")
    answer = json.loads(_get(f"{realm}?{urllib.parse.urlencode(asked)}", {}))
    return str(answer.get("token") or answer["access_token"])


def _get(url: str, headers: dict[str, str]) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_S) as answer:
        return bytes(answer.read())


def pin(text: str) -> str:
    """With the digest that each tag has now."""

    def pinned(found: re.Match[str]) -> str:
        name, _, tag = found["image"].rpartition(":")
        before = found[0].removesuffix((found["digest"] or "") + found["end"])
        return f"{before}@{digest_of(Image(name, tag))}{found['end']}"

    return _IMAGE.sub(pinned, text)


def is_release(root: Path) -> bool:
    """Whether this commit has the tag of a version."""
    command = ["git", "-C", str(root), "describe", "--exact-match", "--tags", "--match", "v[0-9]*", "HEAD"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def main(*options: str, root: Path = ROOT) -> int:
    texts = {name: (root / name).read_text("utf-8") for name in FILES}
    if "--release" in options and not is_release(root):
        print("This commit is no release: tags of images may do.")
        return 0
    if not {"--check", "--release"} & set(options):
        try:
            texts = {name: pin(text) for name, text in texts.items()}
        except OSError as error:
            print(f"A registry does not answer ({error}): nothing is written.")
            return 1
        for name, text in texts.items():
            (root / name).write_text(text, "utf-8")
    found = [(name, *each) for name, text in texts.items() for each in images_in(text)]
    for name, image, digest in found:
        print(f"{name}: {image.name}:{image.tag} {digest or 'HAS NO DIGEST: make digests'}")
    return 0 if all(digest for _, _, digest in found) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
