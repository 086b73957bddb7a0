"""What each call that changes or removes points leaves in the indexes of payloads: filters, counts and facets see what
the points have, and nothing that they had. docs/reliability.md has the table of these calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models
from test_vector_index import connected_index, edge, edge_index, index, new_name, point_id, server_index
from test_vector_index import pytestmark as pytestmark  # warnings of the client's memory

from app.maintenance.optimize import optimize_index
from app.ports.parts import Labels, SearchedIndex, VectorIndex
from app.types.documents import Point
from app.types.lens_indexes import Label
from app.vectors import QdrantVectorIndex, tuning

__all__ = ["connected_index", "edge", "edge_index", "index", "server_index"]  # the fixtures

READING = {
    "all_labels", "aliases", "condition", "count", "count_unlabelled", "exists", "has_sparse", "indexes", "inspect",
    "is_alive", "label_counts", "labelled", "lacks_replicas", "owned_labels", "owned_vectors", "payloads", "point_ids",
    "points_of", "present_ids", "retrieve", "scan", "search", "search_beside", "search_legs", "search_sparse",
    "unlabelled", "vectors",
}  # fmt: skip
TABLE = Path(__file__).parents[2] / "docs" / "reliability.md"
FIELD = "lens_a"
TOPIC, YEAR = "metadata.topic", "metadata_numbers.year"
DIMENSION, COUNT = 32, 60
NORTH = [1.0] + [0.0] * (DIMENSION - 1)


@dataclass(frozen=True)
class Chunk:
    """A point as it should be."""

    document_id: str = "d1"
    topic: str | None = "a"
    year: int | None = 1999
    label: int | None = None

    @property
    def payload(self) -> dict[str, Any]:
        metadata = {"document_id": self.document_id, "topic": self.topic, "year": self.year}
        return {
            "page_content": "a text",
            "metadata": {key: value for key, value in metadata.items() if value is not None},
        }


@dataclass
class Filled:
    """An index and what it should hold, by number."""

    index: VectorIndex
    name: str
    chunks: dict[int, Chunk] = field(default_factory=dict)
    has_labels: bool = True

    def write(self, chunks: Mapping[int, Chunk]) -> None:
        """As ingestion does it: points, and then their labels."""
        self.index.upsert(self.name, [Point(point_id(n), NORTH, chunk.payload) for n, chunk in chunks.items()])
        self.chunks |= {number: replace(chunk, label=None) for number, chunk in chunks.items()}
        self.label({number: chunk.label for number, chunk in chunks.items() if chunk.label is not None})

    def label(self, labels: Mapping[int, int]) -> None:
        self.index.set_labels(self.name, FIELD, {point_id(n): {"value": value} for n, value in labels.items()})
        self.chunks |= {number: replace(self.chunks[number], label=value) for number, value in labels.items()}

    def check(self) -> None:
        chunks = self.chunks.values()
        for document_id in ("d1", "d2", "d3"):
            assert self._found_by("document_id", document_id) == self._having("document_id", document_id)
            assert self.index.count(self.name, document_id=document_id) == len(self._having("document_id", document_id))
        for topic in ("a", "b", "c"):
            assert self._found_by("topic", topic) == self._having("topic", topic)
        for year in (1999, 2001, 2002):
            assert self._found_by("year", str(year)) == self._having("year", year)
        for value in (0, 1, 2):
            hits = self.index.search(self.name, NORTH, limit=COUNT + 9, label=Label(FIELD, value))
            assert {hit.id for hit in hits} == self._having("label", value)
        labelled = [each.id for page in self.index.labelled(self.name, FIELD) for each in page]
        assert sorted(labelled) == sorted(set().union(*(self._having("label", value) for value in (0, 1, 2))))
        assert self.index.count_unlabelled(self.name, FIELD) == sum(chunk.label is None for chunk in chunks)
        if self.has_labels:
            expected = Counter(chunk.label for chunk in chunks if chunk.label is not None)
            assert self.index.label_counts(self.name, FIELD) == expected
        assert self.index.count(self.name) == len(self.chunks)
        if isinstance(self.index, QdrantVectorIndex):
            self._check_conditions(self.index)

    def _check_conditions(self, index: QdrantVectorIndex) -> None:
        """Each kind of condition by itself, in the engine's own words."""
        kept = {
            "metadata.document_id": [chunk.document_id for chunk in self.chunks.values()],
            TOPIC: [chunk.topic for chunk in self.chunks.values()],
            YEAR: [chunk.year for chunk in self.chunks.values()],
            f"{FIELD}.value": [chunk.label for chunk in self.chunks.values()],
        }

        def count(condition: Any) -> int:
            found = models.Filter(must=[condition])
            return index.client.count(self.name, count_filter=found, exact=True).count

        for key, values in kept.items():
            there = [value for value in values if value is not None]
            empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
            assert count(empty) == len(values) - len(there), f"is_empty of {key}"
            if any(isinstance(value, int) for value in there):
                assert count(models.FieldCondition(key=key, range=models.Range(gte=0))) == len(there), f"range of {key}"
            for value in {*there, "a", 1} if key != YEAR else ():
                if isinstance(value, str) == (key in (TOPIC, "metadata.document_id")):
                    match = models.FieldCondition(key=key, match=models.MatchValue(value=value))
                    assert count(match) == there.count(value), f"match of {key}"
            if key == YEAR or (key.startswith(FIELD) and not self.has_labels):
                continue
            hits = index.client.facet(self.name, key, exact=True).hits
            assert {hit.value: hit.count for hit in hits if hit.count} == Counter(there), f"facet of {key}"

    def _found_by(self, key: str, value: str) -> set[str]:
        hits = self.index.search(self.name, NORTH, limit=COUNT + 9, filters={key: value})
        return {hit.id for hit in hits}

    def _having(self, what: str, value: object) -> set[str]:
        return {point_id(number) for number, chunk in self.chunks.items() if getattr(chunk, what) == value}


@pytest.fixture(params=["as-written", pytest.param("optimized", marks=pytest.mark.long)])
def filled(request: pytest.FixtureRequest, index: VectorIndex, monkeypatch: pytest.MonkeyPatch) -> Filled:
    """Sixty chunks of two documents, two thirds with labels, and an index of everything that is filtered by. Also
    optimised: a server then keeps them in a segment that it does not write to, and moves what changes to another."""
    monkeypatch.setattr(tuning, "GRAPH_FROM_KB", 1)
    name = new_name("payloads")
    index.create(name, dimension=DIMENSION)
    index.add_labels(name, FIELD)
    if isinstance(index, QdrantVectorIndex):
        index.client.create_payload_index(name, TOPIC, models.PayloadSchemaType.KEYWORD)
        index.client.create_payload_index(name, YEAR, models.PayloadSchemaType.FLOAT)
    found = Filled(index, name)
    found.write(
        {
            number: Chunk(
                document_id=f"d{1 + number % 2}",
                topic="ab"[number % 2],
                year=1999 if number % 4 else 2001,
                label=number % 2 if number % 3 else None,
            )
            for number in range(1, COUNT + 1)
        }
    )
    if request.param == "optimized":
        optimize_index(index, name, poll_interval_s=0.02)
    found.check()
    return found


def test_create_again_leaves_them(filled: Filled) -> None:
    filled.index.create(filled.name, dimension=DIMENSION)
    filled.check()


def test_upsert_of_new_points(filled: Filled) -> None:
    filled.write({100: Chunk(label=1), 101: Chunk(document_id="d3", topic="c", year=2002)})
    filled.check()


def test_upsert_over_points_that_are_there(filled: Filled) -> None:
    """What the new payload lacks is gone, labels among it."""
    filled.write({1: Chunk(document_id="d3", topic="c", year=2002), 2: Chunk(topic=None, year=None), 3: Chunk(label=2)})
    filled.check()


def set_payloads(filled: Filled, chunks: Mapping[int, Chunk]) -> None:
    filled.index.set_payloads(filled.name, {point_id(number): chunk.payload for number, chunk in chunks.items()})
    for number, chunk in chunks.items():
        if number in filled.chunks:
            filled.chunks[number] = replace(chunk, label=filled.chunks[number].label)


def test_set_payloads(filled: Filled) -> None:
    """Fields that the new metadata lack are gone; labels stay. So twice, and of a point that is not there."""
    set_payloads(filled, {1: Chunk("d3", topic="c", year=2002), 2: Chunk(topic=None, year=None), 404: Chunk("d3")})
    filled.check()
    set_payloads(filled, {1: Chunk("d1"), 2: Chunk("d2", topic="b")})
    filled.check()


def test_set_labels(filled: Filled) -> None:
    filled.label({1: 2, 2: 1, 3: 0})  # two that have one, and one that had none
    filled.check()
    filled.index.set_labels(filled.name, FIELD, {point_id(404): {"value": 1}})
    filled.check()


def test_add_labels_to_points_that_have_them(filled: Filled) -> None:
    filled.index.add_labels(filled.name, FIELD)
    filled.check()
    other = "lens_b"
    filled.index.set_labels(filled.name, other, {point_id(1): {"value": 5}})
    filled.index.add_labels(filled.name, other)
    assert filled.index.label_counts(filled.name, other) == {5: 1}
    filled.check()


def test_drop_labels(filled: Filled) -> None:
    """Nothing of the former ones comes back with an index of new ones."""
    filled.index.drop_labels(filled.name, FIELD)
    filled.chunks = {number: replace(chunk, label=None) for number, chunk in filled.chunks.items()}
    filled.has_labels = False
    filled.check()
    filled.index.drop_labels(filled.name, FIELD)
    filled.index.add_labels(filled.name, FIELD)
    filled.has_labels = True
    filled.check()
    filled.label({1: 1, 3: 0})
    filled.check()


def test_documents_are_deleted_after_labels_were_dropped(filled: Filled) -> None:
    filled.index.drop_labels(filled.name, FIELD)
    filled.index.delete_document(filled.name, "d1")
    filled.has_labels = False
    filled.chunks = {n: replace(chunk, label=None) for n, chunk in filled.chunks.items() if chunk.document_id != "d1"}
    filled.check()


def test_delete_points(filled: Filled) -> None:
    """And written again they have nothing of what they had."""
    gone = [1, 2, 3, 4]
    filled.index.delete_points(filled.name, [point_id(number) for number in (*gone, 404)])
    for number in gone:
        del filled.chunks[number]
    filled.check()
    filled.write({1: Chunk("d3", topic=None, year=None)})
    filled.check()


def test_delete_document(filled: Filled) -> None:
    filled.index.delete_document(filled.name, "d2")
    filled.chunks = {number: chunk for number, chunk in filled.chunks.items() if chunk.document_id != "d2"}
    filled.check()


def test_drop_and_create_leave_nothing(filled: Filled) -> None:
    filled.index.drop(filled.name)
    filled.index.create(filled.name, dimension=DIMENSION)
    filled.index.add_labels(filled.name, FIELD)
    filled.chunks = {}
    assert filled.index.label_counts(filled.name, FIELD) == {}
    assert filled.index.count(filled.name, document_id="d1") == filled.index.count_unlabelled(filled.name, FIELD) == 0


def test_optimize_after_changes(filled: Filled) -> None:
    filled.write({1: Chunk(document_id="d3", topic="c", year=2002, label=2)})
    filled.index.delete_points(filled.name, [point_id(2)])
    del filled.chunks[2]
    set_payloads(filled, {3: Chunk("d1", topic=None, year=None)})
    optimize_index(filled.index, filled.name, poll_interval_s=0.02)
    filled.check()


def test_point_to_changes_none(filled: Filled) -> None:
    alias = new_name("library")
    filled.index.point_to(alias, filled.name)
    filled.check()
    Filled(filled.index, alias, filled.chunks).check()


def calls_of_the_port() -> set[str]:
    ports: Sequence[type] = (Labels, SearchedIndex, VectorIndex)
    return {name for port in ports for name in vars(port) if not name.startswith("_")}


def test_every_call_that_changes_points_stands_in_the_table_and_is_tried_here() -> None:
    after = TABLE.read_text("utf-8").split("## What a change leaves in the indexes of payloads\n")[1]
    section = after.split("\n## ")[0]
    rows = {
        name
        for line in section.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert rows == calls_of_the_port() - READING
    tests = Path(__file__).read_text("utf-8")
    called = {*re.findall(r"index\.(\w+)\(", tests), *re.findall(r"(\w+)_index\(", tests)}  # optimize_index
    assert rows <= called
