"""Reads training files (gzip JSONL): pairs, triplets and labelled texts, one task each."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path


class DataError(ValueError):
    """A training file cannot be used; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The instruction belongs to the query side."""

    instruction: str
    query: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Aspect:
    """Texts of one task grouped by what they say under one instruction."""

    task: str
    name: str
    instruction: str
    texts: Mapping[str, tuple[str, ...]]  # label -> texts


@dataclass(slots=True)
class TrainingData:
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    triplets: dict[str, list[Pair]] = field(default_factory=dict)
    aspects: list[Aspect] = field(default_factory=list)
    labels: dict[tuple[str, str], dict[str, frozenset[str]]] = field(default_factory=dict)
    """(task, aspect) -> text -> its labels; tells false negatives."""


def read_training_data(folder: Path, *, skip_tasks: frozenset[str] = frozenset()) -> TrainingData:
    """Reads `pairs.*`, `triplets.*` and `labels.*` (.jsonl.gz) and `../instructions.json`. Raises DataError."""
    instructions_file = folder.parent / "instructions.json"
    if not instructions_file.is_file():
        raise DataError(f"{instructions_file} is missing: labelled tasks take their instructions from it.")
    instructions = json.loads(instructions_file.read_text(encoding="utf-8"))
    data = TrainingData()
    for path in sorted(folder.glob("*.jsonl.gz")):
        kind, task = path.name.split(".")[:2]
        if task in skip_tasks:
            continue
        if kind == "pairs":
            data.pairs[task] = [_pair(row) for row in _rows(path)]
        elif kind == "triplets":
            for row in _rows(path):
                if row["task"].split(":")[0] not in skip_tasks:
                    data.triplets.setdefault(row["task"], []).append(_pair(row))
        elif kind == "labels":
            _add_labels(data, task, _rows(path), instructions.get(task, {}))
    if not (data.pairs or data.aspects):
        raise DataError(f"{folder} holds no pairs.*.jsonl.gz or labels.*.jsonl.gz.")
    return data


def _rows(path: Path) -> Iterator[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: not valid JSON ({error}).") from error


def _pair(row: Mapping) -> Pair:
    return Pair(row["instruction"], row["query"], tuple(row["pos"]), tuple(row.get("neg", ())))


def _add_labels(data: TrainingData, task: str, rows: Iterator[dict], instructions: Mapping[str, str]) -> None:
    groups: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in instructions}
    for row in rows:
        for name in instructions:
            value = row["labels"].get(name)
            labels = [value] if isinstance(value, str) else (value or [])
            for label in labels:
                groups[name][label].append(row["text"])
            if labels:
                data.labels.setdefault((task, name), {})[row["text"]] = frozenset(labels)
    for name, texts in groups.items():
        usable = {label: tuple(members) for label, members in texts.items() if len(members) > 1}
        if len(usable) > 1:
            data.aspects.append(Aspect(task, name, instructions[name], usable))
