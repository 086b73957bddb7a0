"""How well a passage answers is said on one scale, whatever it was found by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.errors import EmbedderUnavailableError
from app.search.calibration import STRONG_FROM, WEAK_BELOW, MatchCalibration, Scale, best_match, shares_words
from app.search.instructed_matches import InstructedMatches
from app.testing import ToyEmbedder
from app.types.search import Match, SearchMode, SearchRequest
from embedder.model_info import ModelInfo
from embedder.refinement import Refinement

TEXTS = ("the cat sleeps on the sofa", "the dog barks at night", "boats leave the harbour at noon")


@pytest.fixture
def application(toy_services: Any) -> Any:
    for text in TEXTS:
        toy_services.add(text)
    return toy_services


def search(application: Any, query: str, mode: SearchMode = SearchMode.HYBRID, **more: Any) -> Any:
    return application.services.search.search(SearchRequest(query, "library", mode=mode, **more))


def test_a_scale_counts_deviations_above_what_off_topic_queries_find() -> None:
    scale = Scale(median=0.2, deviation=0.05)
    assert scale.match(0.2 + 0.05 * WEAK_BELOW - 1e-6) is Match.WEAK
    assert scale.match(0.2 + 0.05 * WEAK_BELOW + 1e-6) is Match.FAIR
    assert scale.match(0.2 + 0.05 * STRONG_FROM + 1e-6) is Match.STRONG
    assert Scale(median=0.2, deviation=0.0).match(0.2) is Match.WEAK


def test_a_passage_with_half_the_words_of_the_query_need_only_stand_above_the_median() -> None:
    scale = Scale(median=0.2, deviation=0.05)
    assert scale.match(0.2 - 1e-6, shares_words=True) is Match.WEAK
    assert scale.match(0.2 + 1e-6, shares_words=True) is Match.FAIR
    assert scale.match(0.2 + 1e-6) is Match.WEAK
    assert shares_words("A proxy stands in front of the server.", "put a proxy in front")
    assert not shares_words(
        "A proxy stands behind the server.", "put a proxy in front of everything else that is there"
    )
    assert not shares_words("The cat sleeps.", "cat"), "one word is too few"


def test_what_a_broad_collection_does_answer_does_not_move_its_scale() -> None:
    off_topic = [0.1 + 0.001 * at for at in range(60)]
    one, other = Scale.of(off_topic), Scale.of([*off_topic[:50], *[0.9] * 10])
    assert one == other
    assert one.median == pytest.approx(0.13, abs=0.002)
    assert one.deviation == pytest.approx(0.02, abs=0.002)


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("more", [{}, {"token_bias": {"cat": 1.0}}, {"steps": 2}], ids=str)
def test_a_passage_is_as_good_an_answer_by_whatever_it_was_found(
    application: Any, mode: SearchMode, more: dict[str, Any]
) -> None:
    found = search(application, TEXTS[0], mode, **more)
    by_text = {hit.chunk.text: hit.match for hit in found.hits}
    assert by_text[TEXTS[0]] is found.match is not Match.WEAK
    plain = {hit.chunk.text: hit.match for hit in search(application, TEXTS[0]).hits}
    assert all(match is plain[text] for text, match in by_text.items())


def test_under_an_instruction_a_model_without_bounds_gives_no_grade(application: Any) -> None:
    found = search(application, TEXTS[0], instruction="Which animal?")
    assert found.hits
    assert {hit.match for hit in found.hits} == {found.match} == {None}


class BoundedEmbedder(ToyEmbedder):
    @property
    def info(self) -> ModelInfo:
        return replace(super().info, match_cosines=(0.5, 0.9))


@pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.DENSE])
@pytest.mark.parametrize("more", [{}, {"rerank": 0}, {"rerank": 1}, {"token_bias": {"noon": 5.0}}], ids=str)
def test_under_an_instruction_both_texts_are_compared_under_it(
    toy_services_factory: Any, mode: SearchMode, more: dict[str, Any]
) -> None:
    application = toy_services_factory(embedder=BoundedEmbedder())
    for text in TEXTS:
        application.add(text)
    # The toy counts the words of the instruction on both sides: so three words join all texts.
    for instruction, expected in {
        "animal": [Match.STRONG, Match.WEAK, Match.WEAK],
        "animal " * 20: [Match.STRONG, Match.STRONG, Match.STRONG],
    }.items():
        found = search(application, TEXTS[0], mode, instruction=instruction, **more)
        by_text = {hit.chunk.text: hit.match for hit in found.hits}
        assert [by_text[text] for text in TEXTS] == expected
        assert found.match is Match.STRONG
    assert search(application, "zzz qqq", mode, instruction="animal").match is Match.WEAK


def test_grades_under_an_instruction_leave_out_deleted_points(application: Any) -> None:
    index, embedder = application.index, BoundedEmbedder()
    collection = application.services.catalog.collection("library")
    point = search(application, TEXTS[0]).hits[0].chunk.id
    graded = InstructedMatches(index, embedder)
    gone = "00000000-0000-4000-8000-000000000000"
    assert graded.matches(TEXTS[0], [point, gone], collection, instruction="animal") == {point: Match.STRONG}
    assert graded.matches(TEXTS[0], [], collection, instruction="animal") == {}
    unmanaged = {gone: {"page_content": "a point of another program"}}
    assert graded.matches_of(TEXTS[0], unmanaged, instruction="animal") == {}


def test_a_person_s_feedback_moves_the_ranking_and_not_the_match(application: Any) -> None:
    dog = next(hit for hit in search(application, TEXTS[1]).hits if hit.chunk.text == TEXTS[1])
    moved = {hit.chunk.text: hit.match for hit in search(application, TEXTS[0], like=(dog.chunk.id,)).hits}
    assert moved == {hit.chunk.text: hit.match for hit in search(application, TEXTS[0]).hits}


def test_what_only_off_topic_queries_would_find_is_weak(application: Any) -> None:
    answer = search(application, "zzz qqq", SearchMode.DENSE)
    assert {hit.match for hit in answer.hits} == {Match.WEAK}
    assert answer.match is Match.WEAK


def test_the_best_match_speaks_for_all() -> None:
    assert best_match([Match.WEAK, None, Match.STRONG, Match.FAIR]) is Match.STRONG
    assert best_match([None, Match.WEAK]) is Match.WEAK
    assert best_match([None]) is best_match([]) is None


def test_words_are_found_while_the_model_is_away(application: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_away(*_: object, **__: object) -> Refinement:
        raise EmbedderUnavailableError("The embedder does not answer.")

    monkeypatch.setattr(application.embedder, "embed_query", is_away)
    found = search(application, "cat", SearchMode.SPARSE)
    assert [hit.match for hit in found.hits] == [None]
    with pytest.raises(EmbedderUnavailableError):
        search(application, "cat", SearchMode.DENSE)


class CountingEmbedder(ToyEmbedder):
    calls = 0

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        self.calls += 1
        return super().embed_documents(texts, instruction=instruction, steps=steps)


def test_a_scale_is_kept_for_minutes_and_an_empty_index_has_none(application: Any) -> None:
    now, embedder = [0.0], CountingEmbedder()
    calibration = MatchCalibration(application.index, embedder, clock=lambda: now[0])
    collection = application.services.catalog.collection("library")
    point = next(hit.chunk.id for hit in search(application, TEXTS[0]).hits)
    asked: list[object] = []
    index_search = application.index.search_legs

    def search_legs(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        return index_search(*arguments, **options)

    application.index.search_legs = search_legs
    query = TEXTS[0], embedder.embed_query(TEXTS[0], instruction="", steps=1).vector.tolist()
    passages = {point: TEXTS[0], "00000000-0000-4000-8000-000000000000": "deleted meanwhile"}
    for seconds in (0.0, 200.0, 400.0):
        now[0] = seconds
        assert calibration.matches(*query, passages, collection).keys() == {point}
    assert len(asked) == 2
    assert embedder.calls == 1
    assert calibration.matches(*query, {}, replace(collection, active_index="nowhere")) == {}
