"""The command line in this process, with the environment of a person who has set nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app

Run = Callable[..., Any]


def forget_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GIRCSE_")]:
        monkeypatch.delenv(name)


def run_command(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result
