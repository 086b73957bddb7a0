"""Lens values as a person sees them: what the query is among them, counts to filter by, a chip on every passage."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from markupsafe import Markup

from app.types.lens_indexes import LensIndexState, LensIndexStatus
from app.types.values import OTHER, ValueCount, ValueReading, ValueScope, ValueSummary
from ui.render.text import clean, join, shorten

VALUES_SHOWN = 14  # of more, those with the most passages come first


def render_value_counts(values: ValueSummary | None, chosen: str) -> Markup:
    """Buttons with counts, as many as a line holds, and the others behind a click; nothing for a search without
    values."""
    if values is None:
        return Markup("")
    return Markup(
        '<section class="values" aria-label="Passages by value"><p title="{of} by value">{own}</p>'
        '<ul id="value-counts" class="{open}">{counts}</ul><button type="button" class="plain-button" '
        'data-toggle="value-counts" aria-expanded="{expanded}" aria-controls="value-counts" '
        'title="Every value; {of}">All {count}</button></section>'
    ).format(
        own=_tell_query(values),
        of=_tell_passages(values),
        counts=join(_render_count(each, values, chosen) for each in _in_order(values, chosen)),
        count=len(values.counts),
        open="is-open" if chosen else "",
        expanded="true" if chosen else "false",
    )


def _in_order(values: ValueSummary, chosen: str) -> Sequence[ValueCount]:
    """In the lens's order; of more than have room, those first that have the most passages."""
    if len(values.counts) <= VALUES_SHOWN:
        return values.counts
    ahead = {chosen, values.query, OTHER}
    return sorted(values.counts, key=lambda each: (each.name not in ahead, -each.count, -(each.probability or 0)))


def _tell_passages(values: ValueSummary) -> str:
    count = "1 passage" if values.passages == 1 else f"{values.passages:,} passages"
    return f"all {count}" if values.scope is ValueScope.COLLECTION else count


def render_lens_index(indexes: Sequence[LensIndexStatus], values: Sequence[str]) -> Markup:
    """Whether the values of all passages are known; nothing where no lens index has these."""
    found = next((each for each in indexes if list(each.values) == list(values)), None)
    if found is None:
        return Markup("")
    cost = f"{found.chunks:,} passages, {found.bytes / 1e6:.1f} MB, built in {found.seconds:.1f} s"
    said = {
        LensIndexState.READY: f"ready: {cost}",
        LensIndexState.BUILDING: f"{found.progress:.0%} built",
        LensIndexState.WAITING: "waits for the worker",
        LensIndexState.STALE: "out of date; build it again",
        LensIndexState.FAILED: f"failed: {found.error or 'the log says why'}",
    }[found.state]
    table = Markup("")
    if found.state is LensIndexState.READY:
        name, asked = quote(found.collection, safe=""), urlencode({"lens": found.lens})
        address = f"/api/v1/collections/{name}/lens-indexes/table?{asked}"
        table = Markup(' · <a href="{}" download>All passages by value (CSV)</a>').format(address)
    return Markup('<p class="hint lens-index">Index of the lens “<span dir="auto">{}</span>”: {}{}</p>').format(
        shorten(found.lens, 40), shorten(said, 200), table
    )


def _tell_query(values: ValueSummary) -> Markup:
    if values.query == OTHER:
        return Markup("Your query fits none of the values")
    probability = next((each.probability or 0.0 for each in values.counts if each.name == values.query), 0.0)
    return Markup('Your query: <b dir="auto">{}</b> {}').format(shorten(values.query, 40), f"{probability:.0%}")


def _render_count(each: ValueCount, values: ValueSummary, chosen: str) -> Markup:
    """The bar below the name is the share of the query that has this value."""
    is_chosen = each.name == chosen
    own = "fits none of the values" if each.probability is None else f"{each.probability:.0%} of your query"
    bar = (
        Markup("")
        if each.probability is None
        else Markup('<meter min="0" max="1" value="{}" aria-hidden="true"></meter>').format(f"{each.probability:.3f}")
    )
    return Markup(
        '<li{own}><button type="button" data-event="choose" data-action="{action}" data-subject="{name}" '
        'aria-pressed="{pressed}" title="{title}"{disabled}><span dir="auto">{shown}</span> <b>{count}</b>'
        '<span class="sr-only">, {title}</span>{bar}</button></li>'
    ).format(
        own=Markup(' class="is-query"') if each.name == values.query else "",
        action="drop-value" if is_chosen else "value",
        name=clean(each.name),
        pressed="true" if is_chosen else "false",
        title=own,
        disabled="" if each.count or is_chosen else Markup(" disabled"),
        shown=name_value(each.name),
        count=f"{each.count:,}",
        bar=bar,
    )


def render_value_chip(reading: ValueReading | None, *, is_button: bool = True) -> Markup:
    """An entry of a list of chips; nothing for a search without values."""
    if reading is None:
        return Markup("")
    sure = "it fits none of the values" if reading.name == OTHER else f"{reading.probability:.0%} sure"
    kind = "value is-other" if reading.name == OTHER else "value"
    if not is_button:
        return Markup('<span class="{}" dir="auto" title="{}">{}</span>').format(kind, sure, name_value(reading.name))
    return Markup(
        '<li class="{kind}" dir="auto"><button type="button" data-event="choose" data-action="value" '
        'data-subject="{name}" title="Only passages of this value ({sure})">{shown}</button></li>'
    ).format(kind=kind, name=clean(reading.name), sure=sure, shown=name_value(reading.name))


def name_value(name: str) -> str:
    return "Other" if name == OTHER else shorten(name, 40)
