"""HTML of the compare page: the heading of each side, both lists, and rank changes."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from markupsafe import Markup, escape

from app.errors import GircseError
from app.search.soft_tokens import group_refinement
from app.search.value_syntax import join_values
from app.types.search import DEFAULT_MODE, Hit, SearchMode, SearchRequest
from ui.choices import NO_INSTRUCTION, Choices
from ui.comparison import ComparedAnswer, ComparedHit, Comparison, Look, is_shown
from ui.contract import COMPARE, SEARCH, Example
from ui.language import _, html, later, ngettext, number
from ui.render.hits import render_choices, render_section, render_source
from ui.render.lens_values import render_value_chip, render_value_counts
from ui.render.moves import render_moves
from ui.render.snippets import mark_bounds, render_marked
from ui.render.text import join, name_of, render_error, render_note, shorten
from ui.render.tokens import render_read_text, render_refinement

SNIPPET_CHARS = 190
CONTEXT_CHARS = 24
_MODES = {
    SearchMode.DENSE: later("by meaning"),
    SearchMode.SPARSE: later("by words"),
    SearchMode.HYBRID: later("by meaning and words"),
}

Outcome = ComparedAnswer | GircseError | None
"""None while it is being computed."""


def render_welcome(examples: Sequence[Example]) -> str:
    """Links to compare examples that share a query."""
    pairs = [
        (first, second)
        for place, first in enumerate(examples)
        for second in examples[place + 1 :]
        if first.query == second.query
    ]
    links = join(
        html('<li><a href="{}">{}</a> <span>[[“{}” against “{}”]]</span></li>').format(
            _compare_address(first, second),
            shorten(first.query, 90),
            shorten(first.instruction, 70),
            shorten(second.instruction, 70),
        )
        for first, second in pairs
    )
    return html(
        '<div class="welcome"><h2>[[One query, two searches]]</h2><p>[[Enter a query, choose another lens for B, '
        "and press Enter. The page shows how each search reads your query, which passages both find, and how the "
        "ranks differ.]]</p>{}</div>"
    ).format(html('<p>[[For example:]]</p><ul class="welcome-links">{}</ul>').format(links) if links else "")


def _compare_address(first: Example, second: Example) -> str:
    asked = {"q": first.query, "i1": first.instruction or NO_INSTRUCTION, "i2": second.instruction or NO_INSTRUCTION}
    asked |= {"c1": first.collection, "c2": second.collection}
    return f"{COMPARE.path}?{urlencode(asked, errors='replace')}"


def render_summary(comparison: Comparison | None, looks: Sequence[Look], outcomes: Sequence[Outcome]) -> str:
    """A short summary: shared passages and the biggest rank changes."""
    if any(outcome is None for outcome in outcomes):
        return html('<p class="verdict is-waiting" role="status">[[Running both searches …]]</p>')
    if comparison is None:
        return ""
    if not comparison.size:
        return html('<p class="verdict" role="status">[[Neither search found a passage.]]</p>')
    moves = [
        _describe_move(_("Biggest rise: {title}, from rank {before} to {after}."), comparison.risen, is_risen=True),
        _describe_move(_("Biggest drop: {title}, from rank {before} to {after}."), comparison.fallen, is_risen=False),
    ]
    return Markup('<p class="verdict" role="status" dir="auto"><b>{}</b> {}</p>').format(
        _describe_shared(comparison, looks), join(move for move in moves if move)
    )


def _describe_shared(comparison: Comparison, looks: Sequence[Look]) -> str:
    if comparison.is_same:
        return _("Both lists have the same passages in the same order.")
    if comparison.shared == comparison.size:
        return _("Both lists have the same passages in a different order.")
    said = _("Both searches found {shared} of {count} passages.").format(
        shared=comparison.shared, count=comparison.size
    )
    if looks[0].request.collection != looks[1].request.collection:
        said += " " + _("Passages from two collections count as the same if source, position and text are equal.")
    return said


def _describe_move(said: str, place: ComparedHit | None, *, is_risen: bool) -> Markup:
    if place is None:
        return Markup("")
    here, there = (place.elsewhere, place.hit.rank) if is_risen else (place.hit.rank, place.elsewhere)
    title = Markup("<q>{}</q>").format(shorten(name_of(place.hit.document), 60))
    return Markup(" <span>{}</span>").format(escape(said).format(title=title, before=here, after=there))


def render_look(look: Look, outcome: Outcome, words: Sequence[str], others: Sequence[str]) -> str:
    """The heading of a side: its settings and the first refinement words. Words unique to this side stand out."""
    request = look.request
    sense = (
        html("[[with the instruction]] <q>{}</q>").format(shorten(request.instruction, 160))
        if request.instruction
        else html("[[without an instruction]]")
    )
    if request.mode is SearchMode.SPARSE:
        sense = html("[[by the words of the query only]]")
    steps = ngettext("{count} step", "{count} steps", request.steps or 0).format(count=request.steps)
    details = f"{steps} · {_(_MODES[request.mode])} · "
    thought = join(
        Markup('<li class="{}" dir="auto">{}</li>').format(
            "is-shared" if word in others else "is-own", shorten(word, 30)
        )
        for word in words
    )
    return html(
        '<section class="look is-{lower}"><h2><span class="side">{name}</span> <span dir="auto">{lens}</span></h2>'
        '<p class="look-sense" dir="auto">{sense}</p><p class="look-details">{details}{collection} · '
        '<a href="{address}">[[Open {name} in search]]</a></p>{thought}{choices}{counts}</section>'
    ).format(
        lower=look.name.lower(),
        name=look.name,
        lens=shorten(look.lens, 80),
        sense=sense,
        details=details,
        collection=shorten(request.collection, 60),
        address=search_address(request, look.chosen),
        thought=html('<ul class="thought" aria-label="[[First words of {name}]]">{words}</ul>').format(
            name=look.name, words=thought
        )
        if thought
        else "",
        choices=render_choices(look.chosen, outcome.result.exclusions if isinstance(outcome, ComparedAnswer) else ()),
        counts=render_value_counts(outcome.result.values, look.chosen.value, side=look.name)
        if isinstance(outcome, ComparedAnswer)
        else "",
    )


def search_address(request: SearchRequest, chosen: Choices) -> str:
    """The search page address for the same search."""
    asked = {
        "q": request.query,
        "i": request.instruction or "",
        "k": request.steps,
        "m": "" if request.mode is DEFAULT_MODE else request.mode,
        "c": request.collection,
        "x": chosen.to_text(),
        "v": join_values([str(each) for each in request.values]),
    }
    given = {name: value for name, value in asked.items() if value != ""}
    return f"{SEARCH.path}?{urlencode(given, errors='replace')}"


def render_comparison(comparison: Comparison | None, looks: Sequence[Look], outcomes: Sequence[Outcome]) -> str:
    """Both lists; with a comparison, also the lines between them and the rank of each passage in the other list."""
    places = [_places(outcome) for outcome in outcomes] if comparison is None else [comparison.left, comparison.right]
    depth = comparison.depth if comparison else None
    return Markup('<div class="comparison">{}{}{}</div>').format(
        _render_side(looks[0], outcomes[0], places[0], places[1], looks[1].name, depth),
        render_moves(comparison) if comparison and comparison.size else Markup('<div class="moves"></div>'),
        _render_side(looks[1], outcomes[1], places[1], places[0], looks[0].name, depth),
    )


def _places(outcome: Outcome) -> tuple[ComparedHit, ...]:
    return tuple(ComparedHit(hit, None) for hit in outcome.result.hits) if isinstance(outcome, ComparedAnswer) else ()


def _render_side(
    look: Look,
    outcome: Outcome,
    places: Sequence[ComparedHit],
    others: Sequence[ComparedHit],
    other: str,
    depth: int | None,
) -> Markup:
    heading = Markup('<h2 class="list-name"><span class="side">{}</span> {}</h2>').format(
        look.name, shorten(look.lens, 80)
    )
    if outcome is None:
        content: str = html('<p class="waiting">[[Searching …]]</p>')
    elif isinstance(outcome, GircseError):
        content = render_error(str(outcome), title=_("Search {name} failed").format(name=look.name))
    elif not places:
        content = render_note(_nothing_found(look))
    else:
        content = Markup('<ol class="compared">{}</ol>').format(
            join(_render_place(look, place, others, other, depth) for place in places)
        )
    return html('<section class="list is-{}" aria-label="[[Passages of {}]]">{}{}</section>').format(
        look.name.lower(), look.name, heading, content
    )


def _nothing_found(look: Look) -> str:
    if look.chosen.filters:
        return _("No passage matches all filters.")
    if look.request.mode is SearchMode.SPARSE:
        return _("No passage contains these words.")
    return _("The collection “{name}” has no matching passages. Add documents on the Documents page.").format(
        name=look.request.collection
    )


def _render_place(
    look: Look, place: ComparedHit, others: Sequence[ComparedHit], other: str, depth: int | None
) -> Markup:
    hit = place.hit
    number = f"{look.name.lower()}-{hit.rank}"
    pair = f"b-{hit.rank}" if look.name == "B" else f"b-{place.elsewhere}" if is_shown(place, others) else number
    return Markup(
        '<li data-pair="{pair}"><div class="place"><b>{rank}</b>{move}</div><article><h3 dir="auto">'
        '<button type="button" class="open" data-walk popovertarget="passage-{number}">{title}</button></h3>'
        "{source}{snippet}</article>{score}{whole}</li>"
    ).format(
        pair=pair,
        rank=hit.rank,
        move="" if depth is None else _render_move(look, place, others, other, depth),
        number=number,
        title=shorten(name_of(hit.document), 120),
        source=_render_source(hit),
        snippet=_render_snippet(hit),
        score=_render_score(hit, look.request.mode),
        whole=_render_whole(hit, number),
    )


def _render_move(look: Look, place: ComparedHit, others: Sequence[ComparedHit], other: str, depth: int) -> Markup:
    """Signs for the eye, words for screen readers. The right list shows the change, the left the rank on the right."""
    rank, elsewhere = place.hit.rank, place.elsewhere
    if elsewhere is None:
        return _move(
            "is-lone",
            _("not {side}").format(side=other),
            _("Not in the top {count} of {side}").format(count=depth, side=other),
        )
    if look.name == "A":
        kind = "is-lone" if not is_shown(place, others) else ""
        return _move(kind, f"→ {elsewhere}", _("Rank {rank} in {side}").format(rank=elsewhere, side=other))
    by = elsewhere - rank
    if not by:
        return _move("is-same", "=", _("Same rank in {side}").format(side=other))
    if not is_shown(place, others):
        said = _("Rose by {count}, from rank {rank} in {side}").format(count=by, rank=elsewhere, side=other)
        return _move("is-up is-lone", f"▲ {by}", said)
    if by > 0:
        return _move("is-up", f"▲ {by}", _("Rose by {count} against {side}").format(count=by, side=other))
    return _move("is-down", f"▼ {-by}", _("Fell by {count} against {side}").format(count=-by, side=other))


def _move(kind: str, shown: str, said: str) -> Markup:
    return Markup(
        '<span class="move {}" title="{}"><span aria-hidden="true">{}</span><span class="sr-only">{}</span></span>'
    ).format(kind, said, shown, said)


def _render_source(hit: Hit) -> Markup:
    """Source in one line, after the passage's value."""
    if hit.value is None:
        return render_source(hit)
    return Markup('<div class="place-line">{}{}</div>').format(
        render_value_chip(hit.value, is_button=False), render_source(hit)
    )


def _render_score(hit: Hit, mode: SearchMode) -> Markup:
    shown = number(hit.score, 1 if mode is SearchMode.SPARSE else 3)
    return html('<span class="place-score" title="[[Score]], {}">{}</span>').format(_(_MODES[mode]), shown)


def _render_snippet(hit: Hit) -> Markup:
    """About two lines. The best sentence comes early, because rows of fixed height cut off the rest."""
    text = hit.chunk.text
    start, end = mark_bounds(text, hit.why)
    first = max(0, start - CONTEXT_CHARS)
    space = text.find(" ", first, start)
    first = space + 1 if first and space >= 0 else first
    last = min(len(text), max(first + SNIPPET_CHARS, end))
    return Markup('<p class="snippet" dir="auto">{}{}{}</p>').format(
        "… " if first else "",
        render_marked(text, first, start, end, last, uri=hit.document.uri),
        " …" if last < len(text) else "",
    )


def _render_whole(hit: Hit, number: str) -> Markup:
    """A native popover: Enter opens it, Esc closes it."""
    start, end = mark_bounds(hit.chunk.text, hit.why)
    return html(
        '<div popover id="passage-{number}" class="whole-passage" role="dialog" aria-label="[[Whole passage]]">'
        '<button type="button" class="plain-button" popovertarget="passage-{number}" popovertargetaction="hide">'
        '[[Close]]</button><h3 dir="auto">{title}</h3>{source}<p class="snippet" dir="auto">{text}</p></div>'
    ).format(
        number=number,
        title=shorten(name_of(hit.document), 300),
        source=render_source(hit) + render_section(hit),
        text=render_marked(hit.chunk.text, 0, start, end, len(hit.chunk.text), uri=hit.document.uri),
    )


def render_reading(look: Look, outcome: Outcome) -> str:
    """The words of each step on one side, with buttons to boost or suppress them."""
    if not isinstance(outcome, ComparedAnswer):
        return ""
    result, steps = outcome.result, outcome.result.refinement
    if steps:
        words = render_refinement(
            group_refinement(steps),
            steps,
            look.chosen,
            is_ranking=result.is_ranked_by_refinement,
            part=look.name.lower(),
        )
    elif result.mode is SearchMode.SPARSE:
        words = render_note(_("This search uses only the words of the query, not the model."))
    else:
        words = render_note(_("The model added no words to the query."))
    reading = render_read_text(result.read_text) + words
    return Markup(
        '<section class="side-reading is-{}"><h2 class="list-name"><span class="side">{}</span> {}</h2>{}</section>'
    ).format(look.name.lower(), look.name, shorten(look.lens, 80), reading)
