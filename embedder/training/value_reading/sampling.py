"""Groups of texts under one instruction, as a pure function of seed and step."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from embedder.training.contrasts import join_texts
from embedder.training.value_reading.tasks import ChoiceTask, ReadingData, ReadingTask

KINDS = ("aspects", "composed", "labels", "slots", "choices", "retrieval")
_MAX_NAMES = 14
_DISTRACTED_SHARE = 0.3
_MAX_DISTRACTORS = 6


@dataclass(frozen=True, slots=True)
class Group:
    """Texts under one instruction. gold[i]: places in `names` of what text i says; none for retrieval."""

    kind: str
    task: str
    instruction: str
    texts: tuple[str, ...]
    names: tuple[str, ...]
    gold: tuple[tuple[int, ...], ...]


class GroupSampler:
    """Draws the groups of a step."""

    def __init__(self, data: ReadingData, weights: Mapping[str, float], *, size: int, groups: int, seed: int) -> None:
        self._size, self._groups, self._seed = size, groups, seed
        self._data = data
        kinds = ("aspects", "labels", "slots")
        self._pools = {kind: [task for task in data.tasks if task.kind == kind] for kind in kinds}
        self._weights = {kind: weight for kind, weight in weights.items() if weight and self._has(kind)}
        self._queries = [row.query for choice in data.choices for row in choice.rows]
        self._queries += [text for task in self._pools["aspects"] for text in task.labels]

    def batch(self, step: int) -> list[Group]:
        rng = random.Random(f"{self._seed}:{step}")
        groups: list[Group] = []
        while len(groups) < self._groups:
            kind = rng.choices(list(self._weights), list(self._weights.values()))[0]
            if kind == "retrieval":
                groups.append(self._retrieval(rng))
            elif kind == "choices":
                groups.append(self._choices(rng))
            elif kind == "composed":
                groups += self._composed(rng)
            else:
                groups.append(self._texts(rng, rng.choice(self._pools[kind])))
        return groups

    def _has(self, kind: str) -> bool:
        if kind == "choices":
            return bool(self._data.choices)
        if kind == "retrieval":
            return bool(self._data.retrieval)
        return bool(self._pools["aspects" if kind == "composed" else kind])

    def _texts(self, rng: random.Random, task: ReadingTask) -> Group:
        """Texts of some of the aspect's values, two of a value where there are as many."""
        names = _some_names(rng, task)
        texts: dict[str, None] = {}
        turns = sorted(names, key=lambda _: rng.random())
        while len(texts) < self._size and turns:
            name = turns.pop(0)
            fresh = [text for text in task.values[name] if text not in texts]
            chosen = rng.sample(fresh, min(2, len(fresh)))
            texts |= dict.fromkeys(chosen)
            if len(fresh) > len(chosen):
                turns.append(name)
        kept = list(texts)[: self._size]
        return self._group(rng, task, names, kept, [task.labels[text] for text in kept])

    def _composed(self, rng: random.Random) -> list[Group]:
        """Sentences of two aspects of two domains joined; the same texts are read under either aspect."""
        tasks = self._pools["aspects"]
        first = rng.choice(tasks)
        second = rng.choice([task for task in tasks if task.group != first.group])
        sides = []
        for task in (first, second):
            names = rng.sample(sorted(task.values), min(4, len(task.values)))
            texts_of = {name: task.values[name] for name in names}
            sides.append(
                [(name, text) for name in names for text in rng.sample(texts_of[name], min(4, len(texts_of[name])))]
            )
        length = min(len(sides[0]), len(sides[1]), self._size)
        one = sides[0][:length]
        # In any order, so that texts alike in one half differ in the other.
        other = sorted(sides[1], key=lambda _: rng.random())[:length]
        texts = [join_texts(rng, a[1], b[1]) for a, b in zip(one, other, strict=True)]
        return [
            self._group(rng, task, _some_names(rng, task, {name for name, _ in side}), texts, labels, composed=True)
            for task, side in ((first, one), (second, other))
            for labels in [[frozenset({name}) for name, _ in side]]
        ]

    def _choices(self, rng: random.Random) -> Group:
        """Questions; the names are all their answers."""
        choice: ChoiceTask = rng.choice(self._data.choices)
        rows = rng.sample(choice.rows, min(self._size // 2, len(choice.rows)))  # each brings several names
        names = list(dict.fromkeys(name for row in rows for name in (row.positives[0], *row.negatives)))
        gold = tuple(tuple(names.index(name) for name in row.positives if name in names) for row in rows)
        texts = tuple(row.query for row in rows)
        return Group("choices", choice.name, rng.choice(choice.wordings), texts, tuple(names), gold)

    def _retrieval(self, rng: random.Random) -> Group:
        texts = tuple(rng.sample(self._queries, self._size))
        return Group("retrieval", "retrieval", rng.choice(self._data.retrieval), texts, (), ((),) * self._size)

    def _group(
        self,
        rng: random.Random,
        task: ReadingTask,
        names: Sequence[str],
        texts: Sequence[str],
        labels: Sequence[frozenset[str]],
        *,
        composed: bool = False,
    ) -> Group:
        shown = [*names, *self._distractors(rng, task)]
        gold = tuple(tuple(at for at, name in enumerate(shown) if name in known) for known in labels)
        kind = "composed" if composed else task.kind
        return Group(kind, task.name, rng.choice(task.wordings), tuple(texts), tuple(shown), gold)

    def _distractors(self, rng: random.Random, task: ReadingTask) -> list[str]:
        """Names of another group's aspect, at times."""
        if rng.random() >= _DISTRACTED_SHARE:
            return []
        other = rng.choice(self._pools["aspects"])
        if other.group == task.group:
            return []
        names = [name for name in other.values if name not in task.values]
        return rng.sample(names, min(len(names), rng.randint(1, _MAX_DISTRACTORS)))


def _some_names(rng: random.Random, task: ReadingTask, needed: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """All the aspect's names half of the time, else some; never more than _MAX_NAMES."""
    names = sorted(task.values)
    most = min(len(names), _MAX_NAMES)
    count = most if rng.random() < 0.5 else rng.randint(min(2, most), most)
    rest = [name for name in names if name not in needed]
    chosen = [*sorted(needed), *rng.sample(rest, max(0, min(len(rest), count - len(needed))))]
    rng.shuffle(chosen)
    return chosen
