"""Runs a page of the documentation: its blocks in order, in a fresh home and working folder."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from documented_pages import NODE, PYTHON, ROOT, Block
from warm_shell import WarmShell

_TIMEOUT_S = 600.0
_PORTS = (7860, 7861)  # those of the service and of the embedding server, as pages write them
_NOT_INHERITED = ("GIRCSE_", "HF_", "TRANSFORMERS_", "GRADIO_", "PYTHONPATH", "XDG_", "VIRTUAL_ENV")
_READY = re.compile(r"Ready: http|Watching ")  # `gircse up` and `embedder`; `gircse watch`
_DECIMAL = re.compile(r"\d+\.\d+")
_KEEP_STATE = """
set -eo pipefail
[ -e "$PAGE_STATE/exports" ] && . "$PAGE_STATE/exports"
cd "$(cat "$PAGE_STATE/folder")"
trap 'export -p > "$PAGE_STATE/exports"; pwd > "$PAGE_STATE/folder"' EXIT
until_idle() {
    until [ -z "$(gircse jobs list --state queued --json | tr -d '[] \\n')" ] \\
        && [ -z "$(gircse jobs list --state running --json | tr -d '[] \\n')" ]; do sleep 0.5; done
}
id_in_line() { grep -o '"id": *"[^"]*"' | sed -n "${1}p" | cut -d'"' -f4; }
chunk_id() { tr -d ' \\n' | grep -o '"chunk":{"id":"[^"]*"' | head -1 | cut -d'"' -f6; }
set -a
"""


@dataclass(slots=True)
class PageRunner:
    """`folder` becomes the working folder of a clone, with its environment in `.venv`. Use it in a `with` block.

    Free ports replace the ports 7860 and 7861 of the page; in the output the documented ports replace them again.
    """

    page: str
    folder: Path
    shell: WarmShell
    sample_home: Callable[[], Path] = Path
    settings: Mapping[str, str] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    _printed: str = ""
    _servers: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.ports = {documented: self.ports.get(documented) or _free_port() for documented in _PORTS}
        _lay_out_clone(self.folder / "clone", self.shell.programs)
        (self.folder / "home").mkdir(exist_ok=True)
        (self.folder / "state").mkdir()
        (self.folder / "state" / "folder").write_text(str(self.folder / "clone"), encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_servers()

    def run(self, block: Block) -> None:
        """Raises AssertionError that names page and line."""
        if block.kind == "skip":
            self._leave_out(block, block.argument)
        elif block.kind == "needs" and (missing := [e for e in block.argument.split(", ") if not _is_there(e)]):
            self._leave_out(block, f"{', '.join(missing)} is not here")
        elif block.kind == "file":
            Path(self._folder / block.argument).write_text(self._with_ports(block.text), encoding="utf-8")
        elif block.kind == "output":
            self._compare(block)
        elif block.kind in ("server", "beside", "meanwhile"):
            self._serve(block)
        elif block.kind == "sample":
            home = self.folder / "home" / ".local" / "share" / "gircse"
            shutil.copytree(self.sample_home(), home, dirs_exist_ok=True)
        else:
            self._carry_out(block)

    @property
    def _folder(self) -> Path:
        return Path((self.folder / "state" / "folder").read_text(encoding="utf-8").strip())

    @property
    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        return {
            **inherited,
            "HOME": str(self.folder / "home"),
            "PATH": f"{self.shell.programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PAGE_STATE": str(self.folder / "state"),
            "COLUMNS": "400",
            "NO_PROXY": "*",
            "GIRCSE_PORT": str(self.ports[7860]),
            "PAGE_EMBEDDER_PORT": str(self.ports[7861]),
            **self.settings,
        }

    def _leave_out(self, block: Block, reason: str) -> None:
        self.left_out.append(f"{self.page}:{block.line}: {reason}")

    def _carry_out(self, block: Block) -> None:
        instead = block.argument if block.kind == "instead" else ""
        if block.kind == "with":
            block = replace(block, text=self._with_ids(block))
        script = self._script(block, instead)
        done = subprocess.run(
            ["bash", "-c", script],
            env=self._environment,
            input=block.argument + "\n" if block.kind == "input" else "",
            capture_output=True,
            start_new_session=True,  # a question for a password would go to the terminal of the tests
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        self._printed = self._as_documented(done.stdout)
        is_well = (done.returncode != 0) == (block.kind == "fails") and "Traceback" not in done.stderr
        assert is_well, (
            f"{self.page}:{block.line} ended with {done.returncode}:\n{block.text}\n{done.stdout}{done.stderr}"
        )

    def _with_ids(self, block: Block) -> str:
        text = block.text
        for documented, command in (line.strip().split("=", 1) for line in block.argument.splitlines()):
            self._carry_out(Block(block.line, "sh", command))
            found = self._printed.strip()
            assert found, f"{self.page}:{block.line}: {command} printed nothing"
            text = text.replace(documented, found)
        return text

    def _script(self, block: Block, instead: str = "") -> str:
        text = self._with_ports(instead or block.text)
        if not instead and block.language in (*PYTHON, *NODE):
            name, program = ("block.py", "python") if block.language in PYTHON else ("block.mjs", "node")
            (self._folder / name).write_text(text, encoding="utf-8")
            text = f"{program} {name}"
        elif block.language == "console":
            text = "\n".join(line[2:] for line in text.splitlines() if line.startswith(("$ ", "> ")))
        return _KEEP_STATE + text

    def _serve(self, block: Block) -> None:
        """Stops the servers before it, as a person would, unless it is to run beside them."""
        if block.kind != "beside":
            self._stop_servers()
        server = subprocess.Popen(
            ["bash", "-c", self._script(block, block.argument)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._servers.append(server)
        said: list[str] = []
        ready = threading.Event()
        threading.Thread(target=_listen, args=(server, said, ready), daemon=True).start()
        assert ready.wait(_TIMEOUT_S), f"{self.page}:{block.line} was not ready: {said}"
        assert any(map(_READY.search, said)), f"{self.page}:{block.line} ended before it was ready:\n{''.join(said)}"
        self._printed = self._as_documented("".join(said))

    def _stop_servers(self) -> None:
        while self._servers:
            server = self._servers.pop()
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()
        self.shell.wait_until_idle()

    def _compare(self, block: Block) -> None:
        assert is_as_shown(block.text, self._printed), (
            f"{self.page}:{block.line} shows\n{block.text}\nbut this is printed:\n{self._printed}"
        )

    def _with_ports(self, text: str) -> str:
        return re.sub(
            r"\b(127\.0\.0\.1|localhost):(7860|7861)\b", lambda found: f"{found[1]}:{self.ports[int(found[2])]}", text
        )

    def _as_documented(self, printed: str) -> str:
        for documented, port in self.ports.items():
            printed = printed.replace(f":{port}", f":{documented}")
        return printed.replace(str(self.folder / "home"), "~").replace(str(self.folder / "clone"), "...")


def is_as_shown(shown: str, printed: str) -> bool:
    """Whether both are equal but for white space, where `...` stands for any text. Numbers with a decimal point, which
    differ a little between processors, are equal within 0.03 or a tenth.
    """
    words = re.split(r"(\.\.\.|\d+\.\d+|\s+)", shown.strip())
    found = re.fullmatch("".join(map(_pattern, words)), printed.strip(), re.DOTALL)
    if found is None:
        return False
    expected = [float(word) for word in words if _DECIMAL.fullmatch(word)]
    return all(
        math.isclose(number, float(text), rel_tol=0.1, abs_tol=0.03)
        for number, text in zip(expected, found.groups(), strict=True)
    )


def _pattern(word: str) -> str:
    if word == "...":
        return ".*?"
    if _DECIMAL.fullmatch(word):
        return r"(\d+(?:\.\d+)?)"
    return r"\s+" if word.isspace() else re.escape(word)


def _listen(server: subprocess.Popen[str], said: list[str], ready: threading.Event) -> None:
    assert server.stdout is not None
    for line in server.stdout:
        said.append(line)
        if _READY.search(line):
            ready.set()
    ready.set()


def _lay_out_clone(clone: Path, programs: Path) -> None:
    """The files of the repository as links, those that pages change as copies, and an environment `.venv`."""
    (clone / ".venv").mkdir(parents=True)
    (clone / ".venv" / "bin").symlink_to(programs)
    (programs / "activate").write_text("", encoding="utf-8")
    for each in ROOT.iterdir():
        if each.name in ("ui", "scripts"):
            shutil.copytree(each, clone / each.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not each.name.startswith("."):
            (clone / each.name).symlink_to(each)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _is_there(thing: str) -> bool:
    """A program, a Python package, a GPU (`gpu`) or a way to other machines (`network`)."""
    if thing == "gpu":
        return shutil.which("nvidia-smi") is not None
    if thing == "network":
        return os.environ.get("GIRCSE_TEST_NETWORK") == "true"
    return shutil.which(thing) is not None or importlib.util.find_spec(thing) is not None
