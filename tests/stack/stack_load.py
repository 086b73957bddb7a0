"""Searches and documents that keep coming while a part of the stack is away, with the outcome of each."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

# A search ends within this, whatever is away.
LIMIT_S = 5.0
_PAUSE_S = 0.2


@dataclass(frozen=True)
class Outcome:
    """`began_at` is of the monotonic clock; `fault` is empty for an answer with hits."""

    began_at: float
    seconds: float
    fault: str


@dataclass
class Load:
    """What was asked while it ran."""

    searches: list[Outcome] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)  # ids of documents
    refused_documents: int = 0
    fault_at: float = field(default_factory=time.monotonic)  # when a part went away
    back_at: float | None = None  # when it was there again

    @property
    def failed(self) -> list[Outcome]:
        return [each for each in self.searches if each.fault]

    @property
    def slowest_s(self) -> float:
        return max((each.seconds for each in self.searches), default=0)

    @property
    def late(self) -> list[Outcome]:
        """Searches that failed though they began more than LIMIT_S after the fault."""
        return [each for each in self.failed if each.began_at - self.fault_at > LIMIT_S]

    @property
    def overlong(self) -> list[Outcome]:
        return [each for each in self.searches if each.seconds > LIMIT_S]

    @property
    def failing_s(self) -> float:
        """From the return of the part to the last search that failed."""
        if self.back_at is None:
            return 0
        return max((each.began_at + each.seconds - self.back_at for each in self.failed), default=0)

    def faults(self) -> str:
        counted = Counter(each.fault for each in self.failed)
        return ", ".join(f"{number} × {fault}" for fault, number in counted.most_common())


@contextmanager
def load(
    client_of: Callable[[], httpx.Client], queries: Sequence[str], *, collection: str, label: str, searchers: int = 2
) -> Iterator[Load]:
    """Searches by `searchers` threads and documents by one, until the block ends."""
    done = threading.Event()
    found = Load()
    numbers = itertools.count()

    def search() -> None:
        with client_of() as client:
            while not done.is_set():
                number = next(numbers)
                # Words of its own, so that no cache answers.
                query = f"{queries[number % len(queries)]} {label} {number}"
                began = time.monotonic()
                fault = search_fault(client, {"query": query, "collection": collection, "limit": 5, "explain": False})
                found.searches.append(Outcome(began, time.monotonic() - began, fault))
                done.wait(_PAUSE_S)

    def add() -> None:
        with client_of() as client:
            for number in itertools.count():
                if done.is_set():
                    return
                text = f"Note {number} of {label}: {queries[number % len(queries)]}"
                body = {"text": text, "title": f"{label} {number}", "uri": f"note://{label}/{number}"}
                try:
                    answer = client.post("/api/v1/documents", json={**body, "collection": collection})
                    answer.raise_for_status()
                    found.accepted.append(answer.json()["document"]["id"])
                except httpx.HTTPError:
                    found.refused_documents += 1
                done.wait(_PAUSE_S)

    threads = [threading.Thread(target=search, daemon=True) for _ in range(searchers)]
    threads.append(threading.Thread(target=add, daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        done.set()
        for thread in threads:
            thread.join()


def search_fault(client: httpx.Client, question: dict[str, Any]) -> str:
    """Empty where hits came."""
    try:
        answer = client.post("/api/v1/search", json=question)
    except httpx.HTTPError as error:
        return type(error).__name__
    if answer.status_code != 200:
        return f"{answer.status_code} {_title(answer)}".strip()
    return "" if answer.json()["hits"] else "200 without hits"


def _title(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
    except ValueError:
        return ""
    return str(problem.get("title", "")) if isinstance(problem, dict) else ""
