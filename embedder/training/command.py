"""How the small training commands end: with what they made, with what went wrong, or stopped by Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable

from embedder.errors import EmbedderError
from embedder.training.data import DataError


def run_command(work: Callable[[], str], *, stopped: str) -> int:
    """The exit status. work: returns what to say of it; stopped: what Ctrl-C left."""
    try:
        told = work()
    except (EmbedderError, DataError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\nStopped. {stopped}\n")
        return 130
    sys.stderr.write(f"{told}\n")
    return 0
