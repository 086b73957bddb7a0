"""Runs the calls of one client and prints a JSON line for each, which scripts/client_matrix.py reads.

A script gets the addresses of both servers from the environment: APPLICATION and EMBEDDER, the latter with
EMBEDDER_KEY.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TypeVar

APPLICATION, EMBEDDER, EMBEDDER_KEY = (os.environ[name] for name in ("APPLICATION", "EMBEDDER", "EMBEDDER_KEY"))
E = TypeVar("E", bound=Exception)
MODEL = "gircse-small"
DIMENSION = 384
INSTRUCTION = "Identify the problem that the message describes."
QUERY = "Where is my new card?"
# The first one answers the query.
TEXTS = ["The card that you ordered has not arrived yet.", "The office opens at nine.", "Bake the bread for an hour."]


def run_calls(client: str, calls: dict[str, Callable[[], str]]) -> None:
    """client: the distribution that is tested. Each call returns its result in a few words, or raises."""
    for name, call in calls.items():
        line = {"client": client, "version": version(client), "call": name}
        try:
            line["result"] = call()
        except Exception as error:  # noqa: BLE001 - the matrix shows any failure
            line["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(line), flush=True)


def raised(kind: type[E], call: Callable[[], object]) -> E:
    """The exception of the call."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("accepted")


def checked_vectors(vectors: Sequence[Sequence[float]], count: int) -> str:
    lengths = [len(vector) for vector in vectors]
    assert lengths == [DIMENSION] * count, f"{lengths} instead of {count} vectors of {DIMENSION} numbers"
    squares = [sum(number * number for number in vector) for vector in vectors]
    assert all(abs(square - 1) < 1e-3 for square in squares), f"not of length 1: {squares}"
    return f"{count} vectors of {DIMENSION} numbers" if count > 1 else f"a vector of {DIMENSION} numbers"


def checked_ranking(indexes: Sequence[int], count: int = len(TEXTS)) -> str:
    """indexes: the positions of TEXTS, best first."""
    assert len(indexes) == count, f"{len(indexes)} results instead of {count}"
    assert indexes[0] == 0, f"text {indexes[0]} is first"
    return f"{count} of {len(TEXTS)} texts, the relevant one first"


def checked_hits(texts: Sequence[str]) -> str:
    """texts: passages of the collection `letters`, best first."""
    assert texts, "no hits"
    assert TEXTS[0] in texts[0], f"first is {texts[0]!r}"
    return f"{len(texts)} hits, the relevant one first"
