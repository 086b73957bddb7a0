"""Makes a page of tables from results files alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from embedder.errors import DataError
from embedder.evaluation.bootstrap import BootstrapEstimate
from embedder.evaluation.outcomes import BM25, MINILM, NO_INSTRUCTION, ON_BOTH_SIDES, ON_QUERIES, Setting
from embedder.evaluation.plots import plot_baselines, plot_steps
from embedder.evaluation.results import difference_of, outcomes_from_json, read_results, score_of
from embedder.evaluation.scoring import PairedDifference, Score, compare

CONDITIONS = {NO_INSTRUCTION: "none", ON_QUERIES: "queries", ON_BOTH_SIDES: "both sides"}
_WHOLE_TASKS = ("sts", "retrieval", "knn")  # the summary shows all their measures
_SUMMARIES = ("mean", "seen", "unseen", "all")
PAGE = "report.md"


@dataclass(frozen=True)
class Run:
    """The content of one results file."""

    name: str
    raw: Mapping[str, Any]
    scores: tuple[Score, ...]
    differences: tuple[PairedDifference, ...]

    @property
    def model(self) -> str:
        return self.raw["model"]["name"]

    @cached_property
    def headlines(self) -> frozenset[str]:
        """Measures that summarise their task; all measures of a task without a mean."""
        measures = {each.measure.partition(".")[::2] for each in self.scores}
        summed = {task for task, rest in measures if rest in _SUMMARIES and task not in _WHOLE_TASKS}
        return frozenset(f"{task}.{rest}" for task, rest in measures if task not in summed or rest in _SUMMARIES)

    @cached_property
    def _estimates(self) -> dict[tuple[str, str, Setting], BootstrapEstimate]:
        return {(each.measure, each.metric, each.setting): each.estimate for each in self.scores}

    @cached_property
    def _over_baseline(self) -> dict[tuple[str, str, Setting], PairedDifference]:
        return {(d.measure, d.metric, d.setting): d for d in self.differences if d.kind == "baseline"}

    @cached_property
    def _by_system(self) -> dict[tuple[str, str, str], list[Score]]:
        grouped: dict[tuple[str, str, str], list[Score]] = {}
        for each in self.scores:
            grouped.setdefault((each.setting.system, each.measure, each.metric), []).append(each)
        return grouped

    def find(self, measure: str, metric: str, setting: Setting) -> BootstrapEstimate | None:
        return self._estimates.get((measure, metric, setting))

    def over_baseline(self, score: Score) -> PairedDifference | None:
        return self._over_baseline.get((score.measure, score.metric, score.setting))

    def of_system(self, system: str, measure: str, metric: str) -> list[Score]:
        return self._by_system.get((system, measure, metric), [])


def write_report(paths: Sequence[Path], out: Path) -> Path:
    """Writes report.md with tables, and steps-*.png and baselines-*.png, to `out`. Raises DataError for invalid
    files."""
    runs = [_read(path, name) for path, name in zip(paths, _names(paths), strict=True)]
    out.mkdir(parents=True, exist_ok=True)
    parts = ["# Evaluation\n", _READING]
    if len(runs) > 1:
        parts.append(_comparison(runs))
    for number, run in enumerate(runs, start=1):
        steps, bars = f"steps-{number}.png", f"baselines-{number}.png"
        headlines = [s for s in run.scores if s.measure in run.headlines]
        plot_steps(headlines, run.model, out / steps)
        plot_baselines(headlines, run.model, out / bars)
        parts += [_provenance(run), f"![Scores against the number of steps]({steps})\n"]
        parts += [f"![The model beside MiniLM and BM25]({bars})\n", *_sections(run)]
    page = out / PAGE
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def summarise(paths: Sequence[Path]) -> str:
    """A table of every task's summary scores, for a model card. Raises DataError for invalid files."""
    rows = []
    for path in paths:
        run = _read(path, path.stem)
        for measure, metric in dict.fromkeys((s.measure, s.metric) for s in run.scores if s.measure in run.headlines):
            best = max(run.of_system(MINILM, measure, metric), key=lambda s: s.estimate.value, default=None)
            for each in _at_most_steps(run, measure, metric):
                place = (measure, metric, CONDITIONS[each.setting.condition], str(each.setting.query_steps))
                rows.append((*place, _show(each.estimate), _show(best.estimate if best else None)))
    return table(("measure", "metric", "instruction", "K", "this model", "plain MiniLM, its best"), rows)


_READING = (
    "Figures are ×100, with 95 % intervals of a bootstrap over items in brackets. K is the number of refinement steps. "
    "Differences are paired: both sides see the same resamples; **bold** ones have an interval without 0. "
    "The instruction is absent (none), on queries alone, or on both sides.\n"
)


def _names(paths: Sequence[Path]) -> list[str]:
    """The files' names; with their folders if two are equal."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [f"{path.parent.name}/{path.stem}" for path in paths]


def _read(path: Path, name: str) -> Run:
    raw = read_results(path)
    if raw is None:
        raise DataError(f"{path} does not exist. `gircse eval --out {path}` writes it.")
    tasks = raw["tasks"].values()
    return Run(
        name=name,
        raw=raw,
        scores=tuple(score_of(row) for task in tasks for row in task["scores"]),
        differences=tuple(difference_of(row) for task in tasks for row in task["differences"]),
    )


def _provenance(run: Run) -> str:
    raw = run.raw
    commit = raw["commit"]
    versions = ", ".join(f"{name} {number}" for name, number in raw["versions"].items())
    rows = [
        ("model", f"{run.model}, fingerprint `{raw['model']['fingerprint']}`"),
        ("commit", f"`{commit['id']}`{' with changes' if commit['modified'] else ''}" if commit else "not a checkout"),
        ("settings", ", ".join(f"{name} {_plain(value)}" for name, value in raw["settings"].items())),
        ("machine", f"{raw['machine']['cpu']}, {raw['machine']['threads']} threads, {raw['machine']['device']}"),
        ("versions", versions),
        ("seconds", ", ".join(f"{name} {task['seconds']:.0f}" for name, task in raw["tasks"].items())),
    ]
    return f"## {run.name}\n\n{table(('', ''), rows)}"


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) or "–" if isinstance(value, list) else "–" if value is None else str(value)


def _sections(run: Run) -> list[str]:
    measures = list(dict.fromkeys((each.measure, each.metric) for each in run.scores))
    main = [each for each in measures if each[0] in run.headlines]
    rest = [each for each in measures if each not in main]
    sections = [
        f"### Against the baselines\n\n{_baseline_table(run, main)}",
        f"### More steps, both sides alike\n\n{_step_table(run, main)}",
        f"### Fewer document steps\n\n{_document_table(run, main)}",
        f"### Query steps against document steps\n\n{_matrix_table(run, main)}",
    ]
    if rest:
        sections.append(f"### Every set\n\n{_baseline_table(run, rest)}")
    return sections


def _at_most_steps(run: Run, measure: str, metric: str) -> list[Score]:
    """The model's scores at the most steps measured on both sides, one per condition."""
    ours = [s for s in run.of_system(run.model, measure, metric) if s.setting.query_steps == s.setting.document_steps]
    most = max((s.setting.query_steps or 0 for s in ours), default=0)
    return [s for s in ours if s.setting.query_steps == most]


def _baseline_table(run: Run, measures: Sequence[tuple[str, str]]) -> str:
    rows = []
    for measure, metric in measures:
        best = max(run.of_system(MINILM, measure, metric), key=lambda s: s.estimate.value, default=None)
        bm25 = [_show(s.estimate) for s in run.of_system(BM25, measure, metric)]
        for each in _at_most_steps(run, measure, metric):
            same = run.find(measure, metric, Setting(MINILM, each.setting.condition))
            rows.append((
                measure,
                metric,
                CONDITIONS[each.setting.condition],
                str(each.setting.query_steps),
                _show(each.estimate),
                _show(same),
                f"{_show(best.estimate)} ({CONDITIONS[best.setting.condition]})" if best else "–",
                bm25[0] if bm25 else "–",
                _show_difference(run.over_baseline(each)),
            ))  # fmt: skip
    columns = (
        "measure",
        "metric",
        "instruction",
        "K",
        run.model,
        "MiniLM, same",
        "MiniLM, its best",
        "BM25",
        "difference to its best",
    )
    return table(columns, rows)


def _step_table(run: Run, measures: Sequence[tuple[str, str]]) -> str:
    alike = [
        s for s in run.scores if s.setting.system == run.model and s.setting.query_steps == s.setting.document_steps
    ]
    steps = sorted({s.setting.query_steps or 0 for s in alike})
    pairs = list(dict.fromkeys(_step_pair(d) for d in run.differences if _is_alike(d)))
    rows = []
    for measure, metric in measures:
        for condition in CONDITIONS:
            found = [run.find(measure, metric, Setting(run.model, condition, k, k)) for k in steps]
            if not any(found):
                continue
            differences = {
                _step_pair(d): d
                for d in run.differences
                if _is_alike(d) and (d.measure, d.metric, d.setting.condition) == (measure, metric, condition)
            }
            shown = [_show_difference(differences.get(pair)) for pair in pairs]
            rows.append((measure, metric, CONDITIONS[condition], *map(_show, found), *shown))
    columns = ["measure", "metric", "instruction", *(f"K={k}" for k in steps), *(f"{a} minus {b}" for a, b in pairs)]
    return table(columns, rows)


def _step_pair(difference: PairedDifference) -> tuple[int, int]:
    return difference.setting.query_steps or 0, difference.other.query_steps or 0


def _is_alike(difference: PairedDifference) -> bool:
    return difference.kind == "steps" and all(
        each.query_steps == each.document_steps for each in (difference.setting, difference.other)
    )


def _document_table(run: Run, measures: Sequence[tuple[str, str]]) -> str:
    rows = []
    for d in run.differences:
        if d.kind == "document_steps" and (d.measure, d.metric) in measures:
            shown = [_show(run.find(d.measure, d.metric, each)) for each in (d.setting, d.other)]
            rows.append((
                d.measure,
                d.metric,
                CONDITIONS[d.setting.condition],
                str(d.setting.query_steps),
                f"{d.setting.document_steps}: {shown[0]}",
                f"{d.other.document_steps}: {shown[1]}",
                _show_difference(d),
            ))  # fmt: skip
    columns = ("measure", "metric", "instruction", "query steps", "document steps", "most document steps", "difference")
    return table(columns, rows)


def _matrix_table(run: Run, measures: Sequence[tuple[str, str]]) -> str:
    """Query steps in rows, document steps in columns, for tasks whose two sides may differ."""
    columns = run.raw["settings"]["document_steps"]
    rows = []
    for measure, metric in measures:
        settings = [each.setting for each in run.of_system(run.model, measure, metric)]
        apart = {each.condition for each in settings if each.query_steps != each.document_steps}
        for condition, k in dict.fromkeys((each.condition, each.query_steps) for each in settings):
            if condition in apart:
                found = [run.find(measure, metric, Setting(run.model, condition, k, d)) for d in columns]
                rows.append((measure, metric, CONDITIONS[condition], str(k), *map(_show, found)))
    return table(("measure", "metric", "instruction", "query steps", *(f"documents at {d}" for d in columns)), rows)


def _comparison(runs: Sequence[Run]) -> str:
    """Summary scores of all runs; differences from the first run if both used the same items."""
    first, *others = runs
    paired = {run.name: _paired(first, run) for run in others}
    rows = []
    for measure, metric in dict.fromkeys((s.measure, s.metric) for s in first.scores if s.measure in first.headlines):
        for each in _at_most_steps(first, measure, metric):
            cells = []
            for run in others:
                k = each.setting.query_steps
                other = Setting(run.model, each.setting.condition, k, each.setting.document_steps)
                cells += [_show(run.find(measure, metric, other))]
                cells += [_show_difference(paired[run.name].get((measure, metric, each.setting)))]
            rows.append((measure, metric, CONDITIONS[each.setting.condition], _show(each.estimate), *cells))
    heads = [head for run in others for head in (run.name, f"{run.name} minus {first.name}")]
    return f"## Compared\n\n{table(('measure', 'metric', 'instruction', first.name, *heads), rows)}"


def _paired(first: Run, other: Run) -> dict[tuple[str, str, Setting], PairedDifference]:
    settings = first.raw["settings"]
    found = {}
    for task in set(first.raw["tasks"]) & set(other.raw["tasks"]):
        ours, theirs = (outcomes_from_json(run.raw["tasks"][task]) for run in (first, other))
        for each in compare(
            ours, theirs, models=(first.model, other.model), resamples=settings["bootstrap"], seed=settings["seed"]
        ):
            found[each.measure, each.metric, each.other] = each
    return found


def _show(estimate: BootstrapEstimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _show_difference(difference: PairedDifference | None) -> str:
    return "–" if difference is None else show_change(difference.estimate)


def show_estimate(estimate: BootstrapEstimate) -> str:
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]"


def show_change(estimate: BootstrapEstimate) -> str:
    """A difference; bold if its interval excludes 0."""
    shown = f"{estimate.value:+.2f} [{estimate.low:+.2f}, {estimate.high:+.2f}]"
    return f"**{shown}**" if estimate.excludes_zero else shown


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
