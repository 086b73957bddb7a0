"""What the value reader is trained on: aspects whose texts are told apart by the names of their values."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedder.training.data import (
    ASPECTS_FILE,
    Aspect,
    Pair,
    TrainingData,
    fingerprint_of,
    is_inner,
    labels_by_text,
    read_pairs,
    read_rows,
    read_training_data,
)
from embedder.training.wordings import Wordings, shipped_wordings

_MAX_TEXT = 400  # characters: a longer text says several values
_MAX_NAME = 60
_LABEL_TEXTS = 480  # texts kept of one labelled aspect; breadth of aspects counts more than texts
_PAIR_ROWS = 30_000
_CHOICES = {  # pairs whose positive names what the query describes
    "opentriviaqa": (
        "Which answer is right?",
        "Answer the question.",
        "the correct answer",
        "Find the answer to this question",
        "Given a trivia question, retrieve the correct answer.",
    ),
    "wordnet_reverse": (
        "Which word has this meaning?",
        "the thing that is described",
        "What is this called?",
        "Name what is defined here.",
        "Given a dictionary definition, retrieve a word with this meaning.",
    ),
}


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """One aspect. values: name -> its texts; labels: text -> all its names."""

    kind: str  # aspects, labels or slots
    name: str
    group: str  # aspects of one group may be joined with those of other groups
    wordings: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class ChoiceTask:
    """Questions, each with its answer and wrong ones."""

    name: str
    wordings: tuple[str, ...]
    rows: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class ReadingData:
    tasks: tuple[ReadingTask, ...]
    choices: tuple[ChoiceTask, ...]
    inner: tuple[ReadingTask, ...]  # aspects held out of training

    retrieval: tuple[str, ...]  # instructions under which a query must stay what plain MiniLM makes of it


def read_aspects(path: Path) -> list[ReadingTask]:
    """Hand-written aspects: `{aspect, domain, instructions, values: {name: [texts]}}`."""
    tasks = []
    for _, row in read_rows(path):
        labels = labels_by_text(row["values"])
        values = {name: tuple(texts) for name, texts in row["values"].items()}
        tasks.append(ReadingTask("aspects", row["aspect"], row["domain"], tuple(row["instructions"]), values, labels))
    return tasks


def read_reading_data(folder: Path, *, skip_tasks: frozenset[str], seed: int) -> ReadingData:
    """Aspects, labelled texts and questions with answers; `skip_tasks` are left out whole."""
    aspects = read_aspects(folder / ASPECTS_FILE)
    rows = read_training_data(folder, skip_tasks=skip_tasks | _unused_tasks(folder))
    tasks = [task for task in aspects if not is_inner(task.name)]
    tasks += _label_tasks(rows, folder, seed=seed)
    rng = random.Random(f"choices:{seed}")
    choices = []
    for name, wordings in _CHOICES.items():
        path = folder / f"pairs.{name}.jsonl.gz"
        if path.is_file() and name not in skip_tasks:
            found = [row for row in read_pairs(path) if _is_choice(row)]
            choices.append(ChoiceTask(name, wordings, tuple(rng.sample(found, min(_PAIR_ROWS, len(found))))))
    inner = tuple(task for task in aspects if is_inner(task.name))
    return ReadingData(tuple(tasks), tuple(choices), inner, _retrieval_instructions(folder, skip_tasks))


def _retrieval_instructions(folder: Path, skip_tasks: frozenset[str]) -> tuple[str, ...]:
    """The wordings of all pairs but those that are choices, and of similarity."""
    shipped = shipped_wordings()
    found = dict.fromkeys(shipped.similarity)
    for path in sorted(folder.glob("pairs.*.jsonl*")):
        task = path.name.split(".")[1]
        if task not in skip_tasks | _CHOICES.keys():
            _, row = next(read_rows(path))
            found |= dict.fromkeys((row["instruction"], *shipped.pairs.get(task, ())))
    return tuple(found)


def fingerprint_of_data(folder: Path, *, skip_tasks: frozenset[str]) -> str:
    """Digest of the files of a run, the aspects' included."""
    return fingerprint_of(folder, skip_tasks=skip_tasks, with_aspects=True)


def _unused_tasks(folder: Path) -> frozenset[str]:
    """Tasks that hold pairs or triplets and no labels; the reader needs names of values."""
    tasks = {
        kind: {path.name.split(".")[1] for path in folder.glob(f"{kind}.*.jsonl*")}
        for kind in ("pairs", "triplets", "labels")
    }
    return frozenset((tasks["pairs"] | tasks["triplets"]) - tasks["labels"])


def _is_choice(row: Pair) -> bool:
    names = (row.positives[0], *row.negatives)
    return len(row.query) <= _MAX_TEXT and all(len(name) <= _MAX_NAME for name in names)


def _label_tasks(data: TrainingData, folder: Path, *, seed: int) -> list[ReadingTask]:
    shipped, slots = shipped_wordings(), _slot_wordings(folder)
    tasks = []
    for aspect in data.aspects:
        wordings = slots.get(aspect.task, {}).get(aspect.name, ())
        kind = "slots" if wordings else "labels"
        wordings = tuple(dict.fromkeys((aspect.instruction, *wordings, *_label_wordings(shipped, aspect))))
        rng = random.Random(f"{aspect.task}:{aspect.name}:{seed}")
        known = data.labels[aspect.task, aspect.name]
        values = _balanced(rng, aspect)
        if len(values) > 1:
            labels: dict[str, frozenset[str]] = {}
            for label, texts in values.items():  # a text that comes twice with two labels has both
                labels |= {text: labels.get(text, known[text]) | {label} for text in texts}
            name = f"{aspect.task}:{aspect.name}"
            tasks.append(ReadingTask(kind, name, aspect.task, wordings, values, labels))
    return tasks


def _slot_wordings(folder: Path) -> Mapping[str, Mapping[str, Sequence[str]]]:
    path = folder.parent / "wordings.json"
    return json_of(path) if path.is_file() else {}


def json_of(path: Path) -> Mapping[str, Mapping[str, Sequence[str]]]:
    return json.loads(path.read_text(encoding="utf-8"))


def _label_wordings(shipped: Wordings, aspect: Aspect) -> list[str]:
    """Hand-written ones, and every pattern with every word for the aspect."""
    written = shipped.aspects.get(aspect.task, {}).get(aspect.name, ())
    words = shipped.words.get(aspect.name, ())
    return [*written, *(pattern.format(word=word) for pattern in shipped.patterns for word in words)]


def _balanced(rng: random.Random, aspect: Aspect) -> dict[str, tuple[str, ...]]:
    """At most _LABEL_TEXTS short texts, as even over the values as they come."""
    pools: dict[str, list[str]] = defaultdict(list)
    for name, texts in aspect.texts.items():
        if len(name) <= _MAX_NAME:
            short = [text for text in dict.fromkeys(texts) if len(text) <= _MAX_TEXT]
            pools[name] = rng.sample(short, min(len(short), _LABEL_TEXTS))
    order = sorted(pools)
    rng.shuffle(order)
    values: dict[str, list[str]] = defaultdict(list)
    for turn in range(_LABEL_TEXTS):
        for name in order:
            if turn < len(pools[name]):
                values[name].append(pools[name][turn])
        if sum(map(len, values.values())) >= _LABEL_TEXTS:
            break
    return {name: tuple(texts) for name, texts in values.items() if texts}
