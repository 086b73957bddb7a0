"""What a load has shown: numbers, a table of them, and what does not hold."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

GOOD_OR_TURNED_AWAY = frozenset({429, 503})
READS = ("show document", "read text")  # of what another user may just have deleted


@dataclass(frozen=True, slots=True)
class Kind:
    """Of all that were asked; the milliseconds of those that were answered with what they wanted."""

    count: int
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    slowest_ms: float
    refused: dict[str, int]  # by status

    @classmethod
    def of(cls, answers: Sequence[tuple[int, float]], seconds: float) -> Kind:
        good = sorted(each for status, each in answers if 200 <= status < 300)
        bad = Counter(str(status) for status, _ in answers if not 200 <= status < 300)
        p50, p95, p99 = (percentile(good, share) for share in (50, 95, 99))
        slowest = max((each for _, each in answers), default=0.0)
        return cls(len(answers), round(len(answers) / seconds, 2), p50, p95, p99, round(slowest * 1e3, 1), dict(bad))


@dataclass(frozen=True, slots=True)
class Load:
    seconds: float
    users: int
    machine: str
    catalog: str
    kinds: dict[str, Kind]
    memory_mb: dict[str, list[float]]  # of every part: at the start, in the middle, at the end
    most_memory_mb: dict[str, float]
    queue_depth: list[float]  # every few seconds
    kept: int
    deleted: int
    drain_s: float
    faults: list[str] = field(default_factory=list)

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Load:
        return cls(**{**found, "kinds": {name: Kind(**kind) for name, kind in found["kinds"].items()}})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def percentile(ranked: Sequence[float], share: float) -> float:
    """In milliseconds."""
    return round(ranked[min(len(ranked) - 1, int(len(ranked) * share / 100))] * 1e3, 1) if ranked else 0.0


def thirds(seen: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Means over the first, the middle and the last tenth."""
    tenth = max(1, len(seen) // 10)
    middle = len(seen) // 2
    parts = (seen[:tenth], seen[middle : middle + tenth], seen[-tenth:])
    names = sorted({name for each in seen for name in each})
    return {
        name: [round(statistics.mean([each[name] for each in part if name in each] or [0]), 1) for part in parts]
        for name in names
    }


def failures_of(kinds: Mapping[str, Kind]) -> list[str]:
    """Requests that hung, and statuses that nobody should see."""
    told = []
    for name, kind in kinds.items():
        for status, count in kind.refused.items():
            if int(status) in GOOD_OR_TURNED_AWAY or (status == "404" and name in READS):
                continue
            told.append(
                f"{count} of {name!r} got no answer in time" if status == "0" else f"{count} of {name!r}: {status}"
            )
    return told


def render(load: Load) -> str:
    total = sum(kind.per_second for kind in load.kinds.values())
    rows = [
        "| request | number | a second | p50 ms | p95 ms | p99 ms | refused |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        *(
            f"| {name} | {kind.count} | {kind.per_second:.1f} | {kind.p50_ms:.0f} | {kind.p95_ms:.0f} | "
            f"{kind.p99_ms:.0f} | {_refused(kind)} |"
            for name, kind in sorted(load.kinds.items())
        ),
        "",
        "| process | MB at the start | in the middle | at the end | most |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {name} | {first:.0f} | {middle:.0f} | {last:.0f} | {load.most_memory_mb[name]:.0f} |"
            for name, (first, middle, last) in load.memory_mb.items()
        ),
        "",
        f"{load.users} users for {load.seconds:.0f} s; {total:.1f} requests a second in all. "
        f"Jobs waiting: {statistics.mean(load.queue_depth or [0]):.1f} on average, "
        f"{max(load.queue_depth or [0]):.0f} at most; the queue was empty {load.drain_s:.1f} s after the end. "
        f"{load.kept} documents kept and {load.deleted} deleted: each was looked for, and found or not. "
        f"{load.catalog}; {load.machine}.",
    ]
    return "\n".join(rows)


def _refused(kind: Kind) -> str:
    return ", ".join(f"{count / kind.count:.1%} with {status}" for status, count in sorted(kind.refused.items()))
