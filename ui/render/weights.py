"""HTML of the evaluate page: the weights of the legs, what tuning them brought, and how to undo it."""

from __future__ import annotations

from markupsafe import Markup

from app.types.search import Leg
from app.types.weights import CollectionWeights, WeightTuning
from ui.render.judged import counted
from ui.render.text import join, shorten

LEG_NAMES = {
    Leg.DENSE: "meaning under the instruction",
    Leg.PLAIN: "plain meaning",
    Leg.SPARSE: "words",
    Leg.FEEDBACK: "likeness to the first hits",
}


def render_weights(found: CollectionWeights) -> str:
    rows = join(
        Markup('<tr><th scope="row">{}</th><td>{}</td><td>{}</td></tr>').format(
            LEG_NAMES[leg], f"{found.defaults.get(leg, 0.0):g}", f"{found.weights.get(leg, 0.0):g}"
        )
        for leg in Leg
        if found.defaults.get(leg) or found.weights.get(leg)
    )
    is_tuned = any(each.is_applied for each in found.tunings)
    undo = (
        Markup('<button type="button" class="plain-button" data-event="undo">Undo: back to the defaults</button>')
        if is_tuned
        else ""
    )
    history = join(Markup("<li>{}</li>").format(_render_tuning(each)) for each in found.tunings)
    return Markup(
        '<section class="weights" aria-label="Weights of the legs"><p>A search by both fuses what its legs find. The '
        "judgements above can choose how much each of them counts; it is done only where cross-validation says that it "
        'pays.</p><table><thead><tr><th scope="col">leg</th><th scope="col">default</th>'
        '<th scope="col">in use</th></tr></thead><tbody>{}</tbody></table><p><button type="button" '
        'class="plain-button" data-event="tune">Tune by these judgements</button> {}</p>{}</section>'
    ).format(rows, undo, Markup('<ul class="tunings">{}</ul>').format(history) if history else "")


def _render_tuning(tuning: WeightTuning) -> Markup:
    found = tuning.validation
    state = "in use" if tuning.is_applied else "undone" if tuning.undone_at else "replaced" if found.pays else "no gain"
    weights = ", ".join(f"{LEG_NAMES[leg]} {weight:g}" for leg, weight in tuning.weights.items() if weight)
    return Markup("<b>{}</b> nDCG@10 {} → {} ({} ± {}), {}, {}; {} <small>by {}, {:%Y-%m-%d %H:%M}</small>").format(
        state,
        f"{found.default_ndcg:.3f}",
        f"{found.tuned_ndcg:.3f}",
        f"{found.gain:+.3f}",
        f"{found.standard_error:.3f}",
        counted(found.queries, "query", "queries"),
        counted(found.judgements, "judgement", "judgements"),
        weights,
        shorten(tuning.tuned_by, 60),
        tuning.tuned_at,
    )
