"""Helpers for command lines: exit status, error messages, Ctrl-C, and a pointer to commands of gircse-research."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import entry_points


def run_command(
    work: Callable[[], str], *, errors: tuple[type[Exception], ...], stopped: str, name: str | None = None
) -> int:
    """Runs `work` and returns the exit status.

    work: returns the text to print. errors: exceptions to print without a traceback, after the command's name. stopped:
    the message after Ctrl-C.
    """
    try:
        message = work()
    except errors as error:
        sys.stderr.write(f"{error}\n" if name is None else f"{name}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\nStopped. {stopped}\n")
        return 130
    sys.stderr.write(f"{message}\n")
    return 0


def run_experiment(program: str, arguments: list[str], *, option: str) -> int:
    """Runs `gircse PROGRAM` of gircse-research if installed, and returns its exit status.

    option: the argument that only this program has; the message names it if the package is missing.
    """
    for each in entry_points(group="gircse.experiments", name=program):
        return each.load()(arguments)
    module = {"eval": "research.evaluation", "train": "research.training"}[program]
    sys.stderr.write(
        f"gircse {program}: {option} is part of the experiments, which are in the repository: run `python -m {module}` "
        "there, or install them with `pip install ./research`.\n"
    )
    return 2
