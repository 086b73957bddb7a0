"""`make stack` says what is missing before it does anything, and where to log in at the end.

A program named docker answers as Docker does in each case; what it was asked is in its log.
"""

from __future__ import annotations

import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What the script and `make secrets` call, so that PATH has no Docker of this machine.
PROGRAMS = ("sh", "sed", "head", "sort", "id", "hostname", "make", "mkdir", "chmod", "mv", "od", "tr", "cat", "dirname")
IMAGES = "gircse-search:0.1.0 other/qdrant:1 other/postgres:1"
Stack = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def port() -> int:
    """Free, and nobody else's in a moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    return number


@pytest.fixture
def stack(tmp_path: Path, port: int) -> Stack:
    """Runs the script. `docker` maps beginnings of commands to exit codes, 0 for all others; None: no Docker at all."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None, name
        (programs / name).symlink_to(found)
    (programs / "python3").symlink_to(
        "/usr/bin/python3" if Path("/usr/bin/python3").exists() else shutil.which("python3")
    )

    def run(docker: dict[str, int] | None, **variables: str) -> subprocess.CompletedProcess[str]:
        if docker is not None:
            cases = "".join(f'    "{beginning}"*) exit {code} ;;\n' for beginning, code in docker.items())
            program = programs / "docker"
            program.write_text(
                f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\ncase "$*" in\n{cases}'
                f'    "compose config --images"*) for each in {IMAGES}; do echo $each; done ;;\nesac\n'
            )
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        environment = {
            "PATH": str(programs),
            "GIRCSE_PUBLISH": f"127.0.0.1:{port}",
            "GIRCSE_SECRETS": str(tmp_path / "secrets"),
            "GIRCSE_IMAGE": "mine:1",
            **variables,
        }
        script = ROOT / "scripts/stack.sh"
        return subprocess.run([script], capture_output=True, text=True, env=environment, timeout=60, check=False)

    return run


def asked(folder: Path) -> list[str]:
    return (folder / "asked").read_text().splitlines()


def test_no_docker(stack: Stack) -> None:
    done = stack(None)
    assert done.returncode == 1
    assert done.stderr.startswith("Docker is not installed.\n  Debian, Ubuntu: apt install docker.io.")


def test_no_daemon(stack: Stack, tmp_path: Path) -> None:
    done = stack({"info": 1})
    assert done.returncode == 1
    assert "The Docker daemon does not respond" in done.stderr
    assert "systemctl start docker" in done.stderr
    assert len(asked(tmp_path)) == 1


def test_no_compose_plug_in(stack: Stack, tmp_path: Path) -> None:
    done = stack({"compose version": 1})
    assert done.returncode == 1
    assert "This Docker has no `docker compose`." in done.stderr
    assert len(asked(tmp_path)) == 2


def test_port_is_taken(stack: Stack, port: int, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        done = stack({})
    assert done.returncode == 1
    assert done.stderr.startswith(f"Web cannot listen on 127.0.0.1:{port}: Address already in use\n")
    assert "GIRCSE_PUBLISH=" in done.stderr
    assert not any(each.startswith("compose up") for each in asked(tmp_path))


def test_image_of_others_cannot_be_had(stack: Stack, tmp_path: Path) -> None:
    done = stack({"image inspect other/": 1, "pull": 1})
    assert done.returncode == 1
    assert done.stderr.startswith("Cannot find or pull the image other/postgres:1.\n")
    assert "POSTGRES_IMAGE" in done.stderr
    assert not (tmp_path / "secrets").exists()


def test_no_base_image(stack: Stack) -> None:
    done = stack({"image inspect python": 1, "image inspect localhost/": 1, "pull": 1}, GIRCSE_IMAGE="")
    assert done.returncode == 1
    assert "debootstrap" in done.stderr


def test_image_is_built_on_the_base_that_was_named(stack: Stack, tmp_path: Path) -> None:
    done = stack({}, GIRCSE_IMAGE="", BASE="team/base:1", IMAGE_ARGS="--network host")
    assert done.returncode == 0, done.stderr
    [build] = [each for each in asked(tmp_path) if each.startswith("build ")]
    assert "--build-arg BASE=team/base:1" in build
    assert "--tag gircse-search:0.1.0 --network host ." in build


def test_everything_is_started_and_the_login_is_named(stack: Stack, port: int, tmp_path: Path) -> None:
    done = stack({})
    assert done.returncode == 0, done.stderr
    assert asked(tmp_path)[-1] == "compose up --detach --wait --wait-timeout 600"
    assert not any(each.startswith("build ") for each in asked(tmp_path))  # GIRCSE_IMAGE is one
    assert f"Open http://127.0.0.1:{port} and log in as admin." in done.stdout
    assert f"cat {tmp_path}/secrets/admin_secret" in done.stdout
    assert (tmp_path / "secrets/admin_secret").read_text() not in done.stdout


def test_a_service_that_does_not_become_healthy_is_shown(stack: Stack, tmp_path: Path) -> None:
    done = stack({"compose up": 1}, WAIT_S="7")
    assert done.returncode == 1
    assert "Some services were not healthy within 7 s." in done.stderr
    assert asked(tmp_path)[-2:] == ["compose ps --all", "compose logs --tail 20"]
