"""The evaluate page without Gradio: untrusted plain values in; plans, runs and HTML out."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import GircseError, InputError
from app.ports.catalog import Catalog
from app.ports.evaluation import Evaluations, JudgedQueries, Tuning
from app.search.lenses import lenses_of
from app.types.evaluation import (
    EvaluationPlan,
    EvaluationRun,
    EvaluationState,
    InstructionChoice,
    InstructionPolicy,
    Measure,
)
from ui.handler_inputs import read_choice, read_whole_number
from ui.language import _, later, ngettext, number
from ui.lens_names import shown_lens
from ui.render.evaluation import render_progress, render_report
from ui.render.judged import counted_queries, render_no_collection, render_sources
from ui.render.text import render_note
from ui.render.variants import shown_label
from ui.render.weights import render_weights
from ui.search_handlers import read_mode

MAX_CHOSEN = 32
ALL_QUERIES = later("All queries")
SAMPLES = {ALL_QUERIES: None, **{f"A sample of {size}": size for size in (20, 50, 100, 200, 500)}}
STEPS = (1, 2, 3, 5, 10, 15, 20, 40)
POLICIES = {
    later("As in the judgements"): InstructionChoice(),
    later("No instruction"): InstructionChoice(InstructionPolicy.NONE),
    later("Model default"): InstructionChoice(InstructionPolicy.DEFAULT),
}
LENS = "Lens: "


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateHandlers:
    judged: JudgedQueries
    evaluations: Evaluations
    tuning: Tuning
    catalog: Catalog
    max_steps: int

    def sources(self, collection: object) -> str:
        """Number of judgements per judge."""
        if not collection:
            return render_no_collection()
        return render_sources(self.judged.sources(read_choice(collection, name="collection")))

    def first_judged(self) -> str | None:
        """The first collection that has judgements, or None."""
        names = [each.name for each in self.catalog.collections()]
        return next((name for name in names if self.judged.sources(name)), None)

    def judges(self, collection: object) -> list[str]:
        return [each.judged_by for each in self.judged.sources(read_choice(collection, name="collection"))]

    def forget(self, collection: object, judged_by: object) -> str:
        known = self.catalog.collection(read_choice(collection, name="collection")).name
        count = self.judged.forget_import(known, read_choice(judged_by, name="import"))
        return render_note(
            ngettext(
                "{count} imported judgement was removed.", "{count} imported judgements were removed.", count
            ).format(count=number(count))
        )

    def weights(self, collection: object) -> str:
        """Weights of the collection's rankings and their tuning history."""
        if not collection:
            return ""
        return render_weights(self.tuning.weights(read_choice(collection, name="collection")))

    def tune(self, collection: object) -> str:
        tuning = self.tuning.tune(read_choice(collection, name="collection"))
        if tuning.is_applied:
            return render_note(_("Better weights were found and are now in use. Undo restores the defaults."))
        return render_note(
            _("No other weights do better on the judgements that were set aside as a check. Nothing has changed.")
        )

    def undo_tuning(self, collection: object) -> str:
        self.tuning.undo(read_choice(collection, name="collection"))
        return render_note(_("The default weights were restored."))

    def instruction_choices(self) -> list[tuple[str, str]]:
        """Label and sent value of each choice."""
        try:
            lenses = [each.name for each in lenses_of(self.catalog)]
        except GircseError:  # the first use of the page says what is wrong
            lenses = []
        return [
            *((_(each), each) for each in POLICIES),
            *((_("Lens: {name}").format(name=shown_lens(each)), LENS + each) for each in lenses),
        ]

    def start(
        self,
        collection: object,
        modes: object,
        steps: object,
        instructions: object,
        compared_with: object,
        judged_by: object,
        max_queries: object,
    ) -> EvaluationRun:
        judged_in = self.catalog.collection(read_choice(collection, name="collection")).name
        others = [each for each in _read_list(compared_with, "collections") if each != judged_in]
        plan = EvaluationPlan(
            judged_in=judged_in,
            collections=(judged_in, *others),
            modes=tuple(read_mode(each) for each in _read_list(modes, "ways to find")),
            steps=tuple(self._steps(each) for each in _read_list(steps, "numbers of steps")),
            instructions=tuple(_read_instruction(each) for each in _read_list(instructions, "instructions")),
            judged_by=tuple(_read_list(judged_by, "judges")),
            max_queries=_read_sample(max_queries),
        )
        return self.evaluations.start(plan)

    def _steps(self, text: str) -> int:
        steps = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else None
        return read_whole_number(steps, name="number of steps", minimum=1, maximum=self.max_steps)

    def run(self, run_id: object) -> EvaluationRun | None:
        """The run with this id; None if no id is given. Raises NotFoundError."""
        return self.evaluations.run(read_choice(run_id, name="measurement")) if run_id else None

    def cancel(self, run_id: object) -> EvaluationRun:
        return self.evaluations.cancel(read_choice(run_id, name="measurement"))

    def run_names(self) -> list[tuple[str, str]]:
        """Label and id of each run, newest first."""
        return [(_run_name(run), run.id) for run in self.evaluations.runs()]

    def variant_names(self, run: EvaluationRun | None) -> list[tuple[str, str]]:
        scores = run.report.scores if run is not None and run.report is not None else ()
        return [(shown_label(each.label), str(place)) for place, each in enumerate(scores)]

    def report(self, run: EvaluationRun | None, measure: object, baseline: object) -> str:
        """Empty until the run has a report."""
        if run is None or run.report is None:
            return ""
        place = int(baseline) if isinstance(baseline, str) and baseline.isascii() and baseline.isdecimal() else 0
        place = place if place < len(run.report.scores) else 0  # the baseline may belong to another run
        differences = self.evaluations.compare(run.id, baseline=place)
        lenses = {each.name: each.query_instruction for each in lenses_of(self.catalog)}
        return render_report(
            run, run.report, differences, measure=_read_measure(measure), baseline=place, lenses=lenses
        )

    def progress(self, run: EvaluationRun | None) -> str:
        return render_progress(run)


def sample_choices() -> list[tuple[str, str]]:
    """Label and sent value of each choice."""
    return [
        (_(name) if size is None else _("A sample of {count}").format(count=size), name)
        for name, size in SAMPLES.items()
    ]


def is_running(run: EvaluationRun | None) -> bool:
    return run is not None and run.state is EvaluationState.RUNNING


def _run_name(run: EvaluationRun) -> str:
    started = run.started_at.astimezone().strftime("%H:%M")
    searches = ngettext("{count} search", "{count} searches", run.total).format(count=number(run.total))
    return f"{started} · {run.plan.judged_in} · {counted_queries(run.query_count)} · {searches}"


def _read_list(value: object, name: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) and len(each) <= 200 for each in value):
        raise InputError(_("Choose the {name} from the list.").format(name=_(name)))
    if len(value) > MAX_CHOSEN:
        raise InputError(
            _("Choose at most {most} {name}, not {count}.").format(most=MAX_CHOSEN, name=_(name), count=len(value))
        )
    return list(dict.fromkeys(value))


def _read_instruction(name: str) -> InstructionChoice:
    if name in POLICIES:
        return POLICIES[name]
    if not name.startswith(LENS):
        raise InputError(_("Unknown instruction. Choose one from the list."))
    return InstructionChoice(InstructionPolicy.LENS, name.removeprefix(LENS))


def _read_sample(value: object) -> int | None:
    if not isinstance(value, str) or value not in SAMPLES:
        raise InputError(_("Unknown sample size. Choose one from the list."))
    return SAMPLES[value]


def _read_measure(value: object) -> Measure:
    try:
        return Measure(str(value))
    except ValueError:
        raise InputError(_("Unknown measure. Choose one from the list.")) from None
