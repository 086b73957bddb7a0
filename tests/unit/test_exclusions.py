"""Searches that are not to be about something: passages about it rank lower, and none is lost."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import Any

import numpy as np
import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from app import cli
from app.commands import search
from app.errors import EmbedderUnavailableError, InputError
from app.search.exclusions import ABOUT_FULLY, LEAST_MARGIN, NAMED, aboutness, demoted
from app.search.fusion import RankedPoint
from app.search.reranking import Candidate
from app.search.value_syntax import parse_values
from app.testing import ToyEmbedder
from app.types.documents import ScoredPoint
from app.types.search import (
    MAX_EXCLUSION_CHARACTERS,
    MAX_EXCLUSIONS,
    Exclusion,
    ExclusionEffect,
    SearchMode,
    SearchRequest,
)

CITY = "York jazz jazz"
OTHERS = ["jazz club", "jazz band", "jazz club bar", "jazz band bar", "jazz club bar piano", "jazz band bar piano"]


@pytest.fixture(scope="module")
def jazz(toy_services_class: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """By itself the query finds the passage about the city first."""
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("jazz"), opened, embedder=ToyEmbedder(dimension=4096))
        for text in (CITY, *OTHERS):
            toy.add(text)
        yield toy


def find(jazz: Any, query: str, **asked: Any) -> Any:
    return jazz.services.search.search(SearchRequest(query, "library", "", limit=7, **asked))


def texts(result: Any) -> list[str]:
    return [hit.chunk.text for hit in result.hits]


@pytest.mark.parametrize("mode", SearchMode)
def test_what_is_about_the_phrase_ranks_last_and_is_not_lost(jazz: Any, mode: SearchMode) -> None:
    before, after = find(jazz, "jazz", mode=mode), find(jazz, "jazz", mode=mode, exclude=("York",))
    assert texts(before)[0] == CITY
    assert texts(after)[-1] == CITY
    assert set(texts(after)) == set(texts(before))
    assert [hit.excluded for hit in after.hits] == [None] * 6 + ["York"]
    assert after.exclusions == (Exclusion("York", ExclusionEffect.RANK, passages=1),)
    first, last = before.hits[0].score, after.hits[-1].score
    assert 0 <= last <= (1 - NAMED) * first
    assert [hit.rank for hit in after.hits] == list(range(1, 8))


def test_a_negated_phrase_is_neither_embedded_nor_searched_for(jazz: Any) -> None:
    found = find(jazz, "jazz, not about York")
    assert (found.query, found.searched) == ("jazz, not about York", "jazz")
    assert found.refinement == find(jazz, "jazz").refinement
    assert texts(found) == texts(find(jazz, "jazz", exclude=("York",)))
    assert found.exclusions == (Exclusion("York", ExclusionEffect.RANK, is_detected=True, passages=1),)
    kept = find(jazz, "jazz, not about York", detect_negation=False)
    assert (texts(kept)[0], kept.exclusions, kept.searched) == (CITY, (), kept.query)


def test_what_may_be_meant_is_offered_until_it_is_asked_for(jazz: Any) -> None:
    offered = find(jazz, "jazz without york")
    assert offered.exclusions == (Exclusion("york", ExclusionEffect.OFFERED, is_detected=True),)
    assert (texts(offered)[0], offered.searched) == (CITY, offered.query)
    taken = find(jazz, "jazz without york", exclude=("York",))
    assert (texts(taken)[-1], taken.searched) == (CITY, "jazz")
    assert [each.effect for each in taken.exclusions] == [ExclusionEffect.RANK]


def test_better_passages_come_from_below_the_limit(jazz: Any) -> None:
    request = SearchRequest("jazz", "library", "", limit=1, exclude=("york",))
    assert texts(jazz.services.search.search(request))[0] in OTHERS
    assert texts(jazz.services.search.search(SearchRequest("jazz", "library", "", limit=1))) == [CITY]


def test_a_second_look_does_not_bring_it_back(jazz: Any) -> None:
    before, after = find(jazz, "jazz", rerank=7), find(jazz, "jazz", rerank=7, exclude=("york",))
    assert texts(before)[0] == CITY
    assert texts(after)[0] in OTHERS
    [pushed] = [hit for hit in after.hits if hit.excluded]
    assert (pushed.chunk.text, pushed.rerank_score) == (CITY, before.hits[0].rerank_score)
    assert pushed.score <= (1 - NAMED) * before.hits[0].score


def test_one_of_each_document_after_the_push(jazz: Any) -> None:
    assert texts(find(jazz, "jazz", per_document=1, exclude=("york",)))[-1] == CITY


def test_by_words_alone_the_model_is_not_asked(jazz: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_away(*_: object, **__: object) -> None:
        raise EmbedderUnavailableError("The embedder does not answer.")

    for name in ("embed_query", "embed_documents"):
        monkeypatch.setattr(jazz.embedder, name, is_away)
    request = SearchRequest("jazz", "library", mode=SearchMode.SPARSE, exclude=("Yorks",))
    assert jazz.services.search.search(request, highlight=False).hits[-1].excluded == "Yorks"  # its stem counts


def test_an_unrelated_phrase_changes_nothing(jazz: Any) -> None:
    before, after = find(jazz, "jazz"), find(jazz, "jazz", exclude=("photosynthesis of leaves",))
    assert [(hit.chunk.id, hit.score) for hit in after.hits] == [(hit.chunk.id, hit.score) for hit in before.hits]
    assert after.exclusions == (Exclusion("photosynthesis of leaves", ExclusionEffect.RANK),)


def test_a_value_of_the_lens_is_left_out(jazz: Any) -> None:
    values = parse_values(["New York = York, the big apple", "club"])
    found = find(jazz, "jazz, not about the Big Apple", values=values)
    assert CITY not in texts(found)
    assert len(found.hits) == 6
    assert found.exclusions == (Exclusion("Big Apple", ExclusionEffect.VALUE, True, "New York", 1),)
    assert {each.name: each.count for each in found.values.counts}["New York"] == 1


def test_an_empty_collection_excludes_nothing(toy_services: Any) -> None:
    toy_services.services.library.ensure_collection("library")
    assert find(toy_services, "jazz, not about York").exclusions[0].passages == 0


@pytest.mark.parametrize(
    ("exclude", "reason"),
    [
        ((" ",), "empty"),
        (("x" * (MAX_EXCLUSION_CHARACTERS + 1),), "201 characters"),
        (tuple(f"p{number}" for number in range(MAX_EXCLUSIONS + 1)), "At most 8"),
        (("a\x00",), "NUL"),
    ],
)
def test_exclusions_that_cannot_be_are_refused(jazz: Any, exclude: tuple[str, ...], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        find(jazz, "jazz", exclude=exclude)


def test_about_is_what_stands_out_and_is_nearer_than_other_subjects() -> None:
    cosines = np.array([[0.9]] + [[0.1], [0.12]] * 20)
    near, far = np.full_like(cosines, LEAST_MARGIN), np.full_like(cosines, LEAST_MARGIN - 0.01)
    assert aboutness(cosines, near)[:, 0] == pytest.approx([1.0] + [0.0] * 40)  # by more than ABOUT_FULLY deviations
    assert (cosines[0, 0] - cosines.mean()) / cosines.std() > ABOUT_FULLY
    assert not aboutness(cosines, far).any()
    assert not aboutness(np.full((5, 1), 0.3), np.full((5, 1), 9.0)).any()


def test_scores_fall_by_at_most_themselves_and_equals_keep_their_order() -> None:
    scores = (0.9, 0.5, 0.4, 0.4, -0.2)
    candidates = [Candidate(RankedPoint(ScoredPoint(str(at), score, {}))) for at, score in enumerate(scores)]
    about = np.array([[0.5, 0.2], [0, 0], [0, 0], [0, 0], [0, 1.0]])
    found = demoted(candidates, ["a", "b"], about)
    assert [(each.ranked.point.id, each.ranked.point.score, each.excluded) for each in found] == [
        ("1", 0.5, None),
        ("0", pytest.approx(0.45), "a"),
        ("2", 0.4, None),
        ("3", 0.4, None),
        ("4", -0.4, "b"),
    ]


def test_over_http(jazz: Any) -> None:
    client = TestClient(api_of(jazz.services))
    asked = {"query": "jazz, not about York", "collection": "library", "instruction": ""}
    answer = client.post("/api/v1/search", json=asked).json()
    assert answer["hits"][-1]["excluded"] == "York"
    assert answer["exclusions"] == [
        {"phrase": "York", "effect": "rank", "is_detected": True, "value": None, "passages": 1}
    ]
    assert answer["searched"] == "jazz"
    written = client.post("/api/v1/search", json={**asked, "detect_negation": False}).json()
    assert (written["exclusions"], written["hits"][0]["chunk"]["text"]) == ([], CITY)
    for wrong in ([""], ["x" * 201], ["a"] * 9, "york"):
        assert client.post("/api/v1/search", json={**asked, "exclude": wrong}).status_code == 422


def test_on_the_command_line(jazz: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "open_services", lambda _, **__: nullcontext(jazz.services))
    run = CliRunner().invoke(cli.app, ["search", "jazz", "-c", "library", "-i", "", "--exclude", "york", "--local"])
    assert "not about york: 1 candidates ranked lower" in " ".join(run.output.split())
    run = CliRunner().invoke(
        cli.app, ["search", "jazz, not about York", "-c", "library", "--no-detect-negation", "--local"]
    )
    assert "ranked lower" not in run.output
