"""Hands over to the training of the embedder, which is a program of its own."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from app.errors import NotFoundError

TRAINING = "embedder.training"


def run_training(arguments: Sequence[str]) -> None:
    """Runs `python -m embedder.training` in this process."""
    if find_spec(f"{TRAINING}.__main__") is None:
        raise NotFoundError(
            "This installation cannot train. Install it with the extra: pip install gircse-search[train]"
        )
    sys.argv = ["gircse train", *arguments]
    runpy.run_module(TRAINING, run_name="__main__")
