"""docker-compose.yml under Docker, in a project of its own: its name, port and secrets are no other stack's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
HEALTHY_S = 600
SEARCHES_AT_ONCE = 4
_PAUSE_TRIES = 10
_LIMIT = re.compile(r"GIRCSE_[A-Z]+_(CPUS|MEMORY)")
# Everything else of the environment could name another stack.
_INHERITED = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")


class StackError(Exception):
    """A command of Docker failed, or a state was not reached in time."""


def reason_to_skip() -> str:
    """Empty where Docker can run the stack."""
    if shutil.which("docker") is None:
        return "Docker is not installed"
    if said := _refusal("docker", "info"):
        return f"the Docker daemon does not answer: {said}"
    if _refusal("docker", "compose", "version"):
        return "Docker has no Compose plug-in"
    return ""


def _refusal(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1] if done.returncode else ""


def docker(*arguments: str, timeout_s: float = 900, environment: dict[str, str] | None = None) -> str:
    """The standard output of a command of Docker; StackError with what it said if it fails."""
    command = ["docker", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=ROOT, env=environment
    )
    if done.returncode != 0:
        raise StackError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


@dataclass(frozen=True)
class Images:
    """What GIRCSE_IMAGE, QDRANT_IMAGE and POSTGRES_IMAGE are set to, and which of them stand in for others."""

    gircse: str
    qdrant: str
    postgres: str
    stand_ins: tuple[str, ...] = ()


class ComposeStack:
    """`profiles` as in COMPOSE_PROFILES. Nothing runs before `up`."""

    def __init__(self, folder: Path, *, images: Images, profiles: str, port: int) -> None:
        self.project = f"gircse-stack-test-{os.getpid()}"
        self.profiles = profiles
        self.images = images
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self._secrets = folder / "secrets"
        self._port = port
        subprocess.run([str(ROOT / "scripts/make_secrets.sh"), str(self._secrets)], check=True, capture_output=True)

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if name in _INHERITED or _LIMIT.fullmatch(name)},
            "COMPOSE_PROJECT_NAME": self.project,
            # So that admission refuses nothing while searches end in time, on few cores, too.
            "GIRCSE_SEARCHES_AT_ONCE": str(SEARCHES_AT_ONCE),
            "COMPOSE_PROFILES": self.profiles,
            "GIRCSE_SECRETS": str(self._secrets),
            "GIRCSE_PUBLISH": f"127.0.0.1:{self._port}",
            "GIRCSE_IMAGE": self.images.gircse,
            "QDRANT_IMAGE": self.images.qdrant,
            "POSTGRES_IMAGE": self.images.postgres,
        }

    def compose(self, *arguments: str, timeout_s: float = 900) -> str:
        return docker("compose", *arguments, timeout_s=timeout_s, environment=self._environment())

    def up(self, *services: str, scale: str = "") -> None:
        """Starts services, all by default, and returns when they are healthy."""
        more = ["--scale", scale] if scale else []
        wait = ["--wait", "--wait-timeout", str(HEALTHY_S)]
        self.compose("up", "--detach", "--no-build", *wait, *more, *services, timeout_s=2 * HEALTHY_S)

    def down(self, *, volumes: bool = False) -> None:
        self.compose("down", "--remove-orphans", "--timeout", "10", *(["--volumes"] if volumes else []))

    def services(self) -> list[str]:
        return sorted(self.compose("config", "--services").split())

    def secret(self, name: str) -> str:
        return (self._secrets / name).read_text("ascii")

    def client(self, timeout_s: float = 90) -> httpx.Client:
        """Asks web as its administrator."""
        shown = {"authorization": f"Bearer {self.secret('admin_secret')}"}
        return httpx.Client(base_url=self.url, headers=shown, timeout=timeout_s, trust_env=False)

    def container(self, service: str) -> str:
        """The id of its first container, running or not."""
        found = self.compose("ps", "--all", "--quiet", service).split()
        if not found:
            raise StackError(f"{service} has no container")
        return found[0]

    @contextmanager
    def killed(self, service: str) -> Iterator[None]:
        """SIGKILL at the beginning, a start at the end."""
        container = self.container(service)
        docker("kill", container)
        try:
            yield
        finally:
            docker("start", container)

    @contextmanager
    def paused(self, service: str) -> Iterator[None]:
        """Its connections stay open, and nothing answers."""
        container = self.container(service)
        _pause(container)
        try:
            yield
        finally:
            docker("unpause", container)

    @contextmanager
    def cut_off(self, service: str) -> Iterator[None]:
        """Off the inner network, so that packets to it go nowhere."""
        container = self.container(service)
        network = f"{self.project}_inside"
        [described] = json.loads(docker("inspect", container))
        aliases = described["NetworkSettings"]["Networks"][network]["Aliases"]
        docker("network", "disconnect", network, container)
        try:
            yield
        finally:
            named = [option for alias in aliases for option in ("--alias", alias)]
            docker("network", "connect", *named, network, container)

    def wait_healthy(self, service: str) -> None:
        for container in self.compose("ps", "--quiet", service).split():
            wait_until(partial(_is_healthy, container), what=f"{service} healthy", poll_s=0.5)

    def remains(self) -> list[str]:
        """Containers, volumes and networks of the project that are still there."""
        label = f"label=com.docker.compose.project={self.project}"
        kinds = (("ps", "--all"), ("volume", "ls"), ("network", "ls"))
        return [each for kind in kinds for each in docker(*kind, "--quiet", "--filter", label).split()]

    def remove(self) -> None:
        """Everything of the project, whatever its state."""
        label = f"label=com.docker.compose.project={self.project}"
        for container in docker("ps", "--quiet", "--filter", label, "--filter", "status=paused").split():
            docker("unpause", container)
        self.down(volumes=True)


def _pause(container: str) -> None:
    """With cgroup v1 the kernel may not freeze a busy container at the first try."""
    for left in reversed(range(_PAUSE_TRIES)):
        try:
            docker("pause", container)
        except StackError:
            if not left:
                raise
            time.sleep(0.2)
        else:
            return


def _is_healthy(container: str) -> bool:
    return docker("inspect", "--format", "{{.State.Health.Status}}", container).strip() == "healthy"


def wait_until(is_so: Callable[[], object], *, what: str, limit_s: float = HEALTHY_S, poll_s: float = 1) -> float:
    """Seconds that it took; StackError when `limit_s` have passed."""
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() - begun > limit_s:
            raise StackError(f"not within {limit_s:.0f} s: {what}")
        time.sleep(poll_s)
    return time.monotonic() - begun
