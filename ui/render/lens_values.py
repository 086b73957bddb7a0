"""Lens values as a person sees them: counts to filter by, and a chip on every passage."""

from __future__ import annotations

from markupsafe import Markup

from app.types.values import OTHER, ValueCount, ValueReading, ValueSummary
from ui.render.text import clean, join, shorten


def render_value_counts(values: ValueSummary | None, chosen: str) -> Markup:
    """Buttons with counts, in the lens's order, `other` last; nothing for a search without values."""
    if values is None:
        return Markup("")
    counts = join(_render_count(each, values, chosen) for each in values.counts)
    return Markup(
        '<section class="values" aria-label="Passages by value"><p>Your query: <b dir="auto">{}</b> · {} passages by '
        "value</p><ul>{}</ul></section>"
    ).format(_named(values.query), values.passages, counts)


def _render_count(each: ValueCount, values: ValueSummary, chosen: str) -> Markup:
    is_chosen = each.name == chosen
    title = "fits none of the values" if each.probability is None else f"{each.probability:.0%} of the query"
    return Markup(
        '<li{own}><button type="button" data-event="choose" data-action="{action}" data-subject="{name}" '
        'aria-pressed="{pressed}" title="{title}"{disabled}><span dir="auto">{shown}</span> <b>{count}</b></button>'
        "</li>"
    ).format(
        own=Markup(' class="is-query"') if each.name == values.query else "",
        action="drop-value" if is_chosen else "value",
        name=clean(each.name),
        pressed="true" if is_chosen else "false",
        title=title,
        disabled="" if each.count or is_chosen else Markup(" disabled"),
        shown=_named(each.name),
        count=f"{each.count:,}",
    )


def render_value_chip(reading: ValueReading | None) -> Markup:
    if reading is None:
        return Markup("")
    sure = "fits none of the values" if reading.name == OTHER else f"{reading.probability:.0%}"
    return Markup(
        '<p class="value"><button type="button" data-event="choose" data-action="value" data-subject="{name}" '
        'title="Only passages of this value ({sure})"><span dir="auto">{shown}</span></button></p>'
    ).format(name=clean(reading.name), sure=sure, shown=_named(reading.name))


def _named(name: str) -> str:
    return "Other" if name == OTHER else shorten(name, 40)
