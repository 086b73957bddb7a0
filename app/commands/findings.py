"""The result of a check of `gircse doctor`, with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.errors import GircseError
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `advice` is the remedy, empty if `is_well`."""

    is_well: bool
    detail: str
    advice: str = ""


Check = Callable[[Settings], Finding]


def ask(check: Check, settings: Settings) -> Finding:
    """Run a check. A known error or OSError becomes a failed finding; the error's message contains the remedy."""
    try:
        return check(settings)
    except (GircseError, OSError) as error:
        return Finding(is_well=False, detail=str(error))
