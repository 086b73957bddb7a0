"""HTML of the evaluate page: progress and results of a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from markupsafe import Markup

from app.types.evaluation import (
    Difference,
    Estimate,
    EvaluationReport,
    EvaluationRun,
    EvaluationState,
    InstructionPolicy,
    InstructionScores,
    Measure,
    QueryScores,
    Variant,
    VariantScores,
)
from ui.contract import SEARCH
from ui.core_messages import translate_message
from ui.language import _, html, later, ngettext, number, percent
from ui.render.charts import Series, interval, render_bar, render_curve, render_difference, scale_end, signed
from ui.render.judged import counted_queries
from ui.render.text import clean, join, render_error, render_note, shorten
from ui.render.variants import shown_label

QUERIES_SHOWN = 50
VARIANTS_SHOWN = 4
FEW_QUERIES = 20
LITTLE_JUDGED = 0.5
HELP = {
    Measure.NDCG_10: later("Quality of the first ten documents by grade and rank: 1 is the best possible order."),
    Measure.RECALL_10: later("The share of relevant documents among the first ten."),
    Measure.RECALL_100: later("The share of relevant documents found in the first hundred passages."),
    Measure.MRR_10: later("One divided by the rank of the first relevant document: 1 for rank 1, 0.5 for rank 2."),
    Measure.JUDGED_10: later(
        "The share of the first ten documents that have judgements. All others count as not relevant."
    ),
}


def render_progress(run: EvaluationRun | None) -> str:
    if run is None:
        return ""
    if run.state is EvaluationState.FAILED:
        return render_error(run.error or "", title=_("The evaluation failed"))
    if run.state is EvaluationState.CANCELLED:
        finished = len(run.report.queries) if run.report else 0
        return render_note(
            _("Stopped after {count} of {total}.").format(count=finished, total=counted_queries(run.query_count))
        )
    if run.state is EvaluationState.DONE:
        return ""
    left = "" if run.remaining_s is None else _(", about {time} left").format(time=_duration(run.remaining_s))
    return html(
        '<div class="progress" role="status"><div><p>[[Evaluating: {done} of {total} searches{left}. You can leave '
        'this page; the evaluation continues.]]</p><progress max="{most}" value="{value}" aria-label="[[Searches '
        'done]]"></progress></div><button type="button" class="plain-button" '
        'data-event="cancel">[[Stop]]</button></div>'
    ).format(
        done=Markup("<b>{}</b>").format(number(run.done)),
        total=number(run.total),
        most=run.total,
        value=run.done,
        left=left,
    )


def render_report(
    run: EvaluationRun,
    report: EvaluationReport,
    differences: Sequence[Difference],
    *,
    measure: Measure,
    baseline: int,
    lenses: Mapping[str, str],
) -> str:
    """`differences` to the baseline for every measure. `lenses` maps names to instructions, for links to the search."""
    best = max(range(len(report.scores)), key=lambda place: report.scores[place].estimates[measure].value)
    chosen = [each for each in differences if each.measure is measure]
    return join(
        [
            _render_heading(run, report),
            _render_verdict(report, best, baseline, chosen),
            _render_cautions(report),
            _render_bars(report, measure, best),
            _render_curves(report.scores, measure),
            _render_differences(report.scores[baseline].label, chosen),
            _render_by_instruction(report.by_instruction, measure),
            _render_table(report.scores),
            _render_queries(report, measure, best, lenses),
        ]
    )


def _render_heading(run: EvaluationRun, report: EvaluationReport) -> Markup:
    address = f"/api/v1/evaluations/{run.id}"
    return html(
        '<div class="report-head"><p>[[{queries} judged in {collection}{through}, {variants}, measured in {time}. '
        'Lines mark 95 % intervals over queries.]]</p><p class="downloads"><span>[[Download]]</span> <a '
        'href="{address}/scores.csv" download>[[Table (CSV)]]</a> <a href="{address}/queries.csv" download>[[Queries '
        '(CSV)]]</a> <a href="{address}" download="evaluation-{id}.json">[[Everything (JSON)]]</a></p></div>'
    ).format(
        queries=counted_queries(len(report.queries)),
        collection=Markup("<b>{}</b>").format(clean(run.plan.judged_in)),
        through=_through(report),
        variants=ngettext("{count} variant", "{count} variants", len(report.scores)).format(count=len(report.scores)),
        time=_duration(run.elapsed_s),
        address=address,
        id=run.id[:8],
    )


def _through(report: EvaluationReport) -> Markup:
    """The instruction of the judgements, if all queries share it."""
    (first, *others) = report.by_instruction
    if others or not first.instruction:
        return Markup("")
    return html(' [[with the instruction]] <q dir="auto">{}</q>').format(shorten(first.instruction, 160))


def _render_verdict(report: EvaluationReport, best: int, baseline: int, differences: Sequence[Difference]) -> Markup:
    """The result in one sentence."""
    if len(report.scores) < 2:
        return Markup("")
    name = Markup("<b>{}</b>").format(shorten(shown_label(report.scores[best].label), 120))
    other = Markup("<b>{}</b>").format(shorten(shown_label(report.scores[baseline].label), 120))
    if best == baseline:
        surely = sum(each.estimate.excludes_zero for each in differences)
        return html(
            '<p class="verdict-line">[[{name} is best; {count} of the other {total} are significantly worse.]]</p>'
        ).format(name=name, count=surely, total=len(differences))
    against = next(each.estimate for each in differences if each.label == report.scores[best].label)
    if against.excludes_zero:
        said = html("[[{name} is best. Its lead over {other} is significant.]]")
    else:
        said = html("[[{name} is best, but its lead over {other} is not significant.]]")
    return Markup('<p class="verdict-line">{}</p>').format(said.format(name=name, other=other))


def _render_cautions(report: EvaluationReport) -> Markup:
    judged = max(each.estimates[Measure.JUDGED_10].value for each in report.scores)
    said = []
    if len(report.queries) < FEW_QUERIES:
        said.append(
            _("The intervals are rough with fewer than {count} queries. Judge more queries.").format(count=FEW_QUERIES)
        )
    if judged < LITTLE_JUDGED:
        said.append(
            _(
                "Only {percent} of the first ten documents have judgements. All others count as not relevant, so "
                "the results are too low, most of all for searches that find new documents."
            ).format(percent=percent(judged))
        )
    for name, count in report.missing_documents.items():
        missing = ngettext(
            "{count} relevant document is missing in “{name}” and counts as not found.",
            "{count} relevant documents are missing in “{name}” and count as not found.",
            count,
        )
        said.append(missing.format(count=number(count), name=name))
    if report.without_relevant:
        left_out = ngettext(
            "Skipped: {count} judged query without a relevant document.",
            "Skipped: {count} judged queries without a relevant document.",
            report.without_relevant,
        )
        said.append(left_out.format(count=number(report.without_relevant)))
    for query, reason in list(report.unanswered.items())[:3]:
        said.append(_("Skipped: “{query}”. {reason}").format(query=query[:80], reason=translate_message(reason)))
    if not said:
        return Markup("")
    return Markup('<div class="notice caution">{}</div>').format(
        join(Markup("<p dir=auto>{}</p>").format(shorten(each, 400)) for each in said)
    )


def _render_bars(report: EvaluationReport, measure: Measure, best: int) -> Markup:
    end = scale_end([each.estimates[measure] for each in report.scores])
    return Markup('<section><h2>{}</h2><p class="hint">{}</p>{}</section>').format(
        measure.label,
        _(HELP[measure]),
        _bar_table(report.scores, measure, end, best=best if len(report.scores) > 1 else None),
    )


def _bar_table(scores: Sequence[VariantScores], measure: Measure, end: float, *, best: int | None) -> Markup:
    rows = join(
        Markup('<tr><th scope="row"><bdi>{}</bdi></th><td class="chart">{}</td><td class="figure">{}</td></tr>').format(
            shorten(shown_label(each.label), 120),
            render_bar(each.estimates[measure], end=end, is_best=place == best),
            _figure(each.estimates[measure]),
        )
        for place, each in enumerate(scores)
    )
    return html(
        '<table class="bars"><caption class="sr-only">{}</caption><thead class="sr-only"><tr><th '
        'scope="col">[[Variant]]</th><th scope="col">[[Chart]]</th><th scope="col">[[Mean, 95 % interval]]</th></tr>'
        "</thead><tbody>{}</tbody></table>"
    ).format(measure.label, rows)


def _render_curves(scores: Sequence[VariantScores], measure: Measure) -> Markup:
    lines: dict[str, dict[int, Estimate]] = {}
    levels: dict[str, Estimate] = {}
    for each in scores:
        name = _without_steps(each)
        if each.variant.steps is None:
            levels[name] = each.estimates[measure]
        else:
            lines.setdefault(name, {})[each.variant.steps] = each.estimates[measure]
    if max(map(len, lines.values()), default=0) < 2:
        return Markup("")
    series = [Series(name, points) for name, points in lines.items()]
    series += [Series(name, {}, level) for name, level in levels.items()]
    return html("<section><h2>[[Do more steps help?]]</h2>{}</section>").format(
        render_curve(series, title=_("{measure} by steps of refinement").format(measure=measure.label))
    )


def _without_steps(scores: VariantScores) -> str:
    kept = [part for part in scores.label.split(" · ") if part != f"K {scores.variant.steps}"]
    return shown_label(" · ".join(kept) or scores.variant.mode.value)


def _render_differences(baseline: str, differences: Sequence[Difference]) -> Markup:
    if not differences:
        return Markup("")
    reach = max(max(abs(each.estimate.low), abs(each.estimate.high)) for each in differences) * 1.05 or 0.01
    rows = join(
        Markup(
            '<tr><th scope="row"><bdi>{}</bdi></th><td class="chart">{}</td><td class="figure">{}</td><td '
            'class="chance"><b>{}</b> <small>{}</small></td></tr>'
        ).format(
            shorten(shown_label(each.label), 120),
            render_difference(each.estimate, reach=reach),
            _figure(each.estimate, sign="+"),
            _verdict(each.estimate),
            _("{better} better, {worse} worse").format(better=number(each.better), worse=number(each.worse)),
        )
        for each in differences
    )
    return html(
        '<section><h2>[[Compared with]] <bdi>{}</bdi></h2><p class="hint">[[Difference per query. It is significant if '
        'the line does not touch the middle.]]</p><table class="bars differences"><thead class="sr-only"><tr><th '
        'scope="col">[[Variant]]</th><th scope="col">[[Chart]]</th><th scope="col">[[Difference, 95 % '
        'interval]]</th><th scope="col">[[Verdict]]</th></tr></thead><tbody>{}</tbody></table></section>'
    ).format(shorten(shown_label(baseline), 120), rows)


def _verdict(estimate: Estimate) -> str:
    if not estimate.excludes_zero:
        return _("not significant")
    return _("better") if estimate.value > 0 else _("worse")


def _render_by_instruction(groups: Sequence[InstructionScores], measure: Measure) -> Markup:
    if len(groups) < 2:
        return Markup("")
    end = scale_end([each.estimates[measure] for group in groups for each in group.scores])
    parts = join(
        Markup('<h3><q dir="auto">{}</q> <small>{}</small></h3>{}').format(
            shorten(group.instruction or _("no instruction"), 200),
            counted_queries(group.query_count),
            _bar_table(group.scores, measure, end, best=None),
        )
        for group in groups[:12]
    )
    return html(
        "<section><h2>[[{} by instruction]]</h2>"
        '<p class="hint">[[Results by the instruction of each judgement.]]</p>{}</section>'
    ).format(measure.label, parts)


def _render_table(scores: Sequence[VariantScores]) -> Markup:
    heads = join(
        Markup('<th scope="col"><abbr title="{}">{}</abbr></th>').format(_(HELP[measure]), measure.label)
        for measure in Measure
    )
    rows = join(
        Markup('<tr><th scope="row"><bdi>{}</bdi></th>{}<td>{} ms</td></tr>').format(
            shorten(shown_label(each.label), 120),
            join(Markup("<td>{}</td>").format(_figure(each.estimates[measure])) for measure in Measure),
            number(each.median_ms, 0),
        )
        for each in scores
    )
    return html(
        '<section><h2>[[All measures]]</h2><div class="wide" tabindex="0" role="region" aria-label="[[All measures]]">'
        '<table class="figures"><thead><tr><th scope="col">[[Variant]]</th>{}<th scope="col">[[Median time]]</th></tr>'
        "</thead>"
        "<tbody>{}</tbody></table></div></section>"
    ).format(heads, rows)


def _render_queries(report: EvaluationReport, measure: Measure, best: int, lenses: Mapping[str, str]) -> Markup:
    others = [place for place in range(len(report.scores)) if place != best]
    shown = [best, *others][:VARIANTS_SHOWN]
    worst = sorted(report.queries, key=lambda each: (each.values[measure][best], each.query))[:QUERIES_SHOWN]
    heads = join(
        Markup('<th scope="col"><bdi>{}</bdi></th>').format(shorten(shown_label(report.scores[place].label), 60))
        for place in shown
    )
    rows = join(_render_query(each, report, measure, shown, lenses) for each in worst)
    cut = _("; showing {count} of {total}").format(count=QUERIES_SHOWN, total=number(len(report.queries)))
    return html(
        '<section><h2>[[Results per query]]</h2><p class="hint">[[The worst results of {variant} come first{cut}. '
        'Click a number to open the search.]]</p><div class="wide" tabindex="0" role="region" aria-label="[[Results '
        'per query]]"><table class="figures queries"><thead><tr><th scope="col">[[Query]]</th><th '
        'scope="col">[[Relevant]]</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>'
    ).format(
        variant=Markup("<bdi>{}</bdi>").format(shorten(shown_label(report.scores[best].label), 60)),
        cut=cut if len(report.queries) > QUERIES_SHOWN else "",
        heads=heads,
        rows=rows,
    )


def _render_query(
    query: QueryScores, report: EvaluationReport, measure: Measure, shown: Sequence[int], lenses: Mapping[str, str]
) -> Markup:
    cells = join(
        Markup('<td><a href="{}">{}</a></td>').format(
            _search_address(query, report.scores[place].variant, lenses), number(query.values[measure][place], 2)
        )
        for place in shown
    )
    tells = bool(query.instruction) and len(report.by_instruction) > 1
    through = Markup('<small dir="auto">{}</small>').format(shorten(query.instruction, 160)) if tells else ""
    return Markup('<tr><th scope="row"><span dir="auto">{}</span>{}</th><td>{}</td>{}</tr>').format(
        shorten(query.query, 200), through, query.relevant_count, cells
    )


def _search_address(query: QueryScores, variant: Variant, lenses: Mapping[str, str]) -> str:
    """The search page address for this query and variant."""
    asked: dict[str, str | int] = {"q": clean(query.query), "c": variant.collection, "m": variant.mode.value}
    choice = variant.instruction
    if choice is not None and choice.policy is not InstructionPolicy.DEFAULT:
        through = {InstructionPolicy.JUDGED: query.instruction, InstructionPolicy.LENS: lenses.get(choice.lens, "")}
        asked["i"] = clean(through.get(choice.policy, "")) or "-"
    if variant.steps is not None:
        asked["k"] = variant.steps
    return f"{SEARCH.path}?{urlencode(asked)}"


def _figure(estimate: Estimate, *, sign: str = "") -> Markup:
    return Markup("<b>{}</b> <small>{}</small>").format(signed(estimate.value, sign), interval(estimate, sign))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{number(seconds / 3600, 1)} h"
