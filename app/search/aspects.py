"""A bank of aspects that texts are told apart by, each with wordings of its instruction and the names of its values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FILE = "aspects.json"


@dataclass(frozen=True, slots=True)
class Aspect:
    name: str
    instructions: tuple[str, ...]
    values: tuple[str, ...]


@cache
def aspects() -> tuple[Aspect, ...]:
    """Read at the first call."""
    rows = json.loads((files("app.search") / _FILE).read_text("utf-8"))
    return tuple(Aspect(row["aspect"], tuple(row["instructions"]), tuple(row["values"])) for row in rows)


@cache
def background_phrases(count: int) -> tuple[str, ...]:
    """Names of values of `count` aspects, spread over the bank: phrases of many subjects."""
    every = aspects()
    chosen = (every[at * len(every) // count] for at in range(count))
    return tuple(aspect.values[at % len(aspect.values)] for at, aspect in enumerate(chosen))
