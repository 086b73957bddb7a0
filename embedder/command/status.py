"""How a command ends: exit status, error messages, missing extras, Ctrl-C, and where experiments are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points


@contextmanager
def needs_extra(extra: str, module: str) -> Iterator[None]:
    """Around imports that need `extra`. If a package is missing, the error names the extra.

    module: `__name__` of the importing module. A program ends with one line; elsewhere ModuleNotFoundError is raised.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == __name__.partition(".")[0]:
            raise  # a fault of this package
        message = f"The package {error.name!r} is not installed. Run `pip install 'gircse-embedder[{extra}]'`."
        if module == "__main__":
            sys.exit(message)
        raise ModuleNotFoundError(message, name=error.name) from error


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
