"""Metadata filters beside the hits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from posixpath import commonpath

from markupsafe import Markup

from app.types.documents import FacetValue
from app.types.metadata_keys import FILE_TYPE, FOLDER, YEAR
from ui.language import html, number
from ui.render.text import clean, join, shown_key, shown_value

VALUES_SHOWN = 8
_FIRST = (FILE_TYPE, FOLDER, YEAR)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def render_facets(facets: Mapping[str, Sequence[FacetValue]], filters: Mapping[str, str]) -> str:
    """Shown beside the hits; on narrow screens folded, unless a filter is active. Empty if the documents share no
    metadata."""
    useful = {key: values for key, values in facets.items() if key in filters or _narrows(values)}
    if not useful:
        return ""
    ordered = sorted(useful, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
    groups = join(_render_group(key, useful[key], filters.get(key)) for key in ordered)
    return html(
        '<section class="facets"><h2>[[Narrow down]]</h2><button type="button" '
        'data-toggle="facet-groups" aria-expanded="{}" aria-controls="facet-groups">[[Narrow '
        'down]]</button><div id="facet-groups" class="facet-groups{}">{}</div></section>'
    ).format("true" if filters else "false", " is-open" if filters else "", groups)


def _narrows(values: Sequence[FacetValue]) -> bool:
    """Whether a filter can narrow the search: there are several values, and they are not only single days."""
    return len(values) > 1 and not all(_DAY.match(facet.value) for facet in values)


def _render_group(key: str, values: Sequence[FacetValue], chosen: str | None) -> Markup:
    root = _common_folder(values) if key == FOLDER else ""
    shown, more = values[:VALUES_SHOWN], values[VALUES_SHOWN:]
    rest = (
        html('<details class="facet-rest"><summary>[[{} more]]</summary><ul>{}</ul></details>').format(
            len(more), join(_render_value(key, each, chosen, root) for each in more)
        )
        if more
        else ""
    )
    return Markup('<section><h3 dir="auto">{}</h3><ul>{}</ul>{}</section>').format(
        shown_key(key, 40), join(_render_value(key, each, chosen, root) for each in shown), rest
    )


def _common_folder(values: Sequence[FacetValue]) -> str:
    """The folder that contains all of them, with a slash at the end; "" if there is none."""
    folders = [facet.value for facet in values]
    is_mixed = len({folder.startswith("/") for folder in folders}) > 1
    common = "" if is_mixed or len(folders) < 2 else commonpath(folders)
    return common.rstrip("/") + "/" if common else ""


def _render_value(key: str, facet: FacetValue, chosen: str | None, root: str) -> Markup:
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
        shown=shown_value(value.removeprefix(root) if f"{value}/" != root else value.rpartition("/")[2] or value),
        count=number(count),
    )
