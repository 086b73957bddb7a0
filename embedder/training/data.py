"""Reads training files (JSONL, plain or gzip): pairs, triplets and labelled texts, one task each."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from embedder.errors import DataError

logger = logging.getLogger(__name__)
ASPECTS_FILE = "aspects.jsonl.gz"
WRITTEN_ASPECTS = "aspects"  # the task of all hand-written aspects
INNER_SHARE = 9  # one in this many hand-written aspects is held out, as a second estimate for unseen aspects
_SUFFIXES = (".jsonl", ".jsonl.gz")
_SCORES = ("pos_scores", "neg_scores")  # from FlagEmbedding, for distilling a reranker


@dataclass(frozen=True, slots=True)
class Pair:
    """A training pair. The instruction is for the query."""

    instruction: str
    query: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Aspect:
    """Texts of one task, grouped by their label under one instruction."""

    task: str
    name: str
    instruction: str
    texts: Mapping[str, tuple[str, ...]]  # label -> texts
    wordings: tuple[str, ...] = ()  # other wordings of the instruction in the data
    family: str = ""  # texts of two families can be composed


@dataclass(slots=True)
class TrainingData:
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    triplets: dict[str, list[Pair]] = field(default_factory=dict)
    aspects: list[Aspect] = field(default_factory=list)
    labels: dict[tuple[str, str], dict[str, frozenset[str]]] = field(default_factory=dict)
    """(task, aspect) -> text -> its labels; identifies false negatives."""


def read_training_data(
    folder: Path, *, skip_tasks: frozenset[str] = frozenset(), with_aspects: bool = False
) -> TrainingData:
    """Reads `pairs.*`, `triplets.*` and `labels.*`; labels need `../instructions.json`. Raises DataError.

    with_aspects: also read `aspects.jsonl.gz`, except held-out aspects (`is_inner`).
    """
    data = TrainingData()
    instructions: Mapping[str, Mapping[str, str]] | None = None
    for path in training_files(folder, skip_tasks=skip_tasks):
        kind, task = path.name.split(".")[:2]
        if kind == "pairs":
            data.pairs.setdefault(task, []).extend(read_pairs(path))
        elif kind == "triplets":
            for number, row in read_rows(path):
                if _task_of_triplet(path, number, row).split(":")[0] not in skip_tasks:
                    data.triplets.setdefault(row["task"], []).append(parse_pair(path, number, row))
        elif kind == "labels":
            instructions = _read_instructions(folder) if instructions is None else instructions
            _add_labels(data, path, task, instructions.get(task, {}))
    if with_aspects:
        _add_written_aspects(data, folder / ASPECTS_FILE)
    if not (data.pairs or data.aspects):
        raise DataError(f"{folder} holds no rows in pairs.*.jsonl[.gz] or labels.*.jsonl[.gz].")
    return data


def is_inner(aspect: str) -> bool:
    """Whether a hand-written aspect is held out of training."""
    return int(hashlib.sha1(aspect.encode(), usedforsecurity=False).hexdigest(), 16) % INNER_SHARE == 0


def training_files(folder: Path, *, skip_tasks: frozenset[str] = frozenset(), with_aspects: bool = False) -> list[Path]:
    """The files of a run, in order. Raises DataError if hand-written aspects are missing."""
    aspects = folder / ASPECTS_FILE
    if with_aspects and not aspects.is_file():
        raise DataError(f"{aspects} is missing. Add it, or remove with_aspects from the config.")
    return ([aspects] if with_aspects else []) + [
        path
        for path in sorted(folder.glob("*.jsonl*"))
        if path.name.endswith(_SUFFIXES)
        and path.name.split(".")[0] in ("pairs", "triplets", "labels")
        and path.name.split(".")[1] not in skip_tasks
    ]


def fingerprint_of(folder: Path, *, skip_tasks: frozenset[str] = frozenset(), with_aspects: bool = False) -> str:
    """Digest of the names and sizes of a run's files: a resumed run must use the same files."""
    files = training_files(folder, skip_tasks=skip_tasks, with_aspects=with_aspects)
    listing = [[path.name, path.stat().st_size] for path in files]
    return hashlib.sha256(json.dumps(listing).encode()).hexdigest()[:16]


def read_pairs(path: Path) -> list[Pair]:
    """All rows of a file; warns once about unused scores. Raises DataError."""
    pairs = []
    scored = False
    for number, row in read_rows(path):
        pairs.append(parse_pair(path, number, row))
        scored = scored or any(row.get(name) for name in _SCORES)
    if scored:
        logger.warning("%s: %s are not used; the contrastive loss takes no scores.", path, " and ".join(_SCORES))
    return pairs


def open_text(path: Path) -> IO[str]:
    """Opens a UTF-8 file for reading; decompresses .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8")


def _read_instructions(folder: Path) -> Mapping[str, Mapping[str, str]]:
    path = folder.parent / "instructions.json"
    if not path.is_file():
        raise DataError(f"{path} is missing; it has the instructions for labelled tasks.")
    return json.loads(path.read_text(encoding="utf-8"))


def read_rows(path: Path) -> Iterator[tuple[int, dict]]:
    """Yields line number (from 1) and object. Raises DataError."""
    number = 0
    try:
        with open_text(path) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise DataError(f"{path}, line {number}: not a JSON object: {line.strip()[:40]!r}.")
                    yield number, row
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {number}: not valid JSON ({error}).") from error
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}, after line {number}: cannot be read ({error}).") from error


def parse_pair(path: Path, number: int, row: Mapping) -> Pair:
    """Parses a row `{query, pos, neg, instruction}`, or FlagEmbedding's with `prompt`. Raises DataError."""
    where = f"{path}, line {number}"
    query = row.get("query")
    if not isinstance(query, str) or not query.strip():
        raise DataError(f"{where}: `query` is {query!r}, but must be a non-empty text.")
    positives, negatives = (_texts(where, name, row.get(name)) for name in ("pos", "neg"))
    if not positives:
        raise DataError(f"{where}: `pos` is missing or empty; a pair needs at least one positive text.")
    instruction = row.get("instruction", row.get("prompt")) or ""
    if not isinstance(instruction, str):
        raise DataError(f"{where}: `instruction` (or `prompt`) is {instruction!r}, but must be a text.")
    return Pair(instruction, query, positives, negatives)


def _texts(where: str, name: str, value: object) -> tuple[str, ...]:
    texts: Sequence = value if isinstance(value, list) else [] if value is None else [None]
    if any(not isinstance(text, str) or not text.strip() for text in texts):
        raise DataError(f"{where}: `{name}` is {str(value)[:60]!r}, but must be a list of non-empty texts.")
    return tuple(texts)


def _task_of_triplet(path: Path, number: int, row: Mapping) -> str:
    task = row.get("task")
    if not isinstance(task, str) or ":" not in task:
        raise DataError(
            f"{path}, line {number}: `task` is {task!r}, but must have the form source:aspect|other aspect."
        )
    if not row.get("neg"):
        raise DataError(f"{path}, line {number}: `neg` is missing or empty; a triplet needs a negative text.")
    return task


def _add_labels(data: TrainingData, path: Path, task: str, instructions: Mapping[str, str]) -> None:
    groups: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in instructions}
    for number, row in read_rows(path):
        if not isinstance(row.get("text"), str) or not isinstance(row.get("labels"), dict):
            raise DataError(f"{path}, line {number}: needs `text` and `labels`, an object of aspect and label(s).")
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


def labels_by_text(values: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Inverts label -> texts to text -> labels; a text may have several."""
    labels: dict[str, frozenset[str]] = {}
    for label, texts in values.items():
        labels |= {text: labels.get(text, frozenset()) | {label} for text in texts}
    return labels


def _add_written_aspects(data: TrainingData, path: Path) -> None:
    """Adds rows `{aspect, domain, instructions, values: {name: [texts]}}`."""
    for number, row in read_rows(path):
        if not row.get("instructions") or not isinstance(row.get("values"), dict):
            raise DataError(f"{path}, line {number}: needs `aspect`, `domain`, `instructions` and `values`.")
        if is_inner(row["aspect"]):
            continue
        name = f"{row['aspect']} {number}"  # two rows may have the same aspect name
        texts = {label: tuple(members) for label, members in row["values"].items() if len(members) > 1}
        data.labels[WRITTEN_ASPECTS, name] = labels_by_text(texts)
        first, *others = row["instructions"]
        data.aspects.append(Aspect(WRITTEN_ASPECTS, name, first, texts, tuple(others), row["domain"]))


def sample_texts(data: TrainingData, count: int, *, seed: int) -> list[str]:
    """Texts from every task, evenly spread, without duplicates."""
    rng = random.Random(seed)
    pools = [[text for row in rows for text in (row.query, *row.positives)] for rows in data.pairs.values()]
    pools += [[text for texts in aspect.texts.values() for text in texts] for aspect in data.aspects]
    share = max(1, math.ceil(count / len(pools)))
    chosen = {text: None for pool in pools for text in rng.sample(pool, min(share, len(pool))) if text.strip()}
    texts = list(chosen)
    rng.shuffle(texts)
    return texts[:count]


def label_names(data: TrainingData) -> list[str]:
    return sorted({label for aspect in data.aspects for label in aspect.texts})
