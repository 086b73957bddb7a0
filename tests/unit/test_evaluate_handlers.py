"""The evaluate page's handlers, called with untrusted values, and its HTML with hostile names in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import wait_until

from app.errors import ConflictError, InputError, NotFoundError
from app.evaluation.judged import Judged
from app.evaluation.weight_tuning import WeightTuner
from app.search.judgements import new_judgement
from app.search.lenses import STARTERS
from app.types.documents import utc_now
from app.types.evaluation import (
    Estimate,
    EvaluationRun,
    EvaluationState,
    InstructionChoice,
    InstructionPolicy,
    JudgementSource,
    Measure,
)
from app.types.search import Leg, SearchMode
from app.types.weights import CrossValidation, WeightTuning
from ui.evaluate_handlers import ALL_QUERIES, EvaluateHandlers
from ui.handler_inputs import as_handler
from ui.render.charts import Series, render_bar, render_curve, render_difference, scale_end
from ui.render.evaluation import render_progress
from ui.render.judged import render_sources

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(1)</script>'
PLAN = ("library", ["dense"], ["1", "5"], ["As in the judgements"], [], [], ALL_QUERIES)


@pytest.fixture
def handlers(toy_services: Any) -> EvaluateHandlers:
    """Two judged queries, one of them hostile."""
    for text, query in (("apple tart", "apple"), ("plum jam", HOSTILE)):
        said = new_judgement(toy_services.add(text).id, query=query, instruction="", grade=2)
        toy_services.services.catalog.save_judgement(said)
    services = toy_services.services
    return EvaluateHandlers(
        judged=Judged(services.catalog),
        evaluations=services.evaluations,
        tuning=WeightTuner(services.catalog, services.search),
        catalog=services.catalog,
        max_steps=20,
    )


def test_weights_are_shown_with_their_history_which_is_text_alone(
    handlers: EvaluateHandlers, toy_services: Any
) -> None:
    assert handlers.weights(None) == ""
    assert "Undo" not in handlers.weights("library")
    with pytest.raises(ConflictError, match="0 usable queries"):
        handlers.tune("library")
    validation = CrossValidation(8, 32, 5, 0.5, 0.75, 0.05)
    weights = {Leg.FEEDBACK: 0.5, Leg.SPARSE: 0.5}
    tuning = WeightTuning("w", "library", weights, validation, HOSTILE, utc_now(), is_applied=True)
    toy_services.services.catalog.weights.save(tuning)
    html = handlers.weights("library")
    assert "<img" not in html
    assert "quality of the first ten: 0.500 → 0.750 (+0.250 ± 0.050), 8 queries, 32 judgements" in html
    assert 'data-event="undo"' in html
    handlers.undo_tuning("library")
    assert "<b>undone</b>" in handlers.weights("library")
    assert 'data-event="undo"' not in handlers.weights("library")


def finished(handlers: EvaluateHandlers, *plan: object) -> EvaluationRun:
    run = handlers.start(*(plan or PLAN))  # type: ignore[arg-type]
    wait_until(lambda: (handlers.run(run.id) or run).state is not EvaluationState.RUNNING)
    return handlers.run(run.id) or run


def test_a_plan_is_what_was_chosen(handlers: EvaluateHandlers) -> None:
    lens = STARTERS[0].name
    chosen = ("library", ["dense"], ["5", "1"], ["No instruction", f"Lens: {lens}"], ["library"], ["local"])
    plan = finished(handlers, *chosen, "A sample of 20").plan
    assert (plan.judged_in, plan.collections, plan.judged_by, plan.max_queries) == (
        "library",
        ("library",),
        ("local",),
        20,
    )
    assert (plan.modes, plan.steps) == ((SearchMode.DENSE,), (5, 1))
    assert [str(each) for each in plan.instructions] == ["none", f"lens:{lens}"]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, None, "Choose a collection"),
        (0, "elsewhere", "No collection named"),
        (1, "dense", "from the list"),
        (1, ["psychic"], "as the mode"),
        (1, [], "one mode"),
        (2, ["0"], "from 1 to 20"),
        (2, ["21"], "from 1 to 20"),
        (2, ["1e1"], "whole number"),
        (2, ["٣"], "whole number"),
        (2, [5], "from the list"),
        (2, ["1"] * 40 + [str(n) for n in range(40)], "at most 32"),
        (3, ["mood"], "Unknown instruction"),
        (3, ["Lens: mood"], "No lens named"),
        (3, ["Lens: "], "name of a lens"),
        (4, ["nowhere"], "No collection named"),
        (5, ["nobody"], "has no judged query"),
        (6, "A sample of 7", "sample size"),
        (6, 20, "sample size"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(handlers: EvaluateHandlers, place: int, value: object, message: str) -> None:
    chosen = [*PLAN]
    chosen[place] = value  # type: ignore[call-overload]
    with pytest.raises((InputError, NotFoundError), match=message):
        handlers.start(*chosen)  # type: ignore[arg-type]
    assert handlers.run_names() == []


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.text() | st.integers()),
    st.dictionaries(st.text(), st.text()),
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(JUNK, min_size=7, max_size=7))
def test_no_junk_reaches_the_unforeseen(handlers: EvaluateHandlers, values: list[object]) -> None:
    def one(call: Callable[..., object]) -> Callable[..., tuple[Any, ...]]:
        return as_handler(lambda *given: (str(call(*given)),), outputs=1)

    calls: list[tuple[Callable[..., object], int]] = [
        (handlers.sources, 1),
        (handlers.judges, 1),
        (handlers.forget, 2),
        (handlers.run, 1),
        (handlers.cancel, 1),
        (handlers.start, 7),
        (lambda *given: handlers.start("library", *given), 6),
    ]
    for call, count in calls:
        assert "incident" not in one(call)(*values[:count])[0]


def test_people_cannot_be_forgotten_here(handlers: EvaluateHandlers) -> None:
    with pytest.raises(ConflictError, match="not an import"):
        handlers.forget("library", "local")
    assert handlers.judges("library") == ["local"]


def test_a_report_of_hostile_queries_harms_nobody(handlers: EvaluateHandlers) -> None:
    run = finished(handlers)
    html = handlers.report(run, "ndcg_10", "1")
    assert "<img" not in html
    assert "<script" not in html
    assert "Compared with <bdi>5 steps</bdi>" in html
    assert handlers.report(run, "ndcg_10", "99") == handlers.report(run, "ndcg_10", None)
    with pytest.raises(InputError, match="measure"):
        handlers.report(run, HOSTILE, "0")
    asked = [
        parse_qs(urlsplit(address.replace("&amp;", "&")).query) for address in re.findall(r'href="(/\?[^"]+)"', html)
    ]
    assert {each["q"][0] for each in asked} == {"apple", HOSTILE}
    assert all(each["i"] == ["-"] and each["c"] == ["library"] and each["k"][0] in "15" for each in asked)
    assert handlers.report(None, "ndcg_10", "0") == ""


def test_names_of_sources_and_imports_are_text() -> None:
    sources = [JudgementSource(f"import:{HOSTILE}", 1, 2), JudgementSource(HOSTILE, 3, 4)]
    html = render_sources(sources)
    assert "<img" not in html
    assert html.count('data-event="forget"') == 1  # what people said is not removed with one click


def test_progress_tells_how_it_stands(handlers: EvaluateHandlers) -> None:
    run = replace(finished(handlers), state=EvaluationState.RUNNING, done=3, total=12, remaining_s=150.0)
    assert "<b>3</b> of 12 searches, about 2 min left" in render_progress(run)
    assert 'value="3"' in render_progress(run)
    assert "is-error" in render_progress(replace(run, state=EvaluationState.FAILED, error=HOSTILE))
    assert "<img" not in render_progress(replace(run, state=EvaluationState.FAILED, error=HOSTILE))
    assert "Stopped after 2 of 2 queries" in render_progress(replace(run, state=EvaluationState.CANCELLED))
    assert render_progress(replace(run, state=EvaluationState.DONE)) == ""
    assert render_progress(None) == ""


@pytest.mark.parametrize(("high", "end"), [(0.0, 0.05), (0.05, 0.05), (0.31, 0.4), (0.85, 1.0), (1.0, 1.0)])
def test_bars_end_at_a_round_number(high: float, end: float) -> None:
    assert scale_end([Estimate(0.0, 0.0, 0.01), Estimate(high, high, high)]) == end


def test_bars_and_differences_are_drawn_to_scale() -> None:
    bar = render_bar(Estimate(0.2, 0.1, 0.3), end=0.4)
    assert 'width="50.00%"' in bar
    assert 'x1="25.00%" x2="75.00%"' in bar
    worse = render_difference(Estimate(-0.1, -0.2, -0.05), reach=0.2)
    assert 'cx="25.00%"' in worse
    assert 'x1="0.00%" x2="37.50%"' in worse
    assert "is-worse" in worse
    assert "is-" not in render_difference(Estimate(0.0, -0.1, 0.1), reach=0.2)


def test_the_curve_shows_every_line_and_the_level_without_steps() -> None:
    points = {1: Estimate(0.4, 0.3, 0.5), 20: Estimate(0.6, 0.5, 0.7)}
    curve = render_curve([Series(HOSTILE, points), Series("sparse", {}, Estimate(0.5, 0.4, 0.6))], title="nDCG@10")
    assert "<img" not in curve
    assert curve.count("<circle") == 2
    assert 'class="level series-2"' in curve
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', curve)]
    assert heights[0] > heights[1]  # the better one is higher up
    level = float(re.findall(r'level series-2" x1="[\d.]+" x2="[\d.]+" y1="([\d.]+)"', curve)[0])
    assert level == pytest.approx(sum(heights) / 2, abs=0.2)


def test_instructions_are_read_as_they_are_written() -> None:
    for choice in (InstructionChoice(), InstructionChoice(InstructionPolicy.LENS, "a: b")):
        assert InstructionChoice.parse(str(choice)) == choice
    assert json.dumps({each.label: each.value for each in Measure}).count("@") == len(Measure)
