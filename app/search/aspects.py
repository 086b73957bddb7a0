"""A bank of aspects by which texts differ: each has several wordings of its instruction and the names of its values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FILE = "aspects.json"


@dataclass(frozen=True, slots=True)
class BankAspect:
    name: str
    instructions: tuple[str, ...]
    values: tuple[str, ...]


@cache
def aspects() -> tuple[BankAspect, ...]:
    """Loads the bank from the package; cached."""
    rows = json.loads((files("app.search") / _FILE).read_text("utf-8"))
    return tuple(BankAspect(row["aspect"], tuple(row["instructions"]), tuple(row["values"])) for row in rows)


@cache
def background_phrases(count: int) -> tuple[str, ...]:
    """One value's name from each of `count` aspects, spread evenly over the bank, so that the subjects vary."""
    bank = aspects()
    chosen = (bank[at * len(bank) // count] for at in range(count))
    return tuple(aspect.values[at % len(aspect.values)] for at, aspect in enumerate(chosen))
