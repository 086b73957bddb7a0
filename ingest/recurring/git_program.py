"""Runs git on an untrusted repository: no configuration of others, hooks or prompts, only the protocol of the address,
only the checked host, bounded time and size."""

from __future__ import annotations

import base64
import os
import re
import shlex
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import SplitResult

from app.errors import DocumentError, InputError
from app.types.credentials import Credentials

MEGABYTE = 1_000_000
_LOOK_EVERY_S, _BEAT_EVERY_S = 0.05, 20.0
_MAX_ERROR_BYTES, _SHOWN = 8_000, 300
_LEAST_VERSION = (2, 37)  # first version with http.curloptResolve, which pins the address of a host
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_HINTS = (
    ("Authentication failed", "The credentials are not accepted: check user and password, or the token."),
    ("could not read Username", "The server requires a login: name credentials for it."),
    ("terminal prompts disabled", "The server requires a login: name credentials for it."),
    ("Permission denied", "The server refuses the key: check `user` and `key_file` of the credentials."),
    ("Host key verification failed", "The server's key is unknown: add it to `known_hosts` of the credentials."),
    ("couldn't find remote ref", "There is no such branch or tag."),
    ("requested URL returned error: 30", "The server redirects to another address: use that one."),
    ("dubious ownership", "The repository belongs to another user of this machine: make the worker's user its owner."),
    ("does not appear to be a git repository", "There is no repository at this address."),
    ("not found", "There is no repository at this address, or it is private and needs credentials."),
)


@dataclass(frozen=True, slots=True)
class GitLimits:
    command_s: float = 1_800
    repository_bytes: int = 2_000 * MEGABYTE
    output_bytes: int = 200 * MEGABYTE


class Git:
    """Runs commands in the folder of one bare repository. `beat` is called about every 20 s while a command runs."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], *, beat: Callable[[], None], limits: GitLimits
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._beat = beat
        self._limits = limits
        self.stderr = ""  # standard error of the last command

    def run(self, *arguments: str, stdin: str = "") -> bytes:
        """Runs one command and returns its standard output. Raises DocumentError with advice, and without secrets."""
        with TemporaryFile(dir=self._folder) as out, TemporaryFile(dir=self._folder) as errors:
            with subprocess.Popen(  # noqa: S603 - a list; no argument that begins with - comes from a user
                [_program(), *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
            ) as process:
                try:
                    _send(process, stdin)
                    self._wait(process, out.fileno())
                finally:
                    process.kill()
            errors.seek(0)
            self.stderr = errors.read(_MAX_ERROR_BYTES).decode("utf-8", "replace")
            if process.returncode:
                raise DocumentError(_reason(self.stderr))
            out.seek(0)
            return out.read()

    def _wait(self, process: subprocess.Popen[bytes], out: int) -> None:
        began = beaten = time.monotonic()
        while True:
            try:
                process.wait(_LOOK_EVERY_S if time.monotonic() - began < 1 else 1.0)
                return
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if now - began > self._limits.command_s:
                raise DocumentError(f"git did not finish within {self._limits.command_s:,.0f} s. Choose fewer paths.")
            if os.fstat(out).st_size > self._limits.output_bytes or self._is_too_large():
                most = self._limits.repository_bytes / MEGABYTE
                raise DocumentError(f"The repository sends more than {most:,.0f} MB. Choose fewer paths.")
            if now - beaten > _BEAT_EVERY_S:
                beaten = now
                self._beat()

    def _is_too_large(self) -> bool:
        return sum(_sizes(self._folder)) > self._limits.repository_bytes


def environment_of(
    address: SplitResult, addresses: Sequence[str], credentials: Credentials | None, *, home: Path
) -> dict[str, str]:
    """Environment variables of git. They hold the secrets, because other users of the machine can see arguments."""
    config = {
        "core.hooksPath": os.devnull,
        "credential.helper": "",
        "http.followRedirects": "false",
        "http.proxy": "",
        "http.lowSpeedLimit": "1000",
        "http.lowSpeedTime": "60",
        "protocol.version": "2",
        "maintenance.auto": "false",
        "remote.origin.url": address.geturl(),
    }
    variables = {
        "PATH": os.defpath,
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "GIT_ALLOW_PROTOCOL": address.scheme,
    }
    host, port = address.hostname or "", address.port or _PORTS.get(address.scheme, 0)
    if address.scheme in ("http", "https"):
        pinned = ",".join(f"[{ip}]" if ":" in ip else ip for ip in addresses)
        config["http.curloptResolve"] = f"{host}:{port}:{pinned}"
        if (authorities := ssl.get_default_verify_paths().cafile) is not None:
            config["http.sslCAInfo"] = authorities
        if credentials is not None:
            pair = f"{credentials.user}:{credentials.password}".encode()
            config["http.extraHeader"] = f"Authorization: Basic {base64.b64encode(pair).decode()}"
    elif address.scheme == "ssh":
        variables |= {"GIT_SSH_VARIANT": "ssh", "GIT_SSH_COMMAND": _ssh(host, port, addresses, credentials)}
    variables["GIT_CONFIG_COUNT"] = str(len(config))
    for number, (key, value) in enumerate(config.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def require_git() -> None:
    """Raises InputError if git is not installed, or too old to be pinned to a checked address."""
    command = [_program(), "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout  # noqa: S603
    match = re.search(r"(\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < _LEAST_VERSION:
        raise InputError(f"Repositories need git 2.37 or newer on the worker's machine; this is {version.strip()!r}.")


def _program() -> str:
    path = shutil.which("git")
    if path is None:
        raise InputError("Repositories need the program git on the worker's machine: install the package git.")
    return path


def _ssh(host: str, port: int, addresses: Sequence[str], credentials: Credentials | None) -> str:
    options = {
        "HostName": addresses[0],
        "HostKeyAlias": host if port == _PORTS["ssh"] else f"[{host}]:{port}",
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "ForwardAgent": "no",
        "ClearAllForwardings": "yes",
        "ProxyCommand": "none",
        "ConnectTimeout": "20",
    }
    if credentials is not None and credentials.key_file:
        options["IdentityFile"] = credentials.key_file
    if credentials is not None and credentials.known_hosts:
        options["UserKnownHostsFile"] = credentials.known_hosts
    return shlex.join(["ssh", "-F", os.devnull, *(f"-o{name}={value}" for name, value in options.items())])


def _send(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(text.encode())
        process.stdin.close()
    except BrokenPipeError:
        pass  # the process ended; its standard error says why


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(root) / name).stat().st_size
            except FileNotFoundError:  # a temporary file of git
                continue


def _reason(stderr: str) -> str:
    for sign, hint in _HINTS:
        if sign.lower() in stderr.lower():
            return hint
    lines = [line for line in stderr.splitlines() if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
    return f"git failed: {' '.join(lines or stderr.splitlines()[-1:])[:_SHOWN] or 'no message'}"
