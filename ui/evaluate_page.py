"""The evaluate page: judgements, measurements and their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.types.evaluation import EvaluationRun, Measure
from app.types.search import ALL_COLLECTIONS, DEFAULT_MODE
from ui.choice_fields import choice_field, choose_collection
from ui.chosen_collection import asked_collection, missing_collection, remember_collection
from ui.contract import PageParts
from ui.evaluate_handlers import ALL_QUERIES, POLICIES, STEPS, EvaluateHandlers, is_running, sample_choices
from ui.handler_inputs import as_handler, event_data
from ui.language import _, html, later
from ui.render.text import render_note, render_reader_note
from ui.theme import ASSETS

POLL_SECONDS = 1.0
MODES = (
    (later("Meaning"), "dense"),
    (later("Words"), "sparse"),
    (later("Both"), "hybrid"),
)
FORGET_SCRIPT = "gircse.listen(element, trigger, ['forget'])"
TUNE_SCRIPT = "gircse.listen(element, trigger, ['tune', 'undo'])"
CANCEL_SCRIPT = "gircse.listen(element, trigger, ['cancel'])"
# The address has the id of the shown measurement, so that a link opens it again while the server keeps it.
IMPORT_SCRIPT = (ASSETS / "judgements.js").read_text(encoding="utf-8")
REMEMBER_SCRIPT = "(run) => gircse.remember({ run })"

_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, slots=True)
class _Judged:
    """Components for the judgements and their import."""

    collection: gr.Dropdown
    sources: gr.HTML
    name: gr.Textbox
    instruction: gr.Textbox
    bring_in: gr.Button
    message: gr.HTML
    weights: gr.HTML


@dataclass(frozen=True, slots=True)
class _Plan:
    modes: gr.CheckboxGroup
    steps: gr.CheckboxGroup
    instructions: gr.Dropdown
    compared_with: gr.Dropdown
    judged_by: gr.Dropdown
    max_queries: gr.Dropdown
    start: gr.Button
    message: gr.HTML

    @property
    def fields(self) -> list[gr.components.Component]:
        return [self.modes, self.steps, self.instructions, self.compared_with, self.judged_by, self.max_queries]


@dataclass(frozen=True, slots=True)
class _Results:
    controls: gr.Row
    run: gr.Dropdown
    measure: gr.Dropdown
    baseline: gr.Dropdown
    progress: gr.HTML
    report: gr.HTML
    timer: gr.Timer

    @property
    def chosen(self) -> list[gr.components.Component]:
        return [self.run, self.measure, self.baseline]

    @property
    def views(self) -> list[Any]:
        return [self.progress, self.report, self.controls, self.baseline, self.timer]


def build_evaluate_page(site: gr.Blocks, parts: PageParts) -> None:
    """Draws the page in the current Blocks."""
    if parts.judged is None or parts.evaluations is None or parts.tuning is None:
        gr.HTML(render_note(_("Evaluation is not available here.")), js_on_load=None)
        return
    handlers = EvaluateHandlers(
        judged=parts.judged,
        evaluations=parts.evaluations,
        tuning=parts.tuning,
        catalog=parts.catalog,
        max_steps=parts.max_steps,
    )
    gr.HTML(
        html(
            '<div class="page-head"><h1>[[How good are the hits?]]</h1><p>[[Run judged queries with several '
            "settings and see which setting finds the right documents.]]</p></div>"
        ),
        js_on_load=None,
    )
    gr.HTML(render_reader_note(), js_on_load=None)
    judged = _build_judged()
    plan = _build_plan(handlers, parts)
    results = _build_results()
    opened = _connect_judged(site, handlers, judged, plan)
    _connect_results(opened, handlers, judged, plan, results)


def _build_judged() -> _Judged:
    with gr.Column(elem_classes="ask"):
        with gr.Row(elem_classes="ask-row"):
            collection = choice_field([], label=_("Judged queries of the collection"), elem_id="evaluate-collection")
        sources = gr.HTML("", elem_id="evaluate-sources", js_on_load=FORGET_SCRIPT)
        with (
            gr.Accordion(_("Import judgements from files"), open=False, elem_id="evaluate-import"),
            gr.Row(elem_classes="import-row"),
        ):
            gr.HTML(html(_IMPORT_FILES), elem_id="evaluate-files", js_on_load=None)
            with gr.Column(min_width=260):
                name = gr.Textbox(label=_("Name of the import"), placeholder=_("Name of the file"), max_lines=1)
                instruction = gr.Textbox(
                    label=_("Instruction for these queries"), placeholder=_("Instructions in the file"), max_lines=3
                )
                bring_in = gr.Button(_("Import"), elem_id="evaluate-bring-in")
        with gr.Accordion(_("Weights of meaning and words"), open=False, elem_id="evaluate-tuning"):
            weights = gr.HTML("", elem_id="evaluate-weights", js_on_load=TUNE_SCRIPT)
        message = gr.HTML("", elem_id="evaluate-message", js_on_load=None)
    return _Judged(collection, sources, name, instruction, bring_in, message, weights)


_IMPORT_FILES = (
    '<label>[[Judgement files]] <input type="file" multiple></label><p class="hint">[[Judgements of BEIR or TREC with '
    "their queries (queries.jsonl and test.tsv), or one table (CSV, TSV, JSON Lines) with the columns]] <b>query</b>, "
    "<b>document</b>, <b>grade</b> [[(0 to 3). Name a document by its address, the last part of its address, or its "
    "metadata id.]]</p>"
)


def _build_plan(handlers: EvaluateHandlers, parts: PageParts) -> _Plan:
    steps = [each for each in STEPS if each <= parts.max_steps]
    usual = [str(each) for each in steps if each in (1, 5, 20)]
    with gr.Column(elem_classes="ask", elem_id="evaluate-plan"):
        with gr.Row(elem_classes="ask-row ways"):
            modes = gr.CheckboxGroup(
                [(_(label), mode) for label, mode in MODES], value=[DEFAULT_MODE.value], label=_("Find by"),
                min_width=260, elem_id="evaluate-modes", elem_classes="modes",
            )  # fmt: skip
            step_field = gr.CheckboxGroup(
                [str(each) for each in steps], value=usual, label=_("Steps of refinement"), min_width=260,
                elem_id="evaluate-steps", elem_classes="modes",
            )  # fmt: skip
        with gr.Row(elem_classes="ask-row"):
            instructions = choice_field(
                handlers.instruction_choices(), value=[next(iter(POLICIES))], multiselect=True,
                label=_("Instructions to compare"), min_width=260, elem_id="evaluate-instructions",
            )  # fmt: skip
            start = gr.Button(  # disabled until the page has loaded
                _("Evaluate"), variant="primary", scale=0, min_width=132, elem_id="evaluate-start", interactive=False
            )
        with (
            gr.Accordion(_("More settings"), open=False, elem_id="evaluate-more"),
            gr.Row(elem_classes="ask-row"),
        ):
            compared_with = choice_field(
                [], value=[], multiselect=True, label=_("Compare with other collections"),
                info=_("The same documents, indexed with other settings."), min_width=240, elem_id="evaluate-compare",
            )  # fmt: skip
            judged_by = choice_field(
                [], value=[], multiselect=True, label=_("Judged by"), info=_("Leave it empty for everyone."),
                min_width=200, elem_id="evaluate-judges",
            )  # fmt: skip
            max_queries = choice_field(
                sample_choices(), value=ALL_QUERIES, label=_("Queries to run"),
                info=_("The sample is the same every time."), min_width=180, filterable=False,
                elem_id="evaluate-sample",
            )  # fmt: skip
        message = gr.HTML("", elem_id="evaluate-plan-message", js_on_load=None)
    return _Plan(modes, step_field, instructions, compared_with, judged_by, max_queries, start, message)


def _build_results() -> _Results:
    progress = gr.HTML("", elem_id="evaluate-progress", js_on_load=CANCEL_SCRIPT)
    with gr.Row(elem_classes="ask-row result-controls", visible=False, elem_id="evaluate-controls") as controls:
        run = choice_field([], label=_("Evaluation"), min_width=260, scale=3, elem_id="evaluate-run")
        measure = gr.Dropdown(
            [(each.label, each.value) for each in Measure], value=Measure.NDCG_10.value, label=_("Measure shown"),
            min_width=140, filterable=False, elem_id="evaluate-measure",
        )  # fmt: skip
        baseline = choice_field([], label=_("Compared with"), min_width=220, scale=2, elem_id="evaluate-baseline")
    report = gr.HTML("", elem_id="evaluate-report", js_on_load=None)
    return _Results(controls, run, measure, baseline, progress, report, gr.Timer(POLL_SECONDS, active=False))


def _connect_judged(site: gr.Blocks, handlers: EvaluateHandlers, judged: _Judged, plan: _Plan) -> Any:
    """Returns the event after which the page is loaded."""

    def look(collection: object) -> tuple[Any, ...]:
        shown = handlers.sources(collection)
        others = [each.name for each in handlers.catalog.collections() if each.name != collection]
        return (
            shown,
            gr.Dropdown(choices=others, value=[]),
            gr.Dropdown(choices=handlers.judges(collection) if collection else [], value=[]),
            handlers.weights(collection),
        )

    def tune(collection: object) -> tuple[Any, ...]:
        return (handlers.tune(collection),)

    def undo(collection: object) -> tuple[Any, ...]:
        return (handlers.undo_tuning(collection),)

    def forget(collection: object, event: gr.EventData) -> tuple[Any, ...]:
        data = event_data(event)
        return as_handler(lambda: (handlers.forget(collection, data.get("source")),), outputs=1)()

    shown = {
        "fn": as_handler(look, outputs=4, on_error=gr.skip()),
        "inputs": judged.collection,
        "outputs": [judged.sources, plan.compared_with, plan.judged_by, judged.weights],
        **_QUIET,
    }

    def choices(request: gr.Request) -> tuple[Any, ...]:
        asked = asked_collection(request)
        wanted = asked if asked and asked != ALL_COLLECTIONS else handlers.first_judged()
        missing = missing_collection(handlers.catalog, request)
        return choose_collection(handlers.catalog, wanted), gr.Dropdown(choices=handlers.instruction_choices()), missing

    remember_collection(judged.collection)
    opened = site.load(choices, outputs=[judged.collection, plan.instructions, judged.message], **_QUIET).then(**shown)
    judged.collection.input(**shown)
    judged.bring_in.click(
        None,
        [judged.collection, judged.name, judged.instruction],
        [judged.message, judged.name],
        js=IMPORT_SCRIPT,
        api_visibility="private",
    ).then(**shown)
    judged.sources.forget(forget, judged.collection, judged.message, **_QUIET).then(**shown)
    for event, act in ((judged.weights.tune, tune), (judged.weights.undo, undo)):
        event(as_handler(act, outputs=1), judged.collection, judged.message, **_QUIET).then(**shown)
    return opened


def _connect_results(opened: Any, handlers: EvaluateHandlers, judged: _Judged, plan: _Plan, results: _Results) -> None:
    def look(run: EvaluationRun | None, measure: object, baseline: object) -> tuple[Any, ...]:
        names = handlers.variant_names(run)
        chosen = baseline if baseline in [value for _, value in names] else "0" if names else None
        return (
            handlers.progress(run),
            handlers.report(run, measure, chosen),
            gr.Row(visible=bool(names) or len(handlers.run_names()) > 1),
            gr.Dropdown(choices=names, value=chosen, visible=len(names) > 1),
            gr.Timer(active=is_running(run)),
        )

    def show(run_id: object, measure: object, baseline: object) -> tuple[Any, ...]:
        return look(handlers.run(run_id), measure, baseline)

    def start(collection: object, *settings: object) -> tuple[Any, ...]:
        run = handlers.start(collection, *settings)
        names = gr.Dropdown(choices=handlers.run_names(), value=run.id)
        return "", *look(run, Measure.NDCG_10.value, None), names

    def cancel(run_id: object, event: gr.EventData) -> tuple[Any, ...]:
        return as_handler(lambda: (handlers.progress(handlers.cancel(run_id)),), outputs=1)()

    def restore(request: gr.Request) -> Any:
        names = handlers.run_names()
        wanted = request.query_params.get("run")
        known = [run_id for _, run_id in names]
        return gr.Dropdown(choices=names, value=wanted if wanted in known else next(iter(known), None))

    showing = {
        "fn": as_handler(show, outputs=len(results.views), on_error=gr.skip()),
        "inputs": results.chosen,
        "outputs": results.views,
        **_QUIET,
    }
    plan.start.click(
        as_handler(start, outputs=len(results.views) + 2, on_error=gr.skip()),
        [judged.collection, *plan.fields],
        [plan.message, *results.views, results.run],
        **_QUIET,
    ).success(fn=None, inputs=results.run, js=REMEMBER_SCRIPT)
    results.timer.tick(**showing)
    results.measure.input(**showing)
    results.baseline.input(**showing)
    results.run.input(**showing).then(fn=None, inputs=results.run, js=REMEMBER_SCRIPT)
    results.progress.cancel(cancel, results.run, results.progress, **_QUIET)
    opened = opened.then(restore, outputs=results.run, **_QUIET).then(**showing)
    opened.then(lambda: gr.Button(interactive=True), outputs=plan.start, **_QUIET)
