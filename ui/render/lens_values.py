"""HTML of lens values: the query's values, counts to filter by, and chips on passages."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote as shell_word
from urllib.parse import quote, urlencode

from markupsafe import Markup

from app.types.lens_indexes import LensIndexState, LensIndexStatus
from app.types.values import OTHER, ValueCount, ValueReading, ValueScope, ValueSummary
from ui.core_messages import translate_message
from ui.language import _, html, ngettext, number, percent
from ui.lens_names import shown_lens
from ui.render.text import clean, join, shorten

VALUES_SHOWN = 14  # with more values, show those with the most passages


def render_value_counts(values: ValueSummary | None, chosen: str, *, side: str = "") -> Markup:
    """Buttons with counts: one line, the rest unfolds by a click. Empty for a search without values. `side`: A or B,
    on a page with two searches."""
    if values is None:
        return Markup("")
    return html(
        '<section class="values" aria-label="{label}"><p title="[[{of} by '
        'value]]">{own}</p><ul id="{list}" class="{open}">{counts}</ul><button type="button" '
        'class="plain-button" data-toggle="{list}" aria-expanded="{expanded}" '
        'aria-controls="{list}" title="[[Every value; {of}]]">[[All]] '
        "{count}</button></section>"
    ).format(
        label=" ".join((_("Passages by value"), side)).strip(),
        list=f"value-counts-{side.lower()}" if side else "value-counts",
        own=_describe_query(values),
        of=_describe_passages(values),
        counts=join(_render_count(each, values, chosen) for each in _in_order(values, chosen)),
        count=len(values.counts),
        open="is-open" if chosen else "",
        expanded="true" if chosen else "false",
    )


def _in_order(values: ValueSummary, chosen: str) -> Sequence[ValueCount]:
    """Values in the lens's order. If there are too many: chosen, query's and other value first, then by passages."""
    if len(values.counts) <= VALUES_SHOWN:
        return values.counts
    ahead = {chosen, values.query, OTHER}
    return sorted(values.counts, key=lambda each: (each.name not in ahead, -each.count, -(each.probability or 0)))


def _describe_passages(values: ValueSummary) -> str:
    count = number(values.passages)
    if values.scope is ValueScope.COLLECTION:
        return ngettext("all of {count} passage", "all {count} passages", values.passages).format(count=count)
    return ngettext("{count} passage", "{count} passages", values.passages).format(count=count)


def render_lens_index(indexes: Sequence[LensIndexStatus], values: Sequence[str]) -> Markup:
    """The state of the lens index for these values; empty if there is none."""
    found = next((each for each in indexes if list(each.values) == list(values)), None)
    if found is None:
        return Markup("")
    cost = _("{count} passages, {size} MB, built in {seconds} s").format(
        count=number(found.chunks), size=number(round(found.bytes / 1e6, 1)), seconds=number(round(found.seconds, 1))
    )
    said = {
        LensIndexState.READY: _("ready: {details}").format(details=cost),
        LensIndexState.BUILDING: _("{percent} built").format(percent=percent(found.progress)),
        LensIndexState.WAITING: _("waiting to be built"),
        LensIndexState.STALE: _("out of date. To rebuild it, run on the server: {command}").format(
            command=f"gircse lenses index build {shell_word(found.lens)} -c {found.collection}"
        ),
        LensIndexState.FAILED: _("failed: {error}").format(
            error=translate_message(found.error or "") or _("see the server log")
        ),
    }[found.state]
    table = Markup("")
    if found.state is LensIndexState.READY:
        name, asked = quote(found.collection, safe=""), urlencode({"lens": found.lens})
        address = f"/api/v1/collections/{name}/lens-indexes/table?{asked}"
        table = html(' · <a href="{}" download>[[All passages by value (CSV)]]</a>').format(address)
    return html('<p class="hint lens-index">[[Index of the lens]] <span dir="auto">{}</span>: {}{}</p>').format(
        shorten(shown_lens(found.lens), 40), shorten(said, 200), table
    )


def _describe_query(values: ValueSummary) -> Markup:
    if values.query == OTHER:
        return html("[[Your query matches none of the values]]")
    probability = next((each.probability or 0.0 for each in values.counts if each.name == values.query), 0.0)
    return html('[[Your query:]] <b dir="auto">{}</b> {}').format(shorten(values.query, 40), percent(probability))


def _render_count(each: ValueCount, values: ValueSummary, chosen: str) -> Markup:
    """The bar below the name shows how much of the query has this value."""
    is_chosen = each.name == chosen
    own = (
        _("no matching value")
        if each.probability is None
        else _("{percent} of your query").format(percent=percent(each.probability))
    )
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
        count=number(each.count),
        bar=bar,
    )


def render_value_chip(reading: ValueReading | None, *, is_button: bool = True) -> Markup:
    """A list item with the passage's value; empty for a search without values."""
    if reading is None:
        return Markup("")
    sure = (
        _("no matching value")
        if reading.name == OTHER
        else _("{percent} sure").format(percent=percent(reading.probability))
    )
    kind = "value is-other" if reading.name == OTHER else "value"
    if not is_button:
        return Markup('<span class="{}" dir="auto" title="{}">{}</span>').format(kind, sure, name_value(reading.name))
    return html(
        '<li class="{kind}" dir="auto"><button type="button" data-event="choose" data-action="value" '
        'data-subject="{name}" title="[[Only passages with this value ({sure})]]">{shown}</button></li>'
    ).format(kind=kind, name=clean(reading.name), sure=sure, shown=name_value(reading.name))


def name_value(name: str) -> str:
    return _("Other") if name == OTHER else shorten(name, 40)
