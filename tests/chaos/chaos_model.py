"""A real model that loads at once: a random decoder of two layers in a folder, read through the real wiring."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "unit"))

from tiny_models import save_tiny_model


def tiny_model(folder: Path) -> Path:
    return save_tiny_model(folder, "qwen2")
