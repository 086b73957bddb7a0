"""How commands end: with what they made, with what went wrong, or stopped by Ctrl-C; and which are elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import entry_points


def run_command(
    work: Callable[[], str], *, errors: tuple[type[Exception], ...], stopped: str, name: str | None = None
) -> int:
    """The exit status. work: returns what to say of it; errors: those that are told without a traceback, behind the
    command's name; stopped: what Ctrl-C left."""
    try:
        told = work()
    except errors as error:
        sys.stderr.write(f"{error}\n" if name is None else f"{name}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\nStopped. {stopped}\n")
        return 130
    sys.stderr.write(f"{told}\n")
    return 0


def run_experiment(program: str, arguments: list[str], *, asked: str) -> int:
    """The exit status of `gircse PROGRAM` of gircse-research, where that is installed. asked: the argument that only
    that program knows."""
    for each in entry_points(group="gircse.experiments", name=program):
        return each.load()(arguments)
    module = {"eval": "research.evaluation", "train": "research.training"}[program]
    sys.stderr.write(
        f"gircse {program}: {asked} is part of the experiments, which are in the repository: run `python -m {module}` "
        "there, or install them with `pip install ./research`.\n"
    )
    return 2
