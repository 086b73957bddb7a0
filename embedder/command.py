"""How commands end: with what they made, with what went wrong, or stopped by Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable


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
