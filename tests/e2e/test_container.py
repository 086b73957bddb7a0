"""The image that `make image` builds, really run: no network, a read-only root file system, an ordinary user.

IMAGE and PODMAN are those of the Makefile (`podman` or `docker`); PODMAN_RUN_ARGS are further options of its `run`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import pytest
from patience import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PODMAN = shlex.split(os.environ.get("PODMAN") or "podman")
IMAGE = os.environ.get("IMAGE") or "localhost/gircse-search"
RUN_ARGS = shlex.split(os.environ.get("PODMAN_RUN_ARGS") or "")
PLANTED = json.loads(files("sample").joinpath("planted.json").read_text("utf-8"))[0]


def podman(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PODMAN, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)


@dataclass(frozen=True)
class Container:
    name: str

    def exec(self, *command: str) -> subprocess.CompletedProcess[str]:
        return podman("exec", self.name, *command)

    def ask(self, path: str) -> object:
        program = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:7860{path}').read().decode())"
        answer = self.exec("python", "-c", program)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    if shutil.which(PODMAN[0]) is None:
        pytest.skip(f"{PODMAN[0]} is not installed")
    if podman("image", "inspect", IMAGE).returncode != 0:
        pytest.skip(f"there is no image {IMAGE}: make image")
    name = f"gircse-test-{uuid.uuid4().hex[:8]}"
    options = ["--detach", "--name", name, "--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"]
    options += ["--security-opt", "no-new-privileges", *RUN_ARGS]
    started = podman("run", *options, IMAGE, "gircse", "up", "--sample")
    assert started.returncode == 0, started.stderr
    try:
        yield Container(name)
    finally:
        podman("stop", "-t", "10", name)
        podman("rm", "--force", "--volumes", name)


def test_sample_search_runs_without_a_network(container: Container) -> None:
    def has_jobs() -> bool:
        states = ("queued", "running")
        return any(container.ask(f"/api/v1/jobs?collection=sample&state={each}&limit=1") for each in states)

    def log() -> str:
        return podman("logs", container.name).stderr

    wait_until(lambda: container.exec("gircse-is-well").returncode == 0, told=log, every_s=1)
    wait_until(lambda: not has_jobs(), told=lambda: "the sample library was not ingested", every_s=1)
    for view in PLANTED["views"]:
        options = ("--instruction", view["instruction"], "--collection", "sample", "--limit", "20", "--json")
        searched = container.exec("gircse", "search", PLANTED["query"], *options)
        assert searched.returncode == 0, searched.stderr
        documents = {hit["document"]["uri"]: hit["document"] for hit in json.loads(searched.stdout)["hits"]}
        labels = [document["metadata"].get(view["aspect"]) for document in list(documents.values())[:5]]
        print(view["instruction"], *(document["title"] for document in list(documents.values())[:5]), sep="\n  ")
        assert labels.count(view["label"]) >= 3, (view, labels)


def test_container_is_an_ordinary_user_who_can_write_only_where_data_belong(container: Container) -> None:
    assert container.exec("id", "-u").stdout.strip() == "10001"
    for folder in ("/", "/opt/gircse", "/usr/local/bin", "/etc"):
        assert container.exec("touch", f"{folder}/mark").returncode != 0, folder
    for folder in ("/data", "/tmp"):
        assert container.exec("touch", f"{folder}/mark").returncode == 0, folder


def test_container_sees_no_network(container: Container) -> None:
    interfaces = container.exec("cat", "/proc/net/dev").stdout.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]
    reach = container.exec("python", "-c", "import socket; socket.create_connection(('192.0.2.1', 80), timeout=3)")
    assert "unreachable" in reach.stderr


def test_nothing_is_installed_that_installs(container: Container) -> None:
    assert container.exec("/opt/gircse/bin/python", "-c", "import pip").returncode != 0
