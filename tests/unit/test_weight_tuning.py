"""Weights of legs that judgements choose: a gain that is there is found, and chance is not taken for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from app import cli
from app.commands import judgements as commands
from app.errors import ConflictError, NotFoundError
from app.evaluation.scoring import score_ranking
from app.evaluation.weight_tuning import MIN_QUERIES, WeightTuner
from app.evaluation.weight_validation import LEGS, choose, cross_validate, grid, ndcg_by_weights
from app.search.fusion import WEIGHTS, fuse
from app.search.judgements import new_judgement
from app.testing import ToyEmbedder
from app.types.documents import ScoredPoint
from app.types.evaluation import Measure
from app.types.search import Leg, SearchRequest


def found(leg: Sequence[tuple[str, float]]) -> list[ScoredPoint]:
    ranked = sorted(leg, key=lambda pair: -pair[1])
    return [ScoredPoint(f"{name}-0", score, {"metadata": {"document_id": name}}) for name, score in ranked]


names = st.sampled_from("abcdefghijkl")
legs = st.dictionaries(
    st.sampled_from(LEGS),
    st.dictionaries(names, st.floats(0.01, 3.0), max_size=12).map(lambda leg: found(list(leg.items()))),
    max_size=4,
)


@given(legs, st.dictionaries(names, st.integers(0, 3), min_size=1), st.integers(0, len(grid()) - 1), st.booleans())
def test_ndcg_under_all_weights_is_that_of_each_fused_ranking(
    legs: dict[Leg, list[ScoredPoint]], grades: dict[str, int], at: int, judged_alone: bool
) -> None:
    scores = ndcg_by_weights(legs, grades, terms=3, judged_alone=judged_alone)
    assert scores.shape == (len(grid()),)
    fused = (
        fuse(legs, terms=3, weights=grid()[at])
        if any(grid()[at][leg] for leg, points in legs.items() if points)
        else []
    )
    totals = [each.score for each in fused]
    if len(set(np.round(totals, 9))) < len(totals) or not fused:
        return  # which of equals is first is left open
    ranking = [each.id.removesuffix("-0") for each in fused]
    ranking = [each for each in ranking if not judged_alone or each in grades]
    assert scores[at] == pytest.approx(score_ranking(ranking, grades)[Measure.NDCG_10])


def test_a_document_stands_where_its_best_chunk_does() -> None:
    of_one = {"metadata": {"document_id": "one"}}
    leg = [ScoredPoint("a", 1.0, of_one), *found([("two", 0.9)]), ScoredPoint("b", 0.1, of_one)]
    assert ndcg_by_weights({Leg.SPARSE: leg}, {"one": 3}, terms=1, judged_alone=False)[-1] == 1.0


def test_the_defaults_come_first_and_all_weights_add_up() -> None:
    first = {leg: weight for leg, weight in grid()[0].items() if weight}
    assert first == {leg: weight for leg, weight in WEIGHTS.items() if weight}
    assert all(sum(each.values()) == pytest.approx(1) and (each[Leg.DENSE] or each[Leg.FEEDBACK]) for each in grid())
    assert len({tuple(each.items()) for each in grid()}) == len(grid())


def by_chance(seed: int, queries: int = 30) -> np.ndarray:
    """Thumbs that have nothing to do with what legs find."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(queries):
        scores = {leg: rng.random(12) for leg in (Leg.DENSE, Leg.FEEDBACK, Leg.SPARSE)}
        points = {leg: found([(f"d{at}", float(score)) for at, score in enumerate(own)]) for leg, own in scores.items()}
        grades = {f"d{at}": 3 * (place % 2) for place, at in enumerate(rng.permutation(12)[:6])}
        rows.append(ndcg_by_weights(points, grades, terms=3, judged_alone=True))
    return np.stack(rows)


def test_chance_is_rarely_taken_for_a_gain() -> None:
    queries = [f"query {at}" for at in range(30)]
    applied = [cross_validate(by_chance(seed), queries, judgements=180).pays for seed in range(20)]
    assert sum(applied) <= 2


def test_what_one_leg_knows_is_found() -> None:
    rows = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        good = {f"d{at}": at % 3 == 0 for at in range(12)}
        legs = {
            Leg.SPARSE: found(
                [(name, (0.9 if is_good else 0.4) + 0.1 * rng.random()) for name, is_good in good.items()]
            ),
            Leg.DENSE: found([(name, float(rng.random())) for name in good]),
            Leg.FEEDBACK: found([(name, float(rng.random())) for name in good]),
        }
        rows.append(
            ndcg_by_weights(legs, {name: 3 * is_good for name, is_good in good.items()}, terms=1, judged_alone=True)
        )
    scores = np.stack(rows)
    validation = cross_validate(scores, [str(at) for at in range(12)], judgements=144)
    assert validation.pays
    assert validation.gain > 0.05
    assert grid()[choose(scores)][Leg.SPARSE] > WEIGHTS[Leg.SPARSE]


def test_nothing_is_chosen_where_all_weights_are_alike() -> None:
    scores = np.full((8, len(grid())), 0.7)
    assert choose(scores) == 0
    assert not cross_validate(scores, list("abcdefgh"), judgements=20).pays


def test_wordings_of_one_query_stay_in_one_fold() -> None:
    """Otherwise what is learnt by heart would look like a gain."""
    scores = np.zeros((10, len(grid())))
    for query in range(5):
        scores[[2 * query, 2 * query + 1], 1 + query] = 1.0  # each query has weights of its own that are best
    twice = [f"q{at // 2}" for at in range(10)]
    assert cross_validate(scores, twice, judgements=20).gain == 0


@pytest.fixture
def judged(toy_services_factory: Callable[..., Any]) -> Any:
    """Words find what answers; vectors find what shares the other words of the query."""
    toy = toy_services_factory(embedder=ToyEmbedder(dimension=4096))
    services = toy.services
    services.library.ensure_collection("library")
    for at in range(8):
        query = f"tell me more about the rare{at}"
        good = toy.add(f"rare{at} " + " ".join(f"filler{at}x{word}" for word in range(12)))
        bad = [toy.add(f"tell me more about the {kind} thing {at}") for kind in ("big", "small", "old")]
        for document, grade in ((good, 3), *((each, 0) for each in bad)):
            services.catalog.save_judgement(new_judgement(document.id, query=query, instruction="", grade=grade))
    return toy


def first_of(toy: Any) -> list[str]:
    search = toy.services.search.search
    return [
        search(SearchRequest(f"tell me more about the rare{at}", "library", ""), highlight=False).hits[0].chunk.text
        for at in range(8)
    ]


def test_tuned_weights_are_applied_shown_and_undone(judged: Any) -> None:
    tuner = WeightTuner(judged.services.catalog, judged.services.search)
    before = first_of(judged)
    assert not any(text.startswith("rare") for text in before)
    tuning = tuner.tune("library")
    assert tuning.is_applied
    assert tuning.validation.gain > 2 * tuning.validation.standard_error
    assert (tuning.validation.queries, tuning.validation.judgements) == (8, 32)
    assert all(text.startswith("rare") for text in first_of(judged))
    assert tuner.weights("library").weights == tuning.weights
    assert tuner.undo("library").undone_at is not None
    assert first_of(judged) == before
    assert [each.is_applied for each in tuner.weights("library").tunings] == [False]
    with pytest.raises(NotFoundError, match="nothing to undo"):
        tuner.undo("library")


def test_too_few_judgements_are_told_with_their_number(toy_services: Any) -> None:
    document = toy_services.add("a text")
    catalog = toy_services.services.catalog
    for at in range(MIN_QUERIES):  # of which none has a document that does not answer
        catalog.save_judgement(new_judgement(document.id, query=f"q{at}", instruction="", grade=3))
    with pytest.raises(ConflictError, match="has 0 judgements of 0 usable queries"):
        WeightTuner(catalog, toy_services.services.search).tune("library")


def test_over_http(judged: Any) -> None:
    client = TestClient(api_of(judged.services))
    address = "/api/v1/collections/library/weights"
    assert client.get(address).json()["weights"] == WEIGHTS
    tuned = client.post(address).json()
    assert (tuned["is_applied"], tuned["validation"]["pays"]) == (True, True)
    shown = client.get(address).json()
    assert shown["weights"] == tuned["weights"] == shown["tunings"][0]["weights"]
    assert client.delete(address).json()["undone_at"]
    assert client.delete(address).status_code == 404
    assert client.get(address).json()["weights"] == shown["defaults"]
    assert client.post("/api/v1/collections/nowhere/weights").status_code == 404


def test_on_the_command_line(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "open_services", lambda: nullcontext(judged.services))
    monkeypatch.setattr(commands, "open_catalog", lambda: nullcontext(judged.services.catalog))

    def run(*words: str) -> str:
        return " ".join(CliRunner().invoke(cli.app, ["judgements", *words, "-c", "library"]).output.split())

    assert run("weights").endswith("(the defaults)")
    assert "The weights are applied." in run("tune")
    assert "cross-validated" in run("weights")
    assert run("undo-tuning") == "The default weights are restored."
    assert run("undo-tuning") == "The weights were the defaults already."
