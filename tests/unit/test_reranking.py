"""A second look: how scores join, what a search does with it, and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from api_application import api_of
from cross_encoders import save_tiny_cross_encoder
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InputError, RerankerUnavailableError
from app.ports.rerank import RerankPassage
from app.search.fusion import RankedPoint
from app.search.gircse_reranker import MOST_CHARACTERS, EmbedderReranker, beginning_of
from app.search.reranking import RERANK_WEIGHT, Candidate, join_scores, rerank
from app.search.stages import StageName, search_in_stages
from app.search.value_syntax import parse_values
from app.settings import Settings, load_settings
from app.testing import ToyEmbedder
from app.types.documents import ScoredPoint
from app.types.search import MAX_RERANK, SearchMode, SearchRequest
from app.wiring.query_template import QueryTemplate
from app.wiring.rerankers import reranker_for

MOOD = "sleeps dreams"  # as an instruction: the toy counts its words on both sides
TEXTS = ("cat one", "cat sleeps", "cat sleeps dreams often at night", "dog dreams", "rates rise")


class Scores:
    """Implements `Reranker` with given scores."""

    def __init__(self, *scores: float) -> None:
        self._scores = scores
        self.asked: list[tuple[str, list[str], str]] = []

    def scores(self, query: str, passages: Any, *, instruction: str) -> list[float]:
        self.asked.append((query, [each.text for each in passages], instruction))
        return list(self._scores[: len(passages)])

    def close(self) -> None:
        """Nothing is held open."""


def candidates(*scores: float) -> list[Candidate]:
    def point(name: str, score: float) -> ScoredPoint:
        return ScoredPoint(name, score, {"page_content": f"text {name}", "metadata": {"text_hash": name}})

    return [Candidate(RankedPoint(point(name, score))) for name, score in zip("abcdefg", scores, strict=False)]


def ask(**more: Any) -> SearchRequest:
    return SearchRequest("cat", "library", MOOD, **more)


def ids(found: Any) -> list[str]:
    return [each.ranked.point.id for each in found]


def test_scores_are_added_without_scaling() -> None:
    joined = join_scores([0.8, 0.6, 0.4], [0.2, 0.4], weight=0.25)
    assert joined == pytest.approx([0.65, 0.55, 0.3])
    assert join_scores([0.3], [-0.2], weight=0.25) == pytest.approx([0.175])  # the best of all need not be good
    assert join_scores([], [], weight=0.25) == []


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=12),
    st.lists(st.floats(-1, 1), min_size=1, max_size=12),
    st.floats(0, 1),
)
def test_what_was_not_looked_at_stays_below(first: list[float], second: list[float], weight: float) -> None:
    first, second = sorted(first, reverse=True), second[: len(first)]
    joined = join_scores(first, second, weight=weight)
    assert len(joined) == len(first)
    assert all(-1 - 1e-9 <= each <= 1 + 1e-9 for each in joined)
    assert max(joined[len(second) :], default=-1.0) <= min(joined[: len(second)]) + 1e-9


def test_the_first_are_ranked_anew_and_tell_where_they_stood() -> None:
    reranker = Scores(0.1, 0.5, 0.9)
    found = rerank(reranker, candidates(1.0, 0.9, 0.8, 0.7, 0.6), ask(rerank=3), instruction=MOOD)
    assert ids(found.candidates) == ["c", "b", "a", "d", "e"]
    assert [(each.moved_from, each.rerank_score) for each in found.candidates] == [
        (3, 0.9),
        (2, 0.5),
        (1, 0.1),
        (None, None),
        (None, None),
    ]
    scores = [each.ranked.point.score for each in found.candidates]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx((1 - RERANK_WEIGHT) * 0.8 + RERANK_WEIGHT * 0.9)
    assert reranker.asked == [("cat", ["text a", "text b", "text c"], MOOD)]


def test_bm25_scores_are_scaled_before_they_are_added() -> None:
    words = ask(rerank=1, mode=SearchMode.SPARSE)
    found = rerank(Scores(0.1), candidates(30.0, 9.0), words, instruction="").candidates
    best, second = (candidate.ranked.point.score for candidate in found)
    assert 0 < second < best < (1 - RERANK_WEIGHT) + 0.1 * RERANK_WEIGHT


def test_of_a_passage_the_beginning_is_looked_at_and_of_other_texts_all() -> None:
    embedder = ToyEmbedder()
    embedder.embedded_texts.clear()
    text = "word " * 100
    passages = [RerankPassage("chunk", text, "a"), RerankPassage("", text, "a"), RerankPassage("short", "a cat", "b")]
    EmbedderReranker(embedder).scores("cat", passages, instruction="")
    assert sorted(map(len, embedder.embedded_texts)) == [5, MOST_CHARACTERS - 1, len(text)]
    assert beginning_of("x" * 500) == "x" * MOST_CHARACTERS
    assert beginning_of("one two", 6) == "one"
    assert beginning_of("one two", 7) == "one two"


def test_ties_keep_their_first_order() -> None:
    assert ids(rerank(Scores(0, 0, 0), candidates(1, 1, 1), ask(rerank=3), instruction="").candidates) == [
        "a",
        "b",
        "c",
    ]


@pytest.fixture
def zoo(toy_services: Any) -> Any:
    for text in TEXTS:
        toy_services.add(text)
    return toy_services


@pytest.fixture(scope="module")
def client(lasting_services: Any) -> TestClient:
    for text in TEXTS:
        lasting_services.add(text)
    return TestClient(api_of(lasting_services.services))


def texts_of(result: Any) -> list[str]:
    return [hit.chunk.text for hit in result.hits]


@pytest.mark.parametrize("mode", SearchMode)
def test_a_search_looks_again_at_as_many_as_it_is_asked_to(zoo: Any, mode: SearchMode) -> None:
    search = zoo.services.search
    plain = search.search(ask(mode=mode, limit=3))
    assert ("rerank" in plain.timings_ms, plain.notes, {hit.moved_from for hit in plain.hits}) == (False, (), {None})
    again = search.search(ask(mode=mode, limit=3, rerank=5))
    assert "rerank" in again.timings_ms
    assert all(hit.moved_from is not None and hit.rerank_score is not None for hit in again.hits)
    assert len(again.hits) == 3
    one = search.search(ask(mode=mode, limit=3, rerank=1))
    assert texts_of(one) == texts_of(plain)
    assert [hit.moved_from for hit in one.hits] == [1, None, None]


def test_a_hit_may_come_from_beyond_the_limit(zoo: Any) -> None:
    search = zoo.services.search
    first = texts_of(search.search(ask(limit=5)))
    best = search.search(ask(limit=1, rerank=5)).hits[0]
    assert best.chunk.text == first[best.moved_from - 1]


def test_values_and_filters_hold_for_a_second_look(zoo: Any) -> None:
    values = parse_values(["cat", "dog", "rates"])
    result = zoo.services.search.search(ask(values=values, rerank=5, limit=2))
    assert result.values.passages == 5
    assert {hit.value.name for hit in result.hits} == {"cat"}
    only = zoo.services.search.search(ask(values=values, value="dog", rerank=5))
    assert texts_of(only) == ["dog dreams"]


@pytest.mark.parametrize("count", [-1, MAX_RERANK + 1])
def test_counts_out_of_bounds_are_refused(zoo: Any, client: TestClient, count: int) -> None:
    with pytest.raises(InputError, match="0 to 200"):
        zoo.services.search.search(ask(rerank=count))
    assert client.post("/api/v1/search", json={"query": "cat", "rerank": count}).status_code == 422


def test_an_empty_collection_needs_no_second_look(toy_services: Any) -> None:
    toy_services.services.library.ensure_collection("library")
    result = toy_services.services.search.search(ask(rerank=50))
    assert (result.hits, result.notes) == ((), ())


def test_passages_are_embedded_once_for_an_instruction_and_anew_for_another(zoo: Any) -> None:
    def embedded(**more: Any) -> int:
        zoo.embedder.embedded_texts.clear()
        zoo.services.search.search(SearchRequest("cat", "library", rerank=5, **more), highlight=False)
        return len(zoo.embedder.embedded_texts)

    assert [embedded(instruction=MOOD) for _ in range(2)] == [5, 0]
    assert embedded(instruction="Which topic?") == 5
    assert embedded(instruction=MOOD, filters={"title": "none"}) == 0


def test_reranking_and_grades_embed_the_query_once(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int | None] = []
    embed = zoo.embedder.embed_query

    def watched(text: str, **options: Any) -> Any:
        steps.append(options["steps"])
        return embed(text, **options)

    info = replace(zoo.embedder.info, match_cosines=(0.2, 0.4))
    monkeypatch.setattr(type(zoo.embedder), "info", info)
    monkeypatch.setattr(zoo.embedder, "embed_query", watched)
    result = zoo.services.search.search(ask(rerank=5, steps=3))
    assert all(hit.match is not None for hit in result.hits)
    assert sorted(steps) == [1, 3]


def test_no_more_vectors_are_kept_than_said_and_none_of_another_model() -> None:
    embedder = ToyEmbedder()
    reranker = EmbedderReranker(embedder, kept=2)
    three = [RerankPassage(str(at), f"text {at}", str(at)) for at in range(3)]

    def embedded(passages: list[RerankPassage]) -> list[str]:
        embedder.embedded_texts.clear()
        reranker.scores("text", passages, instruction="")
        return list(embedder.embedded_texts)

    assert len(embedded(three)) == 3
    assert embedded(three[1:]) == []  # the last two
    assert embedded(three[:1]) == ["text 0"]
    assert embedded([RerankPassage("0", "text 0 changed", "new")]) == ["text 0 changed"]
    embedder.fingerprint = "toy-2"
    assert len(embedded(three[:1])) == 1
    assert len(EmbedderReranker(embedder, kept=0).scores("text", three, instruction="")) == 3


def test_passages_go_in_calls_that_wait_among_the_queries() -> None:
    calls: list[list[str]] = []

    class Watched(ToyEmbedder):
        def embed_documents(self, texts: Any, *, instruction: str, steps: int) -> list[list[float]]:
            calls.append(list(texts))
            return super().embed_documents(texts, instruction=instruction, steps=steps)

    passages = [RerankPassage(str(at), f"{at} " + "word " * (40 * at), str(at)) for at in range(100)]
    scores = EmbedderReranker(Watched()).scores("word", passages, instruction="")
    assert all(len(call) <= 32 and sum(map(len, call)) <= 20_000 for call in calls)
    assert sum(map(len, calls)) == 100
    alone = [EmbedderReranker(ToyEmbedder()).scores("word", [each], instruction="")[0] for each in passages]
    np.testing.assert_allclose(scores, alone, atol=1e-6)


def test_stages_show_the_first_ranking_then_what_moved(zoo: Any) -> None:
    request = ask(rerank=5, steps=9)
    stages = list(search_in_stages(zoo.services.search, request, steps=9))
    assert [each.name for each in stages] == [
        StageName.FIRST,
        StageName.RANKED,
        StageName.RERANKED,
        StageName.HIGHLIGHTED,
    ]
    assert [{hit.moved_from is None for hit in each.result.hits} for each in stages] == [
        {True},
        {True},
        {False},
        {False},
    ]
    ranked, reranked = stages[1].result, stages[2].result
    for hit in reranked.hits:
        assert texts_of(ranked)[hit.moved_from - 1] == hit.chunk.text
    assert texts_of(stages[3].result) == texts_of(reranked) == texts_of(zoo.services.search.search(request))


def test_over_http_a_hit_says_what_it_was_and_had(client: TestClient) -> None:
    asked = {"query": "cat", "collection": "library", "instruction": MOOD, "rerank": 50}
    answer = client.post("/api/v1/search", json=asked).json()
    assert sorted(hit["moved_from"] for hit in answer["hits"]) == [1, 2, 3, 4, 5]
    assert all(0 <= hit["rerank_score"] <= 1 for hit in answer["hits"])
    assert answer["timings_ms"]["rerank"] > 0
    events = client.post("/api/v1/search", json=asked, headers={"accept": "text/event-stream"}).text
    assert [line[7:] for line in events.splitlines() if line.startswith("event:")] == [
        "ranked",
        "reranked",
        "explained",
    ]


def test_texts_of_the_caller_are_ranked(client: TestClient) -> None:
    asked = {"query": "cat", "documents": ["dog", "cat", "cat dog"], "instruction": ""}
    answer = client.post("/v1/rerank", json=asked).json()
    assert [row["index"] for row in answer["results"]] == [1, 2, 0]
    assert [row["relevance_score"] for row in answer["results"]] == pytest.approx([1, 0.5**0.5, 0], abs=1e-6)
    assert answer["results"][0].keys() == {"index", "relevance_score"}
    best = client.post("/v1/rerank", json={**asked, "top_n": 1, "return_documents": True, "model": "x"}).json()
    assert best["results"] == [{"index": 1, "relevance_score": pytest.approx(1), "document": {"text": "cat"}}]


def test_values_rank_texts_of_the_caller(client: TestClient) -> None:
    asked = {"query": "a kitten", "documents": ["rates", "tomcat", "kitten"], "instruction": ""}
    values = ["animal = kitten, tomcat", "money = rates"]
    assert [row["index"] for row in client.post("/v1/rerank", json=asked).json()["results"]] == [2, 0, 1]
    found = client.post("/v1/rerank", json={**asked, "values": values}).json()["results"]
    assert [row["index"] for row in found] == [2, 1, 0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"documents": ["a\ud800"]}, "document 0"),
        ({"documents": ["a" * 2_500_000, "b" * 2_500_000]}, "5,000,000 characters"),
        ({"query": "x" * 100_001}, "100000 characters"),
        ({"values": ["one"]}, "2 to 200"),
        ({"top_n": 0}, "top_n"),
        ({"instruction": "a\ud800"}, "instruction"),
    ],
)
def test_the_application_refuses_invalid_bodies(client: TestClient, change: dict[str, Any], reason: str) -> None:
    body = json.dumps({"query": "cat", "documents": ["x"], **change})  # with escapes for what is no Unicode
    answer = client.post("/v1/rerank", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, reason in answer.json()["error"]["message"]) == (400, True), answer.text


def test_a_template_reads_nothing_in_a_query() -> None:
    template = QueryTemplate("<Instruct>: {instruction}\n<Query>: {query}")
    assert template.fill("{instruction}", "{query}") == "<Instruct>: {query}\n<Query>: {instruction}"
    assert template.fill("{query.__class__}", "") == "{query.__class__}"


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"RERANK_BY": "cross-encoder"}, "needs GIRCSE_RERANK_MODEL"),
        ({"RERANK_BY": "server"}, "go together"),
        ({"RERANK_URL": "http://localhost:1/rerank"}, "go together"),
        ({"RERANK_BY": "server", "RERANK_URL": "localhost:1"}, "give a URL"),
        ({"RERANK_QUERY": "query"}, "has no {query}"),
        ({"RERANK_STEPS": "0"}, "GIRCSE_RERANK_STEPS"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], reason: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"GIRCSE_{name}", value)
    with pytest.raises(InputError, match=reason):
        load_settings()


def test_a_model_that_is_not_there_is_told_at_once_or_with_the_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    with pytest.raises(InputError, match="no folder"):
        reranker_for(Settings(rerank_by="cross-encoder", rerank_model=str(tmp_path / "none")), ToyEmbedder())
    two = save_tiny_cross_encoder(tmp_path, labels=2)
    reranker = reranker_for(Settings(rerank_by="cross-encoder", rerank_model=str(two)), ToyEmbedder())
    for _ in range(2):
        with pytest.raises(RerankerUnavailableError, match="2 scores per pair"):
            reranker.scores("cat", [RerankPassage("", "text", "")], instruction="")
