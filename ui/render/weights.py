"""HTML of the evaluate page: ranking weights, tuning history and undo."""

from __future__ import annotations

from markupsafe import Markup

from app.types.search import Leg
from app.types.weights import CollectionWeights, WeightTuning
from ui.language import _, html, later, moment, number
from ui.render.judged import counted_judgements, counted_queries
from ui.render.text import join, shorten

LEG_NAMES = {
    Leg.DENSE: later("meaning under the instruction"),
    Leg.PLAIN: later("meaning without the instruction"),
    Leg.SPARSE: later("words"),
    Leg.FEEDBACK: later("similarity to the first hits"),
}


def render_weights(found: CollectionWeights) -> str:
    rows = join(
        Markup('<tr><th scope="row">{}</th><td>{}</td><td>{}</td></tr>').format(
            _(LEG_NAMES[leg]), number(found.defaults.get(leg, 0.0)), number(found.weights.get(leg, 0.0))
        )
        for leg in Leg
        if found.defaults.get(leg) or found.weights.get(leg)
    )
    is_tuned = any(each.is_applied for each in found.tunings)
    undo = (
        html('<button type="button" class="plain-button" data-event="undo">[[Undo: restore defaults]]</button>')
        if is_tuned
        else ""
    )
    history = join(Markup("<li>{}</li>").format(_render_tuning(each)) for each in found.tunings)
    return html(
        '<section class="weights" aria-label="[[Weights of meaning and words]]"><p>[[“Both” combines several '
        "rankings. Your judgements can set the weight of each ranking: how much it counts. New weights are used "
        "only if they also do better on judgements that were set aside as a check.]]</p><table><thead><tr><th "
        'scope="col">[[ranking '
        'by]]</th><th scope="col">[[default]]</th><th scope="col">[[in '
        'use]]</th></tr></thead><tbody>{}</tbody></table><p><button type="button" class="plain-button" '
        'data-event="tune">[[Tune with these judgements]]</button> {}</p>{}</section>'
    ).format(rows, undo, Markup('<ul class="tunings">{}</ul>').format(history) if history else "")


def _render_tuning(tuning: WeightTuning) -> Markup:
    found = tuning.validation
    weights = ", ".join(f"{_(LEG_NAMES[leg])} {number(weight)}" for leg, weight in tuning.weights.items() if weight)
    return html(
        "<b>{}</b> [[quality of the first ten:]] {} → {} ({}{} ± {}), {}, {}; {} <small>[[by]] {}, {}</small>"
    ).format(
        _state(tuning),
        number(found.default_ndcg, 3),
        number(found.tuned_ndcg, 3),
        "+" if found.gain >= 0 else "",
        number(found.gain, 3),
        number(found.standard_error, 3),
        counted_queries(found.queries),
        counted_judgements(found.judgements),
        weights,
        shorten(tuning.tuned_by, 60),
        moment(tuning.tuned_at),
    )


def _state(tuning: WeightTuning) -> str:
    if tuning.is_applied:
        return _("in use")
    if tuning.undone_at:
        return _("undone")
    return _("replaced") if tuning.validation.pays else _("no gain")
