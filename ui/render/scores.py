"""HTML of a hit's grade (weak, fair, strong), and of the scores behind it."""

from __future__ import annotations

from markupsafe import Markup

from app.types.search import Hit, Leg, Match, SearchMode
from ui.language import _, html, later, number
from ui.render.text import join

_MATCHES = {
    Match.WEAK: later("No nearer to the query than unrelated passages"),
    Match.FAIR: later("Nearer to the query than unrelated passages"),
    Match.STRONG: later("Much nearer to the query than unrelated passages"),
}
_NAMES = {Match.WEAK: later("weak"), Match.FAIR: later("fair"), Match.STRONG: later("strong")}
_SCORES = {
    SearchMode.DENSE: later("How close query and passage are in meaning, at most 1"),
    SearchMode.SPARSE: later("How well the words of the query match the passage"),
    SearchMode.HYBRID: later("Meaning and words together, from 0 to 1"),
}
_LEGS = {
    Leg.DENSE: later("meaning"),
    Leg.PLAIN: later("meaning without the instruction"),
    Leg.SPARSE: later("words"),
    Leg.FEEDBACK: later("feedback"),
}


_LEVELS = {Match.WEAK: 1, Match.FAIR: 2, Match.STRONG: 3}


def render_score(hit: Hit, mode: SearchMode) -> Markup:
    """The grade, and on a click the numbers behind it. Without a grade: the score."""
    shown = number(hit.score, 1 if mode is SearchMode.SPARSE else 3)
    legs = join(
        html('<li title="[[Rank and score by {name}]]">{name} <b>{rank}</b> <span>{score}</span></li>').format(
            name=_(_LEGS[leg.leg]), rank=f"#{leg.rank}", score=number(leg.score, 2)
        )
        for leg in hit.legs
    )
    details = Markup('<ul class="legs">{}</ul>').format(legs) if legs else Markup("")
    if hit.match is None:
        return Markup('<div class="hit-score" title="{}"><span>{}</span>{}</div>').format(
            _(_SCORES[mode]), shown, details
        )
    return html(
        '<details class="hit-score"><summary title="{meaning}"><span class="match is-{grade}">{name}</span>'
        '<meter min="0" max="3" value="{level}" aria-hidden="true"></meter></summary>'
        '<p title="{scale}">[[Score]] <b>{score}</b></p>{details}</details>'
    ).format(
        meaning=_(_MATCHES[hit.match]),
        grade=hit.match.value,
        name=_(_NAMES[hit.match]),
        level=_LEVELS[hit.match],
        scale=_(_SCORES[mode]),
        score=shown,
        details=details,
    )
