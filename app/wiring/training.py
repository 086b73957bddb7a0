"""Runs the embedder's training and evaluation, which are separate programs."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from app.errors import NotFoundError

TRAINING, EVALUATION = "embedder.training", "embedder.evaluation"
# The extra of each program, and a library that only this extra installs.
_MARKS = {TRAINING: ("train", "matplotlib"), EVALUATION: ("eval", "bm25s")}


def run_training(arguments: Sequence[str]) -> None:
    """Runs `python -m embedder.training` in this process."""
    _run(TRAINING, "gircse train", arguments)


def run_evaluation(arguments: Sequence[str]) -> None:
    """Runs `python -m embedder.evaluation` in this process."""
    _run(EVALUATION, "gircse eval", arguments)


def _run(package: str, program: str, arguments: Sequence[str]) -> None:
    extra, library = _MARKS[package]
    if find_spec(f"{package}.__main__") is None or find_spec(library) is None:
        raise NotFoundError(f"`{program}` needs the extra `{extra}`. Install it: pip install 'gircse-search[{extra}]'")
    sys.argv = [program, *arguments]
    runpy.run_module(package, run_name="__main__")
