"""What the image and the compose file promise, read from the files themselves."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from patience import PATIENCE_S

from app.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
SECRET_WORDS = re.compile(r"PASSWORD|SECRET|TOKEN|API_KEY", re.IGNORECASE)


SELF_HOST = (ROOT / "docs/how-to/self-host.md").read_text("utf-8")


def default_of(value: str) -> str:
    """`${NAME:-default}` as compose reads it without the variable."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def run(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **options)


def known_variables() -> set[str]:
    names = {f"GIRCSE_{name.upper()}" for name in Settings.model_fields}
    return names | {f"{name}_FILE" for name in names}


def test_compose_file_fits_the_specification() -> None:
    program = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("check-jsonschema is not installed (extra dev)")
    checked = run(program, "--builtin-schema", "vendor.compose-spec", str(ROOT / "docker-compose.yml"))
    assert checked.returncode == 0, checked.stdout


def test_dockerfile_is_linted() -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("hadolint is not installed (extra dev)")
    checked = run(program, str(ROOT / "Dockerfile"))
    assert checked.returncode == 0, checked.stdout


@every_service
def test_every_setting_is_known(service: dict[str, Any]) -> None:
    given = {name for name in service.get("environment", {}) if name.startswith("GIRCSE_")}
    assert given <= known_variables()


@every_service
def test_no_secret_stands_in_the_file(service: dict[str, Any]) -> None:
    for name, value in service.get("environment", {}).items():
        if SECRET_WORDS.search(name):
            assert str(value).startswith("/run/secrets/"), name
            assert str(value).removeprefix("/run/secrets/") in service["secrets"], name


def test_every_service_has_the_secrets_that_it_uses_and_no_other() -> None:
    for name, service in SERVICES.items():
        used = set(re.findall(r"/run/secrets/(\w+)", str(service)))
        assert set(service["secrets"]) == used, name
    assert [name for name, service in SERVICES.items() if "admin_secret" in service["secrets"]] == ["web"]


def test_every_secret_is_made_by_the_script(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    made = run(str(ROOT / "scripts/make_secrets.sh"), str(folder))
    assert made.returncode == 0, made.stderr
    files = {path.name: path for path in folder.iterdir()}
    assert set(files) == set(COMPOSE["secrets"])
    assert {default_of(each["file"]) for each in COMPOSE["secrets"].values()} == {f"./secrets/{name}" for name in files}
    values = {name: path.read_text("ascii") for name, path in files.items()}
    assert len(set(values.values())) == len(values)
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in values.values())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o444}
    assert not any(value in made.stdout for value in values.values())

    run(str(ROOT / "scripts/make_secrets.sh"), str(folder))
    assert {name: path.read_text("ascii") for name, path in files.items()} == values  # kept


@every_service
def test_every_service_is_confined_limited_and_asked_for_its_health(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    limits = service["deploy"]["resources"]["limits"]
    assert set(limits) == {"cpus", "memory", "pids"}
    assert limits["pids"] == 512
    assert re.fullmatch(r"[1-9]\d*g", default_of(limits["memory"]))
    assert service["healthcheck"]["test"][0] == "CMD"
    assert "network_mode" not in service
    assert "inside" in service["networks"]


@every_service
def test_no_service_needs_more_than_one_core(service: dict[str, Any]) -> None:
    """Docker refuses to start a container whose limit is above the cores of the machine; 0 is no limit."""
    resources = service["deploy"]["resources"]
    wanted = [resources["limits"]["cpus"], resources.get("reservations", {}).get("cpus", "0")]
    wanted += [service.get(name, "0") for name in ("cpus", "cpu_count")]
    assert all(float(default_of(str(each))) <= 1 for each in wanted), wanted
    assert "cpuset" not in service


@every_service
def test_limits_of_a_service_are_variables(service: dict[str, Any]) -> None:
    limits = service["deploy"]["resources"]["limits"]
    for kind in ("cpus", "memory"):
        name = re.fullmatch(r"\$\{(GIRCSE_[A-Z]+_" + kind.upper() + r"):-[^}]+\}", limits[kind])
        assert name is not None, limits
        assert name[1] in SELF_HOST, name[1]


def test_only_web_has_a_port_and_the_network_outside() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["web"]
    assert [name for name, service in SERVICES.items() if "outside" in service["networks"]] == ["web"]
    assert COMPOSE["networks"]["inside"]["internal"] is True
    assert all(port.startswith("${GIRCSE_PUBLISH:-127.0.0.1:") for port in SERVICES["web"]["ports"])


@every_service
def test_every_image_is_of_one_version(service: dict[str, Any]) -> None:
    image = default_of(service["image"])
    _, _, tag = image.partition("@")[0].rpartition(":")
    assert re.search(r"\d+\.\d+", tag), image


def test_our_image_is_of_this_version() -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert version is not None
    assert f"gircse-search:{version[1]}}}" in SERVICES["web"]["image"]
    assert f"ARG VERSION={version[1]}\n" in DOCKERFILE


@every_service
def test_what_is_depended_on_exists_and_is_waited_for(service: dict[str, Any]) -> None:
    for name, condition in service.get("depends_on", {}).items():
        assert condition["condition"] in ("service_healthy", "service_started")
        assert condition.get("required", True) is ("profiles" not in SERVICES[name] or "profiles" in service)


@pytest.mark.parametrize(
    ("profiles", "started"),
    [
        ({"cpu", "single"}, {"web", "worker", "postgres", "embedder", "qdrant"}),
        ({"gpu", "single"}, {"web", "worker", "postgres", "embedder-gpu", "qdrant"}),
        ({"cpu", "cluster"}, {"web", "worker", "postgres", "embedder", "qdrant-1", "qdrant-2", "qdrant-3"}),
    ],
)
def test_profiles_choose_one_variant_of_each_part(profiles: set[str], started: set[str]) -> None:
    chosen = {
        name for name, service in SERVICES.items() if not service.get("profiles") or profiles & set(service["profiles"])
    }
    assert chosen == started
    addresses = {address for name in chosen for address in addresses_of(name)}
    for part in ("GIRCSE_QDRANT_URL", "GIRCSE_EMBEDDER_URL"):
        host = re.match(r"http://([\w-]+):", SERVICES["web"]["environment"][part])
        assert host is not None
        assert host[1] in addresses


def addresses_of(name: str) -> set[str]:
    networks = SERVICES[name]["networks"]
    return {name, *networks["inside"]["aliases"]} if isinstance(networks, dict) else {name}


def test_the_default_profiles_are_a_whole_service() -> None:
    chosen = re.search("^COMPOSE_PROFILES=(.*)$", (ROOT / ".env").read_text("utf-8"), re.MULTILINE)
    assert chosen is not None
    assert set(chosen[1].split(",")) == {"cpu", "single"}


def test_gpu_service_asks_for_the_gpu() -> None:
    [device] = SERVICES["embedder-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}


def test_image_runs_as_an_ordinary_user_and_says_whether_it_is_well() -> None:
    last_stage = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001:10001$", last_stage, re.MULTILINE)
    assert "HEALTHCHECK" in last_stage
    assert "org.opencontainers.image.licenses" in last_stage


def locked(name: str) -> dict[str, str]:
    """Package → version of a lock in which each has hashes."""
    lock = (ROOT / "docker" / name).read_text("utf-8")
    entry = r"^([\w.-]+)==(\S+) \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
    entries = re.findall(entry, lock, re.MULTILINE)
    named = re.findall(r"^[\w.-]+(?:\[.*\])?[=<>@ ].*$", lock, re.MULTILINE)
    assert len(entries) == len(named) > 0
    return {name.lower(): version for name, version in entries}


def test_every_package_of_the_image_is_locked_with_its_hashes() -> None:
    wanted = wanted_packages()
    assert wanted - {"torch"} <= locked("requirements.txt").keys()
    assert len(locked("requirements.txt")) > 100
    torch = locked("torch-cuda.txt")["torch"]
    assert locked("torch-cpu.txt") == {"torch": f"{torch}+cpu"}
    assert torch in SpecifierSet(
        next(each for each in wanted_lines() if each.startswith("torch")).removeprefix("torch")
    )
    assert "cyclonedx-bom" in locked("sbom.txt")
    assert not locked("torch-cuda.txt").keys() & locked("requirements.txt").keys()


def test_nothing_is_installed_into_the_image_without_hashes_but_this_folder() -> None:
    commands = [each for line in DOCKERFILE.replace("\\\n", "").splitlines() for each in line.split("&&")]
    installed = [each for each in commands if "pip install" in each]
    assert len(installed) == 4
    own = next(each.split() for each in installed if "--require-hashes" not in each)
    assert own[-2:] == ["/src/embedder", "/src"]
    assert {"--no-deps" in each for each in installed} == {True}


def wanted_lines() -> list[str]:
    """The requirements of the image: of both distributions and their extras."""
    lines = []
    for folder in (ROOT, ROOT / "embedder"):
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        extras = project["optional-dependencies"]
        lines += project["dependencies"]
        lines += [
            each for extra in ("app", "server", "ocr", "office", "otel", "postgres") for each in extras.get(extra, ())
        ]
    return [line for line in lines if not line.startswith("gircse-embedder")]


def wanted_packages() -> set[str]:
    return {re.split(r"[\[<>=!~ ;]", each, maxsplit=1)[0].lower() for each in wanted_lines()}


def test_health_check_of_the_image_tells_a_server_from_none(tmp_path: Path) -> None:
    check = [sys.executable, str(ROOT / "docker/is_well.py")]
    assert run(*check, "http://127.0.0.1:1/readyz").returncode == 1
    server = (
        "import http.server, sys\n"
        "class Well(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(200 if self.path == '/readyz' else 503); self.end_headers()\n"
        "    def log_message(self, *_): pass\n"
        "s = http.server.HTTPServer(('127.0.0.1', 0), Well); print(s.server_port, flush=True); s.serve_forever()\n"
    )
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        try:
            assert run(*check, env={**os.environ, "GIRCSE_PORT": port}).returncode == 0
            assert run(*check, f"http://127.0.0.1:{port}/other").returncode == 1
        finally:
            process.terminate()
