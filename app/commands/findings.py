"""What a check of `gircse doctor` found, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.errors import GircseError
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """`advice` is empty where all is well."""

    is_well: bool
    detail: str
    advice: str = ""


Check = Callable[[Settings], Finding]


def ask(check: Check, settings: Settings) -> Finding:
    """Errors of a part are findings: their messages say what to do."""
    try:
        return check(settings)
    except (GircseError, OSError) as error:
        return Finding(is_well=False, detail=str(error))
