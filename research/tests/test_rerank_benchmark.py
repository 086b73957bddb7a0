"""The benchmark of second looks: which texts are relevant, and that its figures come from the product's own ranking."""

from __future__ import annotations

import random

import numpy as np
import pytest

from research.benchmarks import rerank as benchmark
from research.benchmarks.rerank import BOTH, LOOK, NONE, PLAIN, TODAY, VALUES, Question, Source, compose, questions_of

ROWS = 24


@pytest.fixture
def source() -> Source:
    """Texts of four places and three topics: of their vectors the topics are by far the larger part."""
    places, topics = [row % 4 for row in range(ROWS)], [row // 4 % 3 for row in range(ROWS)]
    labels = {
        "place": [frozenset([f"place {each}"]) for each in places],
        "topic": [frozenset([f"topic {each}"]) for each in topics],
    }
    source = Source("made", [f"text {row}" for row in range(ROWS)], labels, {"place": "Place?", "topic": "Topic?"})
    place, topic = np.eye(8)[places], np.eye(8)[[4 + each for each in topics]]
    source.plain = _unit(0.2 * place + topic)
    source.asked = {"": source.plain, "place": source.plain, "topic": source.plain}
    source.seen = {"place": _unit(place + 0.2 * topic), "topic": source.plain}
    source.whole = source.seen
    source.names = {"place": np.eye(8)[:4], "topic": np.eye(8)[4:7]}
    source.index.create("made", dimension=8)
    points = [
        benchmark.Point(
            str(row), source.plain[row].tolist(), {"page_content": f"text {row}", "metadata": {"text_hash": ""}}
        )
        for row in range(ROWS)
    ]
    source.index.upsert("made", points)
    return source


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_relevant_is_what_shares_the_wanted_label_alone(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "_LEAST", 2)
    found = questions_of(source, random.Random(0))
    assert {each.aspect for each in found} == {"place", "topic"}
    for each in found:
        place, topic = each.row % 4, each.row // 4 % 3
        other = {at for at in each.rows if (at % 4 == place) != (at // 4 % 3 == topic)}
        assert each.row not in each.rows
        assert not any(at % 4 == place and at // 4 % 3 == topic for at in each.rows)
        wanted = {at for at in other if (at % 4 == place) == (each.aspect == "place")}
        assert each.relevant == wanted
    monkeypatch.setattr(benchmark, "_LEAST", 50)
    assert questions_of(source, random.Random(0)) == []


def test_a_second_look_finds_what_its_vectors_hold(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "_LEAST", 2)
    asked = next(each for each in questions_of(source, random.Random(0)) if each.aspect == "place")
    found = {system: benchmark.precision(asked, benchmark.rank(asked, system)) for system in benchmark.SYSTEMS}
    assert found[PLAIN] == found[NONE] == found[TODAY] == 0.0
    assert found[LOOK] == found[BOTH] == 1.0
    assert found[VALUES] >= found[TODAY]


def test_precision_counts_to_ten_or_to_as_many_as_are_relevant(source: Source) -> None:
    few = Question(source, 0, "place", frozenset({1, 2}), tuple(range(1, ROWS)))
    assert [benchmark.precision(few, ranked) for ranked in ([1, 2, 3], [3, 1, 2], [3, 4])] == [1.0, 0.5, 0.0]
    many = Question(source, 0, "place", frozenset(range(1, 20)), tuple(range(1, ROWS)))
    assert benchmark.precision(many, [20, 21, *range(1, 20)]) == 0.8


def test_composed_texts_hold_a_sentence_of_each_aspect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "_COMPOSED", 1)
    aspects = [
        {
            "aspect": name,
            "domain": name,
            "instructions": [f"Which {name}?"],
            "values": {f"{name} {value}": [f"{name} {value} said."] for value in "ab"},
        }
        for name in ("colour", "shape")
    ]
    (source,) = compose(aspects, random.Random(0))
    assert len(source.texts) == 4
    for row, text in enumerate(source.texts):
        assert all(f"{label} said." in text for labels in source.labels.values() for label in labels[row])
    assert sorted(source.instructions.values()) == ["Which colour?", "Which shape?"]


def test_the_mean_is_that_of_sources(source: Source) -> None:
    other = Source("other", ["x"], {}, {})
    asked = [Question(each, 0, "place", frozenset(), ()) for each in (source, source, source, other)]
    assert benchmark.by_source(asked, [1.0, 1.0, 1.0, 0.0]) == 50.0
