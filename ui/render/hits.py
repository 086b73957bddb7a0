"""HTML of the search results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from markupsafe import Markup

from app.search.export import citation
from app.types.documents import ChunkKind
from app.types.metadata_keys import FILE_TYPE, FOLDER, TECHNICAL_KEYS
from app.types.search import (
    ALL_COLLECTIONS,
    Exclusion,
    ExclusionEffect,
    Hit,
    Match,
    NearDuplicate,
    SearchMode,
    SearchResult,
)
from ui.choices import NO_INSTRUCTION, Choices
from ui.contract import COMPARE
from ui.language import _, html, later, ngettext, number
from ui.render.advice import render_language, render_notes, render_nothing_found, render_weak
from ui.render.lens_values import name_value, render_value_chip, render_value_counts
from ui.render.scores import render_score
from ui.render.snippets import mark_bounds, render_marked, snippet_window, without_title
from ui.render.text import clean, join, name_of, render_place, render_source_link, shorten, shown_key, shown_value
from ui.render.thumbnails import render_thumbnail, render_thumbnail_switch

METADATA_CHIPS = 6
DOCUMENT_FILTER = "document_id"  # metadata key of each chunk; as a filter it restricts the search to one document
_KINDS = {
    ChunkKind.PROSE: "",
    ChunkKind.TABLE: later("table of numbers"),
    ChunkKind.REFERENCES: later("references"),
    ChunkKind.NAVIGATION: later("menu"),
}


def render_results(
    result: SearchResult,
    chosen: Choices,
    *,
    values: str = "",
    before: SearchResult | None = None,
    total_steps: int | None = None,
    request: str = "",
) -> str:
    """`values` is the text of the values field; `request` the API request for exports. `before` are the first results,
    to show rank changes. `total_steps` is set while final results are pending."""
    note = render_language(result.unread)
    document = name_of(result.hits[0].document) if result.hits else ""
    choices = render_choices(chosen, result.exclusions, document=document)
    if not result.hits:
        return choices + note + render_value_counts(result.values, chosen.value) + render_nothing_found(result, chosen)
    ranks = {hit.chunk.id: hit.rank for hit in before.hits} if before else {}
    chunks = {*chosen.like, *chosen.unlike}

    is_alone = DOCUMENT_FILTER in chosen.filters

    def render(hit: Hit, *others: Hit) -> Markup:
        return _render_hit(
            hit,
            result.mode,
            move=_render_move(hit, ranks),
            is_chosen=hit.chunk.id in chunks,
            is_alone=is_alone,
            names_collection=result.collection == ALL_COLLECTIONS,
            more=_render_more([render(each) for each in others]),
        )

    groups = [[hit] for hit in result.hits] if is_alone else by_document(result.hits)
    hits = join(render(*group) for group in groups)
    counts = render_value_counts(result.values, chosen.value)
    return (
        choices
        + _render_summary(result, chosen, total_steps, values, request)
        + render_notes(result)
        + (note or (render_weak(result, chosen) if _is_unanswered(result) else Markup("")))
        + counts
        + Markup('<ol class="hits">{}</ol>').format(hits)
    )


def _is_unanswered(result: SearchResult) -> bool:
    """Under an instruction a weak hit may still be about the right subject; its grade says enough."""
    return result.match is Match.WEAK and not result.instruction


def by_document(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Groups hits by document, ordered by the best hit of each."""
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.document.id, []).append(hit)
    return list(groups.values())


def render_choices(chosen: Choices, exclusions: Sequence[Exclusion] = (), *, document: str = "") -> Markup:
    """Chips for clicked choices and detected exclusions, each with an undo button. `document` is the name of the only
    searched document."""
    chips = [
        *(_chip(_("more") if bias > 0 else _("less"), word, "drop-bias", word) for word, bias in chosen.bias.items()),
        *(
            _chip(_("document"), document or _("one document"), "drop-filters", key)
            if key == DOCUMENT_FILTER
            else _chip(shown_key(key, 30), shown_value(value), "drop-filters", key)
            for key, value in chosen.filters.items()
        ),
        *(_chip(_("like"), title or _("a passage"), "drop-like", key) for key, title in chosen.like.items()),
        *(_chip(_("unlike"), title or _("a passage"), "drop-unlike", key) for key, title in chosen.unlike.items()),
        *([_chip(_("value"), name_value(chosen.value), "drop-value", chosen.value)] if chosen.value else []),
        *(_chip(_("not about"), phrase, "drop-exclude", phrase) for phrase in chosen.exclude),
        *(_chip(_("as written:"), phrase, "drop-kept", phrase) for phrase in chosen.kept),
        *(_detected(each) for each in exclusions if each.is_detected),
    ]
    if not chips:
        return Markup("")
    clear = html(
        '<li><button type="button" class="plain-button" data-event="choose" data-action="drop-all" '
        'data-subject="">[[Clear all]]</button></li>'
    )
    return html('<ul class="chosen" aria-label="[[Chosen]]">{}{}</ul>').format(
        join(chips), clear if len(chips) > 1 else ""
    )


def _detected(found: Exclusion) -> Markup:
    """A chip for a phrase that the query negates. A click undoes the exclusion, or applies a suggested one."""
    if found.effect is not ExclusionEffect.OFFERED:
        return _chip(_("not about"), found.phrase, "kept", found.phrase)
    return html(
        '<li dir="auto"><span>[[without]]</span> {shown} <button type="button" class="plain-button" '
        'data-event="choose" data-action="exclude" data-subject="{phrase}" '
        'aria-label="[[Exclude {shown}]]">[[Exclude]]</button></li>'
    ).format(shown=shorten(found.phrase, 60), phrase=clean(found.phrase))


def _chip(kind: str, shown: str, action: str, subject: str) -> Markup:
    return html(
        '<li dir="auto"><span>{kind}</span> {shown} <button type="button" data-event="choose" '
        'data-action="{action}" data-subject="{subject}" aria-label="[[Undo {kind} '
        '{shown}]]">×</button></li>'
    ).format(kind=shorten(kind, 30), shown=shorten(shown, 60), action=action, subject=clean(subject))


def _render_summary(
    result: SearchResult, chosen: Choices, total_steps: int | None, values: str, request: str
) -> Markup:
    count = len(result.hits)
    sense = (
        html("[[with the instruction]] <q>{}</q>").format(shorten(result.instruction, 80))
        if result.instruction
        else html("[[without an instruction]]")
    )
    steps = ngettext("{count} step", "{count} steps", result.steps).format(count=result.steps)
    if result.mode is SearchMode.SPARSE:
        sense, steps = html("[[by words only]]"), _("without the model")
    if total_steps is not None:
        steps = _("first hits after {done} of {total} steps …").format(done=result.steps, total=total_steps)
    return html(
        '<h2 class="sr-only">[[Passages]]</h2><p class="summary" role="status" dir="auto"><b>{}</b><span '
        'class="sense">, '
        '{}</span><span class="cost"> · {} · {} [[ms]]</span> · {}{}{}{}</p>'
    ).format(
        ngettext("{count} passage", "{count} passages", count).format(count=count),
        sense,
        steps,
        number(round(_total_ms(result.timings_ms))),
        html('<button type="button" class="plain" data-event="answer">[[Answer]]</button>'),
        _render_compare_link(result, chosen, values),
        html(_EXPORT).format(request) if request else "",
        render_thumbnail_switch(result.hits),
    )


_EXPORT = (
    ' · <button type="button" class="plain" popovertarget="export">[[Export]]</button><span class="menu" id="export" '
    'popover data-request="{}"><button type="button" class="plain-button" data-format="csv">CSV</button> <button '
    'type="button" class="plain-button" data-format="json">JSON</button> <button type="button" class="plain-button" '
    'data-format="md">Markdown</button></span>'
)


def _render_compare_link(result: SearchResult, chosen: Choices, values: str) -> Markup:
    """Empty for a search of all collections: each side of a comparison searches one collection."""
    if result.collection == ALL_COLLECTIONS:
        return Markup("")
    return html(' · <a href="{}">[[Compare]]</a>').format(_compare_address(result, chosen, values))


def _compare_address(result: SearchResult, chosen: Choices, values: str) -> str:
    """Compares this search (right) to the same search without an instruction (left)."""
    asked = {"q": result.query, "i1": NO_INSTRUCTION, "i2": result.instruction or NO_INSTRUCTION}
    sides = {"c": result.collection, "m": result.mode.value, "k": str(result.steps or ""), "x": chosen.to_text()}
    both = {f"{name}{side}": value for name, value in sides.items() for side in (1, 2) if value}
    return f"{COMPARE.path}?{urlencode({**asked, **({'v2': values} if values else {}), **both}, errors='replace')}"


def _total_ms(timings_ms: Mapping[str, float]) -> float:
    return timings_ms["total"] if "total" in timings_ms else sum(timings_ms.values())


def _render_move(hit: Hit, ranks: Mapping[str, int]) -> Markup:
    """The rank change since the first results; empty without first results."""
    if not ranks:
        return Markup("")
    if hit.chunk.id not in ranks:
        return html('<span class="move is-new" title="[[Not among the first hits]]">[[new]]</span>')
    by = ranks[hit.chunk.id] - hit.rank
    if not by:
        return Markup("")
    return Markup(
        '<span class="move {}" title="{}"><span aria-hidden="true">{}</span>{}<span class="sr-only"> {}</span></span>'
    ).format(
        "is-up" if by > 0 else "is-down",
        (_("Rose by {count} during refinement") if by > 0 else _("Fell by {count} during refinement")).format(
            count=abs(by)
        ),
        "▲" if by > 0 else "▼",
        abs(by),
        _("up") if by > 0 else _("down"),
    )


def _render_hit(
    hit: Hit, mode: SearchMode, *, move: Markup, is_chosen: bool, is_alone: bool, names_collection: bool, more: Markup
) -> Markup:
    """`is_alone`: the search is restricted to one document."""
    why = hit.why
    return Markup(
        '<li class="hit{chosen}"{thumbnail}><div class="hit-rank">{rank}{move}</div><article>'
        '<h3 dir="auto"><button type="button" class="open" data-walk data-event="open" data-document="{document}" '
        'data-chunk="{chunk}" data-sentence="{sentence}" data-page="{page}">{title}</button></h3>{source}{section}'
        "{snippet}{chips}"
        "{actions}{duplicates}</article>{score}{more}</li>"
    ).format(
        chosen=" is-chosen" if is_chosen else "",
        thumbnail=render_thumbnail(hit),
        rank=hit.rank,
        page="" if hit.chunk.page is None else hit.chunk.page,
        move=move,
        document=clean(hit.document.id),
        chunk=clean(hit.chunk.id),
        title=shorten(name_of(hit.document), 160),
        sentence=f"{hit.chunk.start + why.start}-{hit.chunk.start + why.end}" if why else "",
        source=render_source(hit, names_collection=names_collection),
        section=render_section(hit),
        snippet=_render_snippet(hit),
        chips=_render_chips(hit),
        actions=_render_actions(hit, is_alone=is_alone),
        duplicates=_render_duplicates(hit.duplicates, names_collection=names_collection),
        score=render_score(hit, mode),
        more=more,
    )


def _render_more(others: Sequence[Markup]) -> Markup:
    """Further passages of the same document."""
    if not others:
        return Markup("")
    return html('<details class="more-hits"><summary>{}</summary><ol class="hits">{}</ol></details>').format(
        ngettext(
            "{count} more passage from this document", "{count} more passages from this document", len(others)
        ).format(count=len(others)),
        join(others),
    )


def _render_duplicates(duplicates: Sequence[NearDuplicate], *, names_collection: bool) -> Markup:
    if not duplicates:
        return Markup("")
    count = len(duplicates)
    listed = join(
        Markup(
            '<li dir="auto"><button type="button" data-event="open" data-document="{}" data-chunk="{}">{}'
            "</button> {}{}</li>"
        ).format(
            clean(each.document.id),
            clean(each.chunk.id),
            shorten(name_of(each.document), 120),
            render_source_link(each.document.uri, 90),
            render_place(each.document) if names_collection else "",
        )
        for each in duplicates
    )
    return html('<details class="duplicates"><summary>{}</summary><ul>{}</ul></details>').format(
        ngettext("{count} near-identical passage", "{count} near-identical passages", count).format(count=count), listed
    )


_THUMB = (
    "M2 9h3v8H2zm4.5 8V9l3.2-6.4c1 0 1.8.8 1.8 1.8V8h4.6c1 0 1.7.9 1.5 1.9l-1.1 5.6c-.2.9-.9 1.5-1.8 1.5z"  # a hand
)


def _render_actions(hit: Hit, *, is_alone: bool) -> Markup:
    return html(
        '<div class="hit-actions"><button type="button" data-event="choose" data-action="like" '
        'data-subject="{chunk}" data-value="{title}">[[More like this]]</button><button '
        'type="button" data-event="choose" data-action="unlike" data-subject="{chunk}" '
        'data-value="{title}">[[Less like this]]</button>{within}<button type="button" '
        'data-copy="{citation}">[[Copy citation]]</button><span class="thumbs"><button type="button" '
        'data-event="judge" data-grade="3" data-document="{document}" aria-label="[[Answers the '
        'query]]" title="[[Answers the query]]">{thumb}</button><button type="button" '
        'data-event="judge" data-grade="0" data-document="{document}" aria-label="[[Does not answer '
        'the query]]" title="[[Does not answer the query]]">{thumb}</button></span></div>'
    ).format(
        chunk=clean(hit.chunk.id),
        title=shorten(name_of(hit.document), 60),
        document=clean(hit.document.id),
        within=""
        if is_alone
        else html(
            '<button type="button" data-event="choose" data-action="filter" data-subject="{}" '
            'data-value="{}">[[More from this document]]</button>'
        ).format(DOCUMENT_FILTER, clean(hit.document.id)),
        citation=clean(citation(hit)),
        thumb=Markup('<svg viewBox="0 0 20 20" width="17" height="17" aria-hidden="true"><path d="{}"/></svg>').format(
            _THUMB
        ),
    )


def render_source(hit: Hit, *, names_collection: bool = False) -> Markup:
    source = render_source_link(hit.document.uri, 90)
    kind = f" · {_(_KINDS[hit.chunk.kind])}" if _KINDS[hit.chunk.kind] else ""
    page = html(" · [[page]] {}").format(hit.chunk.page) if hit.chunk.page is not None else ""
    place = render_place(hit.document) if names_collection else ""
    damage = html(" · [[stored text is damaged]]") if hit.chunk.is_damaged else ""
    return Markup('<p class="hit-source">{}{}{}{}{}</p>').format(source, page, kind, place, damage)


def render_section(hit: Hit) -> Markup:
    """The headings above the passage, if known."""
    headings = _headings(hit)
    return Markup('<p class="section" dir="auto">{}</p>').format(shorten(headings, 160)) if headings else Markup("")


def _headings(hit: Hit) -> str:
    """The headings without the document title, which the hit already shows."""
    first, _, others = hit.chunk.context.partition(" › ")
    return others if " ".join(hit.document.title.split()).startswith(first) else hit.chunk.context


def _render_snippet(hit: Hit) -> Markup:
    uri = hit.document.uri
    start, end = mark_bounds(hit.chunk.text, hit.why)
    lead = without_title(hit.chunk.text, name_of(hit.document), start if hit.why else len(hit.chunk.text))
    text, start, end = hit.chunk.text[lead:], max(start - lead, 0), max(end - lead, 0)
    first, last = snippet_window(text, start, end)
    snippet = Markup('<p class="snippet" dir="auto">{}{}{}</p>').format(
        "… " if first else "",
        render_marked(text, first, start, end, last, uri=uri),
        " …" if last < len(text) else "",
    )
    if first == 0 and last == len(text):
        return snippet
    whole = render_marked(text, 0, start, end, len(text), uri=uri)
    return snippet + html(
        '<details class="whole"><summary>[[Whole passage]]</summary><p class="snippet" dir="auto">{}</p></details>'
    ).format(whole)


def _render_chips(hit: Hit) -> Markup:
    """Chips for value and metadata; a click on a chip filters by it."""
    chips = [
        html(
            '<li dir="auto"><button type="button" data-event="choose" data-action="filter" data-subject="{subject}" '
            'data-value="{value}" title="[[Show only documents with this value]]"><span>{key}</span> '
            "{shown}</button></li>"
        ).format(subject=clean(key), value=_filter_text(value), key=shown_key(key, 30), shown=shown_value(value))
        for key, value in _shown_metadata(hit)
    ]
    lower = html(
        '<li class="excluded" dir="auto" title="[[Ranked lower, because this was excluded]]">[[about]] {}</li>'
    )
    excluded = lower.format(shorten(hit.excluded, 60)) if hit.excluded else Markup("")
    every = excluded + render_value_chip(hit.value) + join(chips)
    return html('<ul class="chips" aria-label="[[Value and metadata]]">{}</ul>').format(every) if every else every


def _shown_metadata(hit: Hit) -> Sequence[tuple[str, object]]:
    """The user's own metadata, and metadata of the content that readers found."""
    hidden = TECHNICAL_KEYS | {FILE_TYPE, FOLDER}
    return [(key, value) for key, value in hit.document.metadata.items() if key not in hidden][:METADATA_CHIPS]


def _filter_text(value: object) -> str:
    """The value in filter syntax."""
    return str(value).lower() if isinstance(value, bool) else clean(str(value))
