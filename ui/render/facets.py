"""Metadata filters beside the hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from app.types.documents import FacetValue
from ui.language import html, number
from ui.render.text import clean, join, shown_key, shown_value

VALUES_SHOWN = 8


def render_facets(facets: Mapping[str, Sequence[FacetValue]], filters: Mapping[str, str]) -> str:
    """Shown beside the hits; on narrow screens folded, unless a filter is active. Empty if the documents share no
    metadata."""
    if not facets:
        return ""
    groups = join(_render_group(key, values, filters.get(key)) for key, values in facets.items())
    return html(
        '<section class="facets"><h2>[[Narrow down]]</h2><button type="button" '
        'data-toggle="facet-groups" aria-expanded="{}" aria-controls="facet-groups">[[Narrow '
        'down]]</button><div id="facet-groups" class="facet-groups{}">{}</div></section>'
    ).format("true" if filters else "false", " is-open" if filters else "", groups)


def _render_group(key: str, values: Sequence[FacetValue], chosen: str | None) -> Markup:
    shown, more = values[:VALUES_SHOWN], values[VALUES_SHOWN:]
    rest = (
        html('<details class="facet-rest"><summary>[[{} more]]</summary><ul>{}</ul></details>').format(
            len(more), join(_render_value(key, each, chosen) for each in more)
        )
        if more
        else ""
    )
    return Markup('<section><h3 dir="auto">{}</h3><ul>{}</ul>{}</section>').format(
        shown_key(key, 40), join(_render_value(key, each, chosen) for each in shown), rest
    )


def _render_value(key: str, facet: FacetValue, chosen: str | None) -> Markup:
    value, count = facet
    is_chosen = value == chosen
    return Markup(
        '<li><button type="button" data-event="choose" data-action="{action}" data-subject="{key}" '
        'data-value="{value}" aria-pressed="{pressed}"><span dir="auto">{shown}</span> <b>{count}</b></button></li>'
    ).format(
        action="drop-filters" if is_chosen else "filter",
        key=clean(key),
        value=clean(value),
        pressed="true" if is_chosen else "false",
        shown=shown_value(value),
        count=number(count),
    )
