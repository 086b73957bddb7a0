"""HTML of a hit's score: number, bar and verbal rating."""

from __future__ import annotations

from markupsafe import Markup

from app.types.search import Hit, Leg, Match, SearchMode
from ui.language import _, html, later, number
from ui.render.text import join

_MATCHES = {
    Match.WEAK: later("No closer than passages for unrelated questions"),
    Match.FAIR: later("Closer than passages for unrelated questions"),
    Match.STRONG: later("Much closer than passages for unrelated questions"),
}
_NAMES = {Match.WEAK: later("weak match"), Match.FAIR: later("fair match"), Match.STRONG: later("strong match")}
_SCORES = {
    SearchMode.DENSE: later("Cosine similarity of query and passage"),
    SearchMode.SPARSE: later("BM25: how well the words of the query match the passage"),
    SearchMode.HYBRID: later("Meaning and words together, from 0 to 1"),
}
_LEGS = {
    Leg.DENSE: later("meaning"),
    Leg.PLAIN: later("plain meaning"),
    Leg.SPARSE: later("words"),
    Leg.FEEDBACK: later("feedback"),
}


def render_score(hit: Hit, mode: SearchMode) -> Markup:
    digits = 1 if mode is SearchMode.SPARSE else 3
    shown = number(hit.score, digits)
    meter = html('<meter min="0" max="1" value="{}" aria-label="[[Similarity]]">{}</meter>').format(
        f"{hit.score:.3f}", shown
    )
    legs = join(
        html('<li title="[[Rank and score by]] {name}">{name} <b>{rank}</b> <span>{score}</span></li>').format(
            name=_(_LEGS[leg.leg]), rank=f"#{leg.rank}", score=number(leg.score, 2)
        )
        for leg in hit.legs
    )
    match = hit.match and html('<span class="match is-{0}" title="{1}">{2}</span>').format(
        hit.match.value, _(_MATCHES[hit.match]), _(_NAMES[hit.match])
    )
    return Markup('<div class="hit-score" title="{}"><span>{}</span>{}{}{}</div>').format(
        _(_SCORES[mode]),
        shown,
        "" if mode is SearchMode.SPARSE else meter,
        match or "",
        Markup('<ul class="legs">{}</ul>').format(legs) if legs else "",
    )
