"""The command `gircse` as a person runs it: a process of its own with its own environment, and a running server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from click.testing import Result
from forked import ForkedProgram
from patience import PATIENCE_S, wait_until
from typer.testing import CliRunner

from app.cli import app

GIRCSE = [sys.executable, "-P", "-c", "from app.cli import main; main()"]
_TIMEOUT_S = 240
_NOT_INHERITED = ("GIRCSE_", "HF_", "TRANSFORMERS_", "GRADIO_", "PYTHONPATH")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Gircse:
    """An installation with its GIRCSE_HOME; `settings` are further environment variables."""

    home: Path
    settings: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        return {**inherited, **self._own_environment}

    @property
    def _own_environment(self) -> dict[str, str]:
        return {"NO_PROXY": "*", "GIRCSE_HOME": str(self.home), **self.settings}

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs one command to its end; fails unless it exits with `code`, and if a traceback is shown."""
        result = subprocess.run(
            [*GIRCSE, *arguments], env=self.environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        assert result.returncode == code, (arguments, result.returncode, result.stdout, result.stderr)
        assert "Traceback" not in result.stderr, result.stderr
        return result

    def call(self, *arguments: str, code: int = 0) -> Result:
        """The same inside this process, where the heavy imports are paid once."""
        inherited = {name: None for name in os.environ if name.startswith(_NOT_INHERITED)}
        result = CliRunner().invoke(app, arguments, env={**inherited, **self._own_environment})
        assert isinstance(result.exception, SystemExit | None), (arguments, result.exception)
        assert result.exit_code == code, (arguments, result.exit_code, result.output)
        return result

    @contextmanager
    def serving(self, *options: str, log: Path | None = None) -> Iterator[Server]:
        """`gircse up` with these options, once it answers. Its log goes to the file `log`, or to our own."""
        with (
            log.open("wb") if log else nullcontext() as errors,
            ForkedProgram(["up", "--port", "0", *options], environment=self.environment, stderr=errors) as process,
        ):
            try:
                yield Server(_announced_url(process))
            finally:
                process.terminate()
                try:
                    process.wait(timeout=PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()


def _announced_url(process: ForkedProgram) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if found := re.match(r"Ready: (http://\S+)", line):
            return found.group(1)
    raise AssertionError(f"`gircse up` ended before it was ready: {said}")


@dataclass(frozen=True, slots=True)
class Server:
    url: str

    def ask(self, path: str, body: Any = None, *, method: str | None = None) -> Answer:
        """`body` goes as JSON; bytes go as they are."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        return self._send(path, data, "application/json", method or ("POST" if data else "GET"))

    def post_form(self, path: str, fields: Mapping[str, str], *, file: tuple[str, bytes, str]) -> Answer:
        """A form with one file (name, content, media type), as a browser sends it."""
        request = httpx.Request("POST", self.url, data=fields, files={"file": file})
        return self._send(path, request.read(), request.headers["content-type"], "POST")

    def _send(self, path: str, data: bytes | None, content_type: str, method: str) -> Answer:
        request = urllib.request.Request(self.url + path, data, {"content-type": content_type}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as response:
                status, content = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        return Answer(status, json.loads(content) if content else None)

    def search(self, query: str, **options: Any) -> dict[str, Any]:
        answer = self.ask("/api/v1/search", {"query": query, **options})
        assert answer.status == 200, answer
        return answer.body

    def wait_until_idle(self, collection: str) -> None:
        """Until no job of the collection is queued or running."""

        def is_idle() -> bool:
            states = ("queued", "running")
            return not any(
                self.ask(f"/api/v1/jobs?collection={collection}&state={each}&limit=1").body for each in states
            )

        wait_until(is_idle, told=lambda: f"{collection} was not ingested", every_s=0.25)
