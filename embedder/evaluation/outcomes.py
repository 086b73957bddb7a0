"""The result of a task: every system's value for every item, and the measures computed from them."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NO_INSTRUCTION, ON_QUERIES, ON_BOTH_SIDES = "none", "query", "both"
MINILM, BM25 = "MiniLM", "BM25"  # the names of the baselines

Steps = int | None  # None for systems without refinement steps


@dataclass(frozen=True, slots=True)
class Setting:
    """A system and its settings; `condition` says which sides had the instruction."""

    system: str
    condition: str
    query_steps: Steps = None
    document_steps: Steps = None


@dataclass(frozen=True, slots=True)
class Stratum:
    """Items that are resampled together. `gold`: reference values for `spearman` and `v_measure`."""

    name: str
    items: str  # digest of the items: equal items are resampled alike, across systems and runs
    size: int
    gold: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One value per item (n,), or per item and seed (n, seeds)."""

    stratum: str
    metric: str
    setting: Setting
    values: np.ndarray


@dataclass(frozen=True, slots=True)
class TaskMeasure:
    """A score: per group, the harmonic mean over its strata; then the mean over `groups`, times 100."""

    name: str
    metric: str
    statistic: str
    groups: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class TaskOutcomes:
    strata: dict[str, Stratum] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    measures: list[TaskMeasure] = field(default_factory=list)

    def add_stratum(self, name: str, items: Sequence[str], gold: np.ndarray | None = None) -> None:
        self.strata[name] = Stratum(name, digest(items), len(items), gold)

    def add(self, stratum: str, metric: str, setting: Setting, values: np.ndarray) -> None:
        if len(values) != self.strata[stratum].size:
            raise ValueError(f"{stratum} has {self.strata[stratum].size} items, but {len(values)} values were given.")
        self.outcomes.append(Outcome(stratum, metric, setting, np.asarray(values)))

    def add_mean(self, name: str, metric: str, statistic: str, names: Sequence[str]) -> None:
        """Adds a mean over single strata, if there are several."""
        if len(names) > 1:
            self.measures.append(TaskMeasure(name, metric, statistic, tuple((each,) for each in names)))


def digest(items: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(items)).encode()).hexdigest()[:16]


def pack(values: np.ndarray) -> dict[str, Any]:
    """An array as JSON: little-endian numbers, zlib, base64. Multiples of a half and integers below 128 take one
    byte."""
    doubled = values * 2
    is_small = values.size == 0 or (np.all(doubled == np.round(doubled)) and np.abs(doubled).max() < 128)
    kind = "<i1" if is_small else "<f4"
    raw = (doubled if is_small else values).astype(kind).tobytes()
    coded = base64.b64encode(zlib.compress(raw, 9)).decode("ascii")
    return {"kind": "halves" if is_small else "float32", "shape": list(values.shape), "data": coded}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    values = np.frombuffer(raw, dtype="<i1" if packed["kind"] == "halves" else "<f4").astype(np.float64)
    return (values / 2 if packed["kind"] == "halves" else values).reshape(packed["shape"])
