"""How near a passage is to the query, as numbers, a bar and words."""

from __future__ import annotations

from markupsafe import Markup

from app.types.search import Hit, Leg, Match, SearchMode
from ui.render.text import join

_MATCHES = {
    Match.WEAK: "No nearer than what questions about other things find",
    Match.FAIR: "Nearer than what questions about other things find",
    Match.STRONG: "Much nearer than what questions about other things find",
}
_SCORES = {
    SearchMode.DENSE: "Cosine similarity of query and passage",
    SearchMode.SPARSE: "BM25: how much the words of the query say about the passage",
    SearchMode.HYBRID: "Meaning and words together, from 0 to 1",
}
_LEGS = {Leg.DENSE: "meaning", Leg.PLAIN: "plain meaning", Leg.SPARSE: "words", Leg.FEEDBACK: "feedback"}


def render_score(hit: Hit, mode: SearchMode) -> Markup:
    shown = f"{hit.score:.1f}" if mode is SearchMode.SPARSE else f"{hit.score:.3f}"
    meter = Markup('<meter min="0" max="1" value="{0}" aria-label="Similarity">{0}</meter>').format(shown)
    legs = join(
        Markup('<li title="Rank and score by {name}">{name} <b>{rank}</b> <span>{score}</span></li>').format(
            name=_LEGS[leg.leg], rank=f"#{leg.rank}", score=f"{leg.score:.2f}"
        )
        for leg in hit.legs
    )
    match = hit.match and Markup('<span class="match is-{0}" title="{1}">{0} match</span>').format(
        hit.match.value, _MATCHES[hit.match]
    )
    return Markup('<div class="hit-score" title="{}"><span>{}</span>{}{}{}</div>').format(
        _SCORES[mode],
        shown,
        "" if mode is SearchMode.SPARSE else meter,
        match or "",
        Markup('<ul class="legs">{}</ul>').format(legs) if legs else "",
    )
