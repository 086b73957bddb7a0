"""Search by vector, by words and by both, and towards or away from chunks that were found."""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import ConflictError, EmbedderUnavailableError, EmptyQueryError, FilterError, InputError
from app.search.retrieval import LIKE_WEIGHT, UNLIKE_WEIGHT, move_vector
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import utc_now
from app.types.search import MAX_FEEDBACK, Leg, LegRank, SearchMode, SearchRequest
from app.types.weights import CrossValidation, WeightTuning

CAT = "The cat sleeps on the sofa. It dreams of mice."
RATES = "The bank raised interest rates. Savers were glad."
BANK = "We sat on the bank of the river for a while."
MODES = list(SearchMode)


class CountingEmbedder(ToyEmbedder):
    queries = 0

    def embed_query(self, text: str, **options: Any) -> Any:
        self.queries += 1
        return super().embed_query(text, **options)


@pytest.fixture
def application(toy_services_factory: Callable[..., Any]) -> Any:
    application = toy_services_factory(embedder=CountingEmbedder(dimension=4096))
    application.add(CAT, metadata={"kind": "animal"})
    application.add(RATES, metadata={"kind": "money"})
    application.add(BANK, metadata={"kind": "water"})
    return application


def ask(query: str, mode: SearchMode = SearchMode.HYBRID, **more: Any) -> SearchRequest:
    return SearchRequest(query=query, collection="library", mode=mode, **more)


def texts(result: Any) -> list[str]:
    return [hit.chunk.text for hit in result.hits]


def test_sparse_finds_only_what_shares_a_word(application: Any) -> None:
    result = application.services.search.search(ask("Banks?", SearchMode.SPARSE))
    assert texts(result) == [RATES, BANK]  # the shorter first
    assert result.mode is SearchMode.SPARSE
    assert [hit.rank for hit in result.hits] == [1, 2]
    assert [hit.legs for hit in result.hits] == [(), ()]
    assert result.hits[0].score > result.hits[1].score > 0


def test_sparse_ranks_and_highlights_without_the_model(application: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_away(*_: object, **__: object) -> None:
        raise EmbedderUnavailableError("The embedder does not answer.")

    for name in ("embed_query", "embed_documents"):
        monkeypatch.setattr(application.embedder, name, is_away)
    search = application.services.search.search
    bare = search(ask("bank", SearchMode.SPARSE, instruction="river", steps=3), highlight=False)
    full = search(ask("bank", SearchMode.SPARSE, instruction="river", steps=3))
    for result in (bare, full):
        assert (result.refinement, result.steps, result.instruction) == ((), 0, "")
    assert texts(full) == texts(bare)


@pytest.mark.parametrize("mode", MODES)
def test_the_best_sentence_is_named_in_every_mode(application: Any, mode: SearchMode) -> None:
    hits = application.services.search.search(ask("savers on a river bank", mode)).hits
    named = {hit.chunk.text: (hit.chunk.text[hit.why.start : hit.why.end], hit.why.score) for hit in hits}
    assert named[RATES][0] == "Savers were glad."
    assert named[BANK][0] == BANK
    if mode is SearchMode.SPARSE:
        assert named[BANK][1] > 0  # BM25
        return
    query = application.embedder.embed_query("savers on a river bank").vector
    [own] = application.embedder.embed_documents([BANK], instruction="", steps=1)
    assert named[BANK][1] == pytest.approx(sum(a * b for a, b in zip(query, own, strict=True)))  # a cosine


def test_hybrid_carries_both_legs(application: Any) -> None:
    search = application.services.search.search
    result = search(ask("interest of the bank"))
    legs = {mode: search(ask("interest of the bank", mode)).hits for mode in (SearchMode.DENSE, SearchMode.SPARSE)}
    assert result.mode is SearchMode.HYBRID
    for hit in result.hits:
        expected = [
            LegRank(Leg(mode), each.rank, each.score)
            for mode, hits in legs.items()
            for each in hits
            if each.chunk.id == hit.chunk.id
        ]
        assert list(hit.legs) == expected
    assert all(0 <= hit.score <= 1 for hit in result.hits)
    assert result.hits[0].score > result.hits[1].score


def test_hybrid_looks_deeper_than_its_limit(application: Any) -> None:
    """The best of both may be first of neither."""
    everything = application.services.search.search(ask("interest of the bank"))
    for limit in (1, 2):
        assert (
            texts(application.services.search.search(ask("interest of the bank", limit=limit)))
            == texts(everything)[:limit]
        )


def test_the_instruction_moves_the_dense_leg_alone(application: Any) -> None:
    def leg_scores(leg: Leg, instruction: str) -> dict[str, float]:
        hits = application.services.search.search(ask("the bank", instruction=instruction)).hits
        return {hit.chunk.id: each.score for hit in hits for each in hit.legs if each.leg is leg}

    assert leg_scores(Leg.SPARSE, "river") == leg_scores(Leg.SPARSE, "")
    moved, plain = leg_scores(Leg.DENSE, "river"), leg_scores(Leg.DENSE, "")
    assert all(moved[chunk_id] != score for chunk_id, score in plain.items())


@pytest.mark.parametrize("mode", MODES)
def test_filters_hold_in_every_mode(application: Any, mode: SearchMode) -> None:
    result = application.services.search.search(ask("the bank", mode, filters={"kind": "water"}))
    assert texts(result) == [BANK]


def test_a_query_without_known_words_finds_nothing_by_words(application: Any) -> None:
    search = application.services.search.search
    assert search(ask("zebra", SearchMode.SPARSE)).hits == ()
    assert search(ask("?!", SearchMode.SPARSE)).hits == ()
    assert {leg.leg for hit in search(ask("?!")).hits for leg in hit.legs} == {Leg.DENSE}


def weigh_feedback(application: Any) -> None:
    """As a tuning by judgements may do."""
    weights = {Leg.FEEDBACK: 0.7, Leg.SPARSE: 0.3}
    validation = CrossValidation(8, 32, 5, 0.5, 0.6, 0.02)
    tuning = WeightTuning("tuned", "library", weights, validation, "ann", utc_now(), is_applied=True)
    application.services.catalog.weights.save(tuning)


def test_with_a_weight_for_feedback_passages_like_the_first_hits_come_first(
    toy_services_factory: Callable[..., Any],
) -> None:
    """Pseudo-relevance feedback: neither of the last two shares a word with the query."""
    application = toy_services_factory(embedder=ToyEmbedder(dimension=4096))
    for text in ("gull tern", "gull heron", "gull osprey", "tern heron osprey", "bond yield"):
        application.add(text)
    search = application.services.search.search

    def scores(mode: SearchMode) -> dict[str, float]:
        return {hit.chunk.text: hit.score for hit in search(ask("gull", mode)).hits}

    before = scores(SearchMode.HYBRID)
    assert before["tern heron osprey"] == pytest.approx(before["bond yield"])
    weigh_feedback(application)
    assert texts(search(ask("gull", SearchMode.HYBRID)))[3:] == ["tern heron osprey", "bond yield"]
    after = scores(SearchMode.HYBRID)
    assert after["tern heron osprey"] > after["bond yield"]
    dense = scores(SearchMode.DENSE)
    assert dense["tern heron osprey"] == pytest.approx(dense["bond yield"])


def test_a_person_s_feedback_takes_the_place_of_it(application: Any) -> None:
    weigh_feedback(application)
    search = application.services.search.search
    assert any(leg.leg is Leg.FEEDBACK for hit in search(ask("bank")).hits for leg in hit.legs)
    hits = search(ask("bank", like=(ids_of(application)[CAT],))).hits
    assert all(leg.leg is not Leg.FEEDBACK for hit in hits for leg in hit.legs)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_refuses_what_cannot_be_used(application: Any, mode: SearchMode) -> None:
    search = application.services.search.search
    with pytest.raises(EmptyQueryError):
        search(ask("  ", mode))
    with pytest.raises(InputError, match="1 to 20"):
        search(ask("bank", mode, steps=21), highlight=False)
    with pytest.raises(InputError, match="surrogate"):
        search(ask("bank", mode, instruction="\ud800"), highlight=False)
    with pytest.raises(FilterError):
        search(ask("bank", mode, filters={"": "x"}))


def test_an_index_without_words_is_searched_by_meaning_and_names_the_command(
    toy_services_factory: Callable[..., Any],
) -> None:
    application = toy_services_factory(index=InMemoryVectorIndex(without_words={"library--1"}))
    application.add(CAT)
    for mode in (SearchMode.DENSE, SearchMode.HYBRID):
        assert texts(application.services.search.search(ask("cat", mode))) == [CAT]
    with pytest.raises(ConflictError, match="gircse reindex library"):
        application.services.search.search(ask("cat", SearchMode.SPARSE))


def ids_of(application: Any) -> dict[str, str]:
    hits = application.services.search.search(ask("the", SearchMode.DENSE)).hits
    return {hit.chunk.text: hit.chunk.id for hit in hits}


@pytest.mark.parametrize("mode", [SearchMode.DENSE, SearchMode.HYBRID])
def test_more_and_less_like_a_chunk(toy_services_factory: Callable[..., Any], mode: SearchMode) -> None:
    application = toy_services_factory(embedder=ToyEmbedder(dimension=4096))
    for text in ("cat mouse", "mouse trap", "river bank"):
        application.add(text)
    ids = ids_of(application)

    def cosine(text: str, **feedback: Any) -> float:
        [hit] = [
            each
            for each in application.services.search.search(ask("river cat", mode, **feedback)).hits
            if each.chunk.text == text
        ]
        return hit.score if mode is SearchMode.DENSE else hit.legs[0].score

    mouse = (ids["cat mouse"],)
    assert cosine("mouse trap", like=mouse) > cosine("mouse trap") > cosine("mouse trap", unlike=mouse)
    assert cosine("river bank", like=mouse) < cosine("river bank") < cosine("river bank", unlike=mouse)
    assert cosine("river bank", like=(ids["river bank"],) * 2, unlike=mouse) > cosine("river bank")


def test_the_vector_moves_as_rocchio_says() -> None:
    moved = move_vector([1.0, 0.0, 0.0], like=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], unlike=[[0.0, 0.0, 1.0]])
    expected = [1.0, LIKE_WEIGHT / 2, LIKE_WEIGHT / 2 - UNLIKE_WEIGHT]
    assert moved == pytest.approx([value / math.hypot(*expected) for value in expected])
    with pytest.raises(InputError, match="cancel the query's vector"):
        move_vector([-LIKE_WEIGHT, 0.0], like=[[1.0, 0.0]], unlike=[])


@pytest.mark.parametrize("side", ["like", "unlike"])
@pytest.mark.parametrize(
    "chunk_id", ["", "7", "x" * 5000, "\ud800", "{12345678-1234-5678-1234-567812345678}", str(uuid.UUID(int=7))]
)
def test_what_is_no_chunk_of_the_collection_is_refused(application: Any, side: str, chunk_id: str) -> None:
    with pytest.raises(InputError, match=r"not the id of a chunk|has no chunk") as told:
        application.services.search.search(ask("bank", **{side: (chunk_id,)}))
    assert len(str(told.value)) < 500


def test_a_chunk_of_another_collection_is_refused(application: Any) -> None:
    application.add("Elsewhere.", collection="other")
    [other] = application.services.search.search(
        dataclasses.replace(ask("elsewhere", SearchMode.DENSE), collection="other")
    ).hits
    with pytest.raises(InputError, match="'library' has no chunk"):
        application.services.search.search(ask("bank", like=(other.chunk.id,)))


def test_feedback_is_bounded_consistent_and_for_vectors(application: Any) -> None:
    search, ids = application.services.search.search, list(ids_of(application).values())
    with pytest.raises(InputError, match="At most 16"):
        search(ask("bank", like=(ids[0],) * (MAX_FEEDBACK + 1)))
    with pytest.raises(InputError, match="in both like and unlike"):
        search(ask("bank", like=(ids[0],), unlike=(ids[0],)))
    with pytest.raises(InputError, match="sparse uses no vector"):
        search(ask("bank", SearchMode.SPARSE, like=(ids[0],)))
