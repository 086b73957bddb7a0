"""Which candidates become hits: few of one document, none twice, prose before tables, and unlike ones on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InputError
from app.search.fusion import RankedPoint
from app.search.grouping import DEMOTION, FOLDED_BEYOND, diversify, fold_duplicates, prefer_prose
from app.search.reranking import Candidate
from app.testing import ToyEmbedder, text_source
from app.types.documents import ChunkKind, ScoredPoint
from app.types.search import Hit, SearchMode, SearchRequest
from app.types.values import LensValue

LONG = "\n\n".join(f"The ferry number {number} came late on the river." for number in range(12))
OTHERS = [f"A ferry of town {number}, seen by many people." for number in range(4)]


@pytest.fixture(scope="module")
def services(toy_services_class: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One long document has all of the nearest passages."""
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("grouping"), opened, embedder=ToyEmbedder())
        toy.services.library.create_collection("library", chunk_tokens=16, chunk_overlap=0)
        for number, text in enumerate([LONG, *OTHERS]):
            toy.services.library.add_document("library", text_source(f"text://{number}", text))
        toy.work_off()
        yield toy.services


def found(services: Any, **asked: Any) -> tuple[Hit, ...]:
    request = SearchRequest("The ferry came late on the river", "library", **{"limit": 5, **asked})
    return services.search.search(request, highlight=False).hits


def by_document(hits: tuple[Hit, ...]) -> Counter[str]:
    return Counter(hit.document.uri for hit in hits)


@pytest.mark.parametrize("mode", SearchMode)
def test_a_long_document_does_not_crowd_out_the_others(services: Any, mode: SearchMode) -> None:
    assert by_document(found(services, mode=mode)) == {"text://0": 5}
    hits = found(services, mode=mode, per_document=1)
    assert by_document(hits) == {f"text://{number}": 1 for number in range(5)}
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
    assert hits[0].chunk.id == found(services, mode=mode)[0].chunk.id
    assert by_document(found(services, mode=mode, per_document=2))["text://0"] == 2


BOOK = "\n\n".join(f"Chapter {number} of the old lighthouse by the northern sea." for number in range(60))
COPIES = ["The storm broke the harbour wall of the town in the night."] * 40
TOWNS = [f"In the town of mill {number * 7919} a {word} is kept." for number, word in enumerate("abcdefghijkl")]


@pytest.fixture(scope="module")
def crowded(toy_services_class: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A book and many copies of one text stand before everything else."""
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("crowded"), opened, embedder=ToyEmbedder())
        toy.services.library.create_collection("library", chunk_tokens=16, chunk_overlap=0)
        for number, text in enumerate([BOOK, *COPIES, *TOWNS]):
            toy.services.library.add_document("library", text_source(f"text://{number}", text))
        toy.work_off()
        yield toy.services


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("the old lighthouse by the northern sea", {"per_document": 1, "fold_duplicates": False}),
        ("the storm broke the harbour wall of the town in the night", {"fold_duplicates": True}),
        ("the old lighthouse in the storm", {"per_document": 2, "fold_duplicates": True, "diversity": 0.2}),
    ],
)
def test_ten_hits_are_ten_whatever_is_folded(crowded: Any, mode: SearchMode, query: str, options: Any) -> None:
    request = SearchRequest(query, "library", mode=mode, limit=10, **options)
    hits = crowded.search.search(request, highlight=False).hits
    assert [hit.rank for hit in hits] == list(range(1, 11))
    everything = crowded.search.search(SearchRequest(query, "library", mode=mode, limit=100), highlight=False).hits
    assert {hit.chunk.id for hit in hits} <= {hit.chunk.id for hit in everything} | {
        each.chunk.id for hit in everything for each in hit.duplicates
    }


def test_with_values_and_a_second_look_too(services: Any) -> None:
    values = (LensValue("river", ()), LensValue("town", ()))
    assert by_document(found(services, values=values))["text://0"] > 1
    assert max(by_document(found(services, values=values, per_document=1)).values()) == 1
    assert max(by_document(found(services, rerank=20, per_document=1)).values()) == 1


def test_none_of_a_document_is_no_number(services: Any) -> None:
    with pytest.raises(InputError, match="per_document must be at least 1"):
        found(services, per_document=0)


def candidate(name: str, score: float, text: str = "", *, context: str = "", kind: str = "") -> Candidate:
    metadata = {"document_id": name, "chunk_context": context} | ({"chunk_kind": kind} if kind else {})
    return Candidate(RankedPoint(ScoredPoint(name, score, {"page_content": text or name, "metadata": metadata})))


def names(candidates: Any) -> list[str]:
    return [each.ranked.point.id for each in candidates]


def test_tables_and_references_lose_a_part_of_their_score() -> None:
    ranked = [
        candidate("a", 1.0, kind="table"),
        candidate("b", 0.9),
        candidate("c", 0.85, kind="references"),
        candidate("d", 0.5),
        candidate("e", -0.1),
        candidate("f", -0.1, kind="table"),
    ]
    again = prefer_prose(ranked, "how do boats float")
    assert names(again) == ["b", "a", "c", "d", "e", "f"]
    assert again[1].ranked.point.score == pytest.approx(1 - DEMOTION)
    assert again[5].ranked.point.score < -0.1
    assert names(prefer_prose(ranked[1:2], "boats")) == ["b"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("table of boats", "table"),
        ("models above 67.8", "table"),
        ("who cited Mikolov", "references"),
        ("Devlin 2019", "references"),
        ("comfortable boats", "prose"),
    ],
)
def test_what_is_asked_for_is_not_demoted(query: str, first: str) -> None:
    ranked = [candidate(kind, 1 - n / 100, kind=kind) for n, kind in enumerate(("table", "references"))]
    ranked = sorted([*ranked, candidate("prose", 0.9)], key=lambda each: each.ranked.point.id != first)
    assert names(prefer_prose(ranked, query)).index(first) == 0


SENTENCES = "The ferry came late on the river because of the fog, and all who waited went home on foot that day."


def test_near_identical_passages_go_with_the_best_of_them() -> None:
    ranked = [
        candidate("a", 0.9, SENTENCES),
        candidate("b", 0.8, "Something else that is said of ferries."),
        candidate("c", 0.7, SENTENCES.replace("that day", "that night")),
        candidate("d", 0.6, SENTENCES.upper()),
        candidate("e", 0.5, SENTENCES, context="A country of quite another name › Its ferries and rivers and fogs"),
        candidate("f", 0.4, "A last one, of which nothing was said before."),
    ]
    folded = fold_duplicates(ranked, 10)
    assert names(folded) == ["a", "b", "e", "f"]
    assert [point.id for point in folded[0].duplicates] == ["c", "d"]
    assert names(fold_duplicates(ranked, 1)) == ["a"]
    assert [point.id for point in fold_duplicates(ranked, 1)[0].duplicates] == ["c", "d"]


def test_twins_far_below_the_last_are_not_looked_for() -> None:
    others = [
        candidate(str(n), 0.8 - n / 100, f"Number {n} is unlike {n + 1} in all {n + 2}.")
        for n in range(2 * FOLDED_BEYOND)
    ]
    ranked = [candidate("a", 0.9, SENTENCES), *others, candidate("z", 0.1, SENTENCES)]
    assert [point.id for point in fold_duplicates(ranked, len(ranked))[0].duplicates] == ["z"]
    assert fold_duplicates(ranked, 1)[0].duplicates == ()


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + 3]) for at in range(max(1, len(words) - 2))}


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=14).map(" ".join), max_size=12))
@settings(deadline=None)
def test_exactly_those_that_share_four_fifths_of_their_shingles_are_folded(texts: list[str]) -> None:
    kept: list[str] = []
    for text in texts:
        own = shingles(text)
        if not any(len(own & shingles(each)) >= 0.8 * len(own | shingles(each)) for each in kept):
            kept.append(text)
    ranked = [candidate(str(number), 1.0, text) for number, text in enumerate(texts)]
    folded = fold_duplicates(ranked, len(ranked))
    assert [each.ranked.point.payload["page_content"] for each in folded] == kept
    assert sum(1 + len(each.duplicates) for each in folded) == len(ranked)


def test_diversity_takes_what_is_unlike_what_ranks_above() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.99, 0.14], "c": [0.0, 1.0]}
    ranked = [candidate("a", 0.9), candidate("b", 0.8), candidate("c", 0.5), candidate("gone", 0.4)]
    assert names(diversify(ranked, vectors, 0.0, 3)) == ["a", "b", "c"]
    assert names(diversify(ranked, vectors, 0.6, 3)) == ["a", "c", "b"]
    assert names(diversify(ranked, vectors, 0.6, 2)) == ["a", "c"]
    assert diversify(ranked[3:], vectors, 0.6, 2) == []


def test_diverse_hits_are_less_alike(services: Any) -> None:
    toy = ToyEmbedder()

    def likeness(**asked: Any) -> float:
        vectors = toy.embed_documents([hit.chunk.text for hit in found(services, **asked)], instruction="", steps=2)
        return float(np.mean([np.dot(one, other) for one, other in pairwise(vectors)]))

    assert likeness(diversity=0.9) < likeness() - 0.1
    assert likeness(diversity=0.9, values=(LensValue("river", ()), LensValue("town", ()))) < likeness() - 0.1
    assert found(services, diversity=0.9)[0] == found(services)[0]


def test_hits_tell_their_kind_and_what_was_folded_into_them(toy_services_class: Any, tmp_path: Path) -> None:
    scores = "ferry 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 river 9.5 10.5 late 11.5"
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path, opened, embedder=ToyEmbedder())
        toy.services.library.create_collection("library")
        for number, text in enumerate([SENTENCES, SENTENCES, scores]):
            toy.services.library.add_document("library", text_source(f"text://{number}", text))
        toy.work_off()
        hits = found(toy.services)
        assert [hit.chunk.kind for hit in hits] == [ChunkKind.PROSE, ChunkKind.TABLE]
        (twin,) = hits[0].duplicates
        assert {hits[0].document.uri, twin.document.uri} == {"text://0", "text://1"}
        assert twin.chunk.text == SENTENCES
        assert len(found(toy.services, fold_duplicates=False)) == 3
        assert len(found(toy.services, limit=1)) == 1


@pytest.mark.parametrize("diversity", [-0.1, 1.1, float("nan")])
def test_diversity_is_a_share(services: Any, diversity: float) -> None:
    with pytest.raises(InputError, match="diversity must be from 0 to 1"):
        found(services, diversity=diversity)
