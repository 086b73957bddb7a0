"""Evaluations over a real catalog and search whose neighbours can be computed by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from patience import PATIENCE_S, wait_until

from app.errors import ConflictError, InputError, NotFoundError, UnknownCollectionError, UnknownLensError
from app.evaluation.background import AT_A_TIME, KEPT
from app.ports.evaluation import Evaluations
from app.search.judgements import new_judgement, new_lens
from app.testing import ToyEmbedder, text_source
from app.types.access import Principal, Role, acting_as
from app.types.evaluation import (
    EvaluationPlan,
    EvaluationRun,
    EvaluationState,
    InstructionChoice,
    InstructionPolicy,
    Measure,
)
from app.types.search import SearchMode
from embedder.refinement import Refinement

PLAN = EvaluationPlan(judged_in="library", collections=("library",), steps=(1,))
JUDGED, NONE = InstructionChoice(), InstructionChoice(InstructionPolicy.NONE)


class SteeredEmbedder(ToyEmbedder):
    """Waits before a query while it is held, refuses the word `unspeakable`, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.is_free = threading.Event()
        self.is_free.set()
        self.embedded: list[tuple[str, str | None, int | None]] = []

    def embed_query(self, text: str, **options: Any) -> Refinement:
        assert self.is_free.wait(PATIENCE_S)
        self.embedded.append((text, options.get("instruction"), options.get("steps")))
        if "unspeakable" in text:
            raise InputError("The query is too long for the model.")
        if "broken" in text:
            raise RuntimeError("the model broke")
        return super().embed_query(text, **options)


@pytest.fixture
def embedder() -> SteeredEmbedder:
    return SteeredEmbedder()


@pytest.fixture
def application(toy_services_factory: Callable[..., Any], embedder: SteeredEmbedder) -> Iterator[Any]:
    """Texts of fruit, and four judged queries: the second is answered best through its instruction."""
    application = toy_services_factory(embedder=embedder)
    apple, pear, plum = (application.add(text).id for text in ("apple tart", "pear cake sweet", "plum jam"))
    judge(application, "apple", {apple: 3, pear: 0})
    judge(application, "cake tart", {pear: 2}, instruction="sweet sweet sweet")
    judge(application, "plum", {plum: 1})
    judge(application, "nothing answers this", {plum: 0})
    yield application
    embedder.is_free.set()


def judge(application: Any, query: str, grades: dict[str, int], *, instruction: str = "", by: str = "local") -> None:
    for document, grade in grades.items():
        said = new_judgement(document, query=query, instruction=instruction, grade=grade, judged_by=by)
        application.services.catalog.save_judgement(said)


@pytest.fixture
def evaluations(application: Any) -> Evaluations:
    return application.services.evaluations  # type: ignore[no-any-return]


def wait(evaluations: Evaluations, run: EvaluationRun) -> EvaluationRun:
    wait_until(lambda: evaluations.run(run.id).state is not EvaluationState.RUNNING)
    return evaluations.run(run.id)


def test_every_query_goes_through_every_variant(evaluations: Evaluations) -> None:
    plan = replace(PLAN, steps=(5, 1), instructions=(JUDGED, NONE))
    run = wait(evaluations, evaluations.start(plan))
    assert (run.state, run.done, run.total, run.query_count) == (EvaluationState.DONE, 12, 12, 3)
    report = run.report
    assert report is not None
    assert [each.label for each in report.scores] == [
        "K 1 · instruction judged",
        "K 5 · instruction judged",
        "K 1 · instruction none",
        "K 5 · instruction none",
    ]
    values = {each.query: each.values[Measure.NDCG_10] for each in report.queries}
    assert values["apple"] == values["plum"] == (1, 1, 1, 1)
    assert values["cake tart"][0] == 1  # "sweet" in the instruction tells the cake from the tart
    assert values["cake tart"][2] < 1
    assert report.scores[0].estimates[Measure.NDCG_10].value == 1
    assert report.scores[2].estimates[Measure.NDCG_10].value == pytest.approx((2 + values["cake tart"][2]) / 3)
    assert report.scores[0].estimates[Measure.JUDGED_10].value == pytest.approx((2 / 3 + 1 / 3 + 1 / 3) / 3)
    assert report.without_relevant == 1


def test_means_are_told_by_instruction(evaluations: Evaluations) -> None:
    report = wait(evaluations, evaluations.start(PLAN)).report
    assert report is not None
    assert [(each.instruction, each.query_count) for each in report.by_instruction] == [
        ("", 2),
        ("sweet sweet sweet", 1),
    ]
    plain = report.by_instruction[0].scores[0].estimates[Measure.RECALL_10]
    assert (plain.value, plain.low, plain.high) == (1, 1, 1)


def test_a_chosen_lens_and_the_models_own_instruction_are_used(
    evaluations: Evaluations, application: Any, embedder: SteeredEmbedder
) -> None:
    application.services.catalog.save_lens(new_lens("taste", "sweet things"))
    lens, default = InstructionChoice(InstructionPolicy.LENS, "taste"), InstructionChoice(InstructionPolicy.DEFAULT)
    plan = replace(PLAN, instructions=(lens, default), steps=(7,))
    wait(evaluations, evaluations.start(plan))
    assert set(embedder.embedded) == {
        (query, instruction, 7) for query in ("apple", "cake tart", "plum") for instruction in ("sweet things", None)
    }


def test_sparse_search_is_measured_once_whatever_the_steps(evaluations: Evaluations) -> None:
    plan = replace(PLAN, modes=(SearchMode.SPARSE, SearchMode.DENSE), steps=(1, 5), instructions=(JUDGED, NONE))
    run = evaluations.start(plan)
    assert run.total == 3 * (1 + 4)
    wait(evaluations, run)
    alone = evaluations.start(replace(PLAN, modes=(SearchMode.SPARSE,), steps=(), instructions=()))
    assert alone.total == 3
    wait(evaluations, alone)


def test_a_document_counts_at_the_place_of_its_best_chunk(evaluations: Evaluations, application: Any) -> None:
    long = application.add("fig " + "filler words here. " * 400 + "fig fig.")
    assert long.chunk_count > 2
    other = application.add("fig filler")
    judge(application, "fig filler words", {other.id: 1})
    report = wait(evaluations, evaluations.start(PLAN)).report
    assert report is not None
    (scores,) = [each for each in report.queries if each.query == "fig filler words"]
    assert scores.values[Measure.MRR_10][0] >= 1 / 2


def test_another_collection_is_measured_by_the_same_judgements(evaluations: Evaluations, application: Any) -> None:
    for text, uri in (("apple tart", "elsewhere://a"), ("plum plum apple", "text://2")):
        application.services.library.ensure_collection("copy")
        application.services.library.add_document("copy", text_source(uri, text))
    application.work_off()
    plan = replace(PLAN, collections=("library", "copy"))
    run = wait(evaluations, evaluations.start(plan))
    report = run.report
    assert report is not None
    assert [each.label for each in report.scores] == ["library", "copy"]
    values = {each.query: each.values[Measure.NDCG_10] for each in report.queries}
    assert values == {"apple": (1, 1), "plum": (1, 1), "cake tart": (1, 0)}  # the pear cake is not in the copy
    assert report.missing_documents == {"copy": 1}

    difference = next(each for each in evaluations.compare(run.id) if each.measure is Measure.NDCG_10)
    assert (difference.label, difference.better, difference.equal, difference.worse) == ("copy", 0, 2, 1)
    assert difference.estimate.value == pytest.approx(-1 / 3)
    (turned,) = (each for each in evaluations.compare(run.id, baseline=1) if each.measure is Measure.NDCG_10)
    assert turned.estimate.value == pytest.approx(1 / 3)
    with pytest.raises(InputError, match="baseline"):
        evaluations.compare(run.id, baseline=2)


def test_judgements_of_some_people_alone(evaluations: Evaluations, application: Any) -> None:
    fig = application.add("fig").id
    judge(application, "fig", {fig: 1}, by="import:fruit")
    run = wait(evaluations, evaluations.start(replace(PLAN, judged_by=("import:fruit",))))
    assert run.report is not None
    assert [each.query for each in run.report.queries] == ["fig"]
    with pytest.raises(NotFoundError, match="has no judged query"):
        evaluations.start(replace(PLAN, judged_by=("nobody",)))


def test_a_sample_is_the_same_each_time(evaluations: Evaluations) -> None:
    asked = []
    for size in (2, 2, 3):
        report = wait(evaluations, evaluations.start(replace(PLAN, max_queries=size))).report
        assert report is not None
        asked.append([each.query for each in report.queries])
    assert asked[0] == asked[1] == asked[2][:2]
    assert len(asked[2]) == 3


def test_a_collection_deleted_meanwhile_is_reported_without_the_names_of_others(
    evaluations: Evaluations, application: Any, embedder: SteeredEmbedder
) -> None:
    """The run has no caller whose rights could limit them."""
    application.services.library.ensure_collection("hidden")
    embedder.is_free.clear()
    run = evaluations.start(PLAN)
    application.services.library.delete_collection("library")
    embedder.is_free.set()
    assert wait(evaluations, run).error == "The collection 'library' was deleted meanwhile."


def test_one_runs_at_a_time_and_a_cancelled_one_tells_what_it_has(
    evaluations: Evaluations, embedder: SteeredEmbedder
) -> None:
    plan = replace(PLAN, steps=(1, 2))
    embedder.is_free.clear()
    run = evaluations.start(plan)
    with pytest.raises(ConflictError, match="already running"):
        evaluations.start(plan)
    with pytest.raises(ConflictError, match="no results"):
        evaluations.compare(run.id)
    assert evaluations.cancel(run.id).state is EvaluationState.RUNNING
    embedder.is_free.set()
    ended = wait(evaluations, run)
    assert (ended.state, ended.done, ended.report) == (EvaluationState.CANCELLED, 1, None)
    assert evaluations.cancel(run.id).state is EvaluationState.CANCELLED
    assert wait(evaluations, evaluations.start(plan)).state is EvaluationState.DONE


def test_others_can_evaluate_meanwhile(evaluations: Evaluations, embedder: SteeredEmbedder) -> None:
    embedder.is_free.clear()
    running = [start_as(evaluations, f"user {number}") for number in range(AT_A_TIME)]
    with pytest.raises(ConflictError, match="already running"):
        start_as(evaluations, "user 0")
    with pytest.raises(ConflictError, match="of other users are running"):
        start_as(evaluations, "one more")
    embedder.is_free.set()
    assert {wait(evaluations, run).state for run in running} == {EvaluationState.DONE}
    assert wait(evaluations, start_as(evaluations, "one more")).state is EvaluationState.DONE


def start_as(evaluations: Evaluations, user: str) -> EvaluationRun:
    with acting_as(Principal(user, Role.EDITOR, ("*",))):
        return evaluations.start(replace(PLAN, max_queries=1))


def test_what_was_finished_before_the_end_is_reported(evaluations: Evaluations, embedder: SteeredEmbedder) -> None:
    plan = replace(PLAN, steps=(1, 2))
    held = embedder.embed_query
    seen = threading.Event()

    def stop_at_fourth(text: str, **options: Any) -> Refinement:
        if len(embedder.embedded) == 3:
            seen.set()
            time.sleep(0.2)
        return held(text, **options)

    embedder.embed_query = stop_at_fourth  # type: ignore[method-assign]
    run = evaluations.start(plan)
    assert seen.wait(PATIENCE_S)
    assert (snapshot := evaluations.run(run.id)).done == 3
    assert snapshot.remaining_s is not None
    evaluations.cancel(run.id)
    ended = wait(evaluations, run)
    assert ended.state is EvaluationState.CANCELLED
    assert ended.report is not None
    assert len(ended.report.queries) == 2


def test_a_query_that_cannot_be_searched_for_is_named_and_left_out(evaluations: Evaluations, application: Any) -> None:
    fig = application.add("fig").id
    judge(application, "unspeakable", {fig: 1}, by="ann")
    report = wait(evaluations, evaluations.start(replace(PLAN, steps=(1, 2)))).report
    assert report is not None
    assert report.unanswered == {"unspeakable": "The query is too long for the model."}
    assert len(report.queries) == 3
    run = wait(evaluations, evaluations.start(replace(PLAN, judged_by=("ann",))))
    assert run.state is EvaluationState.FAILED
    assert "'unspeakable'" in (run.error or "")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_unforeseen_error_ends_the_run_and_not_the_server(evaluations: Evaluations, application: Any) -> None:
    fig = application.add("fig").id
    judge(application, "broken", {fig: 1})
    run = wait(evaluations, evaluations.start(PLAN))
    assert run.state is EvaluationState.FAILED
    assert "the model broke" not in (run.error or "")
    assert wait(evaluations, evaluations.start(replace(PLAN, max_queries=1))).state is EvaluationState.DONE


def test_vectors_are_shared_between_variants(
    evaluations: Evaluations, application: Any, embedder: SteeredEmbedder
) -> None:
    application.services.library.ensure_collection("copy")
    application.services.library.add_document("copy", text_source("a", b"apple tart"))
    application.work_off()
    run = wait(evaluations, evaluations.start(replace(PLAN, collections=("library", "copy"))))
    assert run.done == 6
    assert len(embedder.embedded) == 3


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"judged_in": "nowhere"}, UnknownCollectionError, "nowhere"),
        ({"collections": ("library", "nowhere")}, UnknownCollectionError, "nowhere"),
        ({"collections": ()}, InputError, "at least one collection"),
        ({"modes": ()}, InputError, "one mode"),
        ({"steps": ()}, InputError, "number of steps"),
        ({"steps": (0,)}, InputError, "1 to 20"),
        ({"steps": (21,)}, InputError, "1 to 20"),
        ({"instructions": ()}, InputError, "one instruction"),
        ({"instructions": (InstructionChoice(InstructionPolicy.LENS, "mood"),)}, UnknownLensError, "mood"),
        ({"instructions": (InstructionChoice(InstructionPolicy.LENS),)}, InputError, "name of a lens"),
        ({"steps": tuple(range(1, 21)), "instructions": (JUDGED, NONE)}, InputError, "40 variants are too many"),
        ({"max_queries": 0}, InputError, "at least one query"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(
    evaluations: Evaluations, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        evaluations.start(replace(PLAN, **changes))
    assert evaluations.runs() == []


def test_collections_without_a_document_in_common_cannot_be_compared(
    evaluations: Evaluations, application: Any
) -> None:
    application.services.library.ensure_collection("empty")
    with pytest.raises(InputError, match="None of the documents judged in 'library' is in 'empty'"):
        evaluations.start(replace(PLAN, collections=("library", "empty")))


def test_the_last_runs_are_kept(evaluations: Evaluations) -> None:
    started = [wait(evaluations, evaluations.start(replace(PLAN, max_queries=1))) for _ in range(KEPT + 1)]
    assert [run.id for run in evaluations.runs()] == [run.id for run in reversed(started[1:])]
    with pytest.raises(NotFoundError, match="no evaluation"):
        evaluations.run(started[0].id)
    for _ in range(KEPT):
        wait(evaluations, start_as(evaluations, "another user"))
    assert evaluations.run(started[1].id).report is not None


def test_a_closing_server_does_not_wait_for_the_end(evaluations: Evaluations, embedder: SteeredEmbedder) -> None:
    embedder.is_free.clear()
    run = evaluations.start(PLAN)
    threading.Timer(0.1, embedder.is_free.set).start()
    evaluations.close()
    wait_until(lambda: evaluations.run(run.id).state is EvaluationState.CANCELLED)
