"""What one seed does: puts and deletes of documents, and which process is killed when. Knows no process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from chaos_corpus import CorpusFile, edited

_EDITED, _DELETED, _BROUGHT_BACK = 0.15, 0.1, 0.3  # shares; the last one of the deleted files
_AT_WORK = 0.75  # share of the kills
_LONGEST_GAP_AT_WORK_S = 0.05
_LONGEST_GAP_S = 1.2
_LONGEST_PAUSE_S = 1.5


class Target(StrEnum):
    WORKER = "worker"
    EDGE = "edge"
    POSTGRES = "postgres"  # the whole server
    BACKEND = "backend"  # one connection's process of PostgreSQL, at which the server restarts itself


@dataclass(frozen=True, slots=True)
class Put:
    file: CorpusFile


@dataclass(frozen=True, slots=True)
class Delete:
    name: str


Operation = Put | Delete


@dataclass(frozen=True, slots=True)
class Kill:
    """`pause_s` passes before the process is started again; the embedded engine is started by its next client.

    With `at_work` the gap begins when a job is running, of this worker when it is the target.
    """

    target: Target
    worker: int
    at_work: bool
    gap_s: float
    pause_s: float


@dataclass(frozen=True, slots=True)
class Round:
    """Operations, and a kill while they are carried out or just after."""

    operations: tuple[Operation, ...]
    kill: Kill


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    rounds: tuple[Round, ...]

    @property
    def operations(self) -> list[Operation]:
        return [operation for each in self.rounds for operation in each.operations]


def make_plan(seed: int, files: Sequence[CorpusFile], *, kills: int, targets: Sequence[Target], workers: int) -> Plan:
    random = Random(seed)
    operations = _operations(files, random)
    # Every target in turn, in a shuffled order, so that each is hit whatever the seed.
    order = [targets[number % len(targets)] for number in range(kills)]
    random.shuffle(order)
    cuts = [round(len(operations) * (number / kills) ** 0.8) for number in range(kills + 1)]  # more at the start
    rounds = []
    for number, target in enumerate(order):
        pause_s = random.choice([0.0, 0.0, random.uniform(0.1, _LONGEST_PAUSE_S)])
        at_work = random.random() < _AT_WORK
        gap_s = random.uniform(0, _LONGEST_GAP_AT_WORK_S if at_work else _LONGEST_GAP_S)
        kill = Kill(target, random.randrange(workers), at_work, gap_s, pause_s)
        rounds.append(Round(tuple(operations[cuts[number] : cuts[number + 1]]), kill))
    return Plan(seed, tuple(rounds))


def _operations(files: Sequence[CorpusFile], random: Random) -> list[Operation]:
    """Every file once, and later some of them edited, deleted, or deleted and brought back."""
    placed: list[tuple[float, Operation]] = []
    for file in files:
        moment = random.uniform(0, 0.8)
        placed.append((moment, Put(file)))
        if random.random() < _EDITED:
            moment = random.uniform(moment, 1)
            file = edited(file, random)
            placed.append((moment, Put(file)))
        if random.random() < _DELETED:
            moment = random.uniform(moment, 1)
            placed.append((moment, Delete(file.name)))
            if random.random() < _BROUGHT_BACK:
                placed.append((random.uniform(moment, 1), Put(file)))
    return [operation for _, operation in sorted(placed, key=lambda each: each[0])]
