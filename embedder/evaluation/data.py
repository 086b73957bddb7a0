"""Reads evaluation files (JSONL, plain or gzip) and selects the rows of a run."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from embedder.errors import DataError

HALVES = ("report", "tune", "all")
MIN_LABELS, MAX_LABELS = 2, 200  # outside these bounds, label sets measure nothing, or mostly their own long tail

Item = TypeVar("Item")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labelled texts for one instruction. `labels[i]` holds every label of `texts[i]`."""

    source: str
    aspect: str
    instruction: str
    texts: tuple[str, ...]
    labels: tuple[frozenset[str], ...]

    @property
    def name(self) -> str:
        return f"{self.source}.{self.aspect}"

    @property
    def names(self) -> list[str]:
        return sorted(frozenset().union(*self.labels))

    def take(self, keep: Sequence[int]) -> LabelSet:
        texts, labels = tuple(self.texts[i] for i in keep), tuple(self.labels[i] for i in keep)
        return LabelSet(self.source, self.aspect, self.instruction, texts, labels)

    def single_labelled(self) -> LabelSet:
        return self.take([i for i, labels in enumerate(self.labels) if len(labels) == 1])


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSONL file, plain or gzip; empty if the file does not exist. Raises DataError on a malformed line."""
    if not path.is_file():
        return []
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [_parse(line, path, number) for number, line in enumerate(lines, start=1)]


def _parse(line: str, path: Path, number: int) -> Row:
    try:
        return json.loads(line)
    except ValueError as error:
        raise DataError(f"{path}, line {number}: not valid JSON ({error}).") from error


def files_of(folder: Path, kind: str) -> list[Path]:
    """`<kind>.*.jsonl` and `.jsonl.gz`, sorted by name."""
    return sorted(path for path in folder.glob(f"{kind}.*") if path.name.endswith((".jsonl", ".jsonl.gz")))


def name_of(path: Path) -> str:
    """`labels.banking77.jsonl.gz` -> `banking77`; `sts.stsbenchmark.dev.jsonl.gz` -> `stsbenchmark.dev`."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl").partition(".")[2]


def is_tuning(text: str) -> bool:
    """Whether an item belongs to the tuning half (the SHA-1 of its text is even), on which settings may be chosen."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).digest()[-1] % 2 == 0


def in_half(text: str, half: str) -> bool:
    return half == "all" or is_tuning(text) == (half == "tune")


def choose(rows: Sequence[Item], half: str, limit: int | None, text_of: Callable[[Item], str]) -> list[Item]:
    """The rows of one half; with `limit`, evenly spaced ones."""
    return spread([row for row in rows if in_half(text_of(row), half)], limit)


def spread(rows: Sequence[Item], limit: int | None) -> list[Item]:
    """At most `limit` evenly spaced rows; deterministic."""
    if limit is None or len(rows) <= limit:
        return list(rows)
    return [rows[i * len(rows) // limit] for i in range(limit)]


def read_instructions(folder: Path) -> dict[str, dict[str, str]]:
    """`{task: {aspect: instruction}}` from the file beside the data folder."""
    path = folder.resolve().parent / "instructions.json"
    if not path.is_file():
        raise DataError(f"{path} is missing; it has the instructions for labelled texts.")
    return json.loads(path.read_text(encoding="utf-8"))


def read_label_sets(folder: Path, *, only: Sequence[str] = ()) -> list[LabelSet]:
    """One set per labels file and aspect that has an instruction and 2 to 200 labels.

    only: sources (`banking77`) or sets (`hwu64.scenario`) to keep; empty keeps all.
    """
    instructions = read_instructions(folder)
    label_sets = []
    for path in files_of(folder, "labels"):
        source = name_of(path)
        if only and source not in {name.partition(".")[0] for name in only}:
            continue
        rows = read_rows(path)
        for aspect, instruction in instructions.get(source, {}).items():
            each = _label_set(rows, source, aspect, instruction)
            if (not only or source in only or each.name in only) and MIN_LABELS <= len(each.names) <= MAX_LABELS:
                label_sets.append(each)
    return label_sets


def _label_set(rows: Sequence[Row], source: str, aspect: str, instruction: str) -> LabelSet:
    texts: dict[str, frozenset[str]] = {}
    for row in rows:
        value = row["labels"].get(aspect)
        labels = frozenset([value] if isinstance(value, str) else (value or ()))
        if labels:
            texts[row["text"]] = texts.get(row["text"], frozenset()) | labels
    return LabelSet(source, aspect, instruction, tuple(texts), tuple(texts.values()))


def digest_files(paths: Sequence[Path]) -> dict[str, str]:
    """File name -> the first 16 digits of its SHA-256, to identify the data in results."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in paths}
