"""HTML of saved searches and history; each entry links to its search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from app.types.searches import MAX_SEARCH_NAME_CHARACTERS
from ui.language import _, html, moment, number
from ui.render.standing import ShownStanding, render_standing, render_watch_button
from ui.render.text import clean, join, shorten


@dataclass(frozen=True, slots=True)
class KeptSearch:
    """A saved search, or an entry of the history. `name` is empty for a history entry."""

    id: str
    name: str
    query: str
    collection: str
    details: str  # other search options, in words
    address: str
    at: datetime
    standing: ShownStanding | None = None


def render_saved(searches: Sequence[KeptSearch]) -> str:
    if not searches:
        return html(
            '<p class="kept">[[No saved searches yet. Save one from the history below or from the search page.]]</p>'
        )
    return _render_list(searches)


def render_history(searches: Sequence[KeptSearch], *, limit: int) -> str:
    if not limit:
        return html('<p class="kept">[[The history is turned off on this server (GIRCSE_SEARCH_HISTORY is 0).]]</p>')
    hint = html('<p class="hint">[[Only you can see your history. It keeps the latest {} searches.]]</p>').format(
        number(limit)
    )
    if not searches:
        return hint + html('<p class="kept">[[No searches yet. Your searches will appear here.]]</p>')
    clear = _button("clear", _("Clear the history"), confirm=_("Delete the whole history?"))
    return hint + _render_list(searches) + Markup('<p class="settings-buttons">{}</p>').format(clear)


def _render_list(searches: Sequence[KeptSearch]) -> Markup:
    return Markup('<ul class="kept-searches">{}</ul>').format(join(map(_render, searches)))


def _render(search: KeptSearch) -> Markup:
    title = shorten(search.name or search.query, 120)
    buttons = (
        (Markup("") if search.standing else render_watch_button(search.id, title))
        + _render_renaming(search, title)
        + _button(
            "delete",
            _("Delete"),
            spoken=_("Delete {name}").format(name=title),
            search=search.id,
            confirm=_confirm_deletion(search, title),
        )
        if search.name
        else _button("save", _("Save"), spoken=_("Save {name}").format(name=title), search=search.id)
        + _button("forget", _("Remove"), spoken=_("Remove {name}").format(name=title), search=search.id)
    )
    return html(
        '<li><div><a href="{address}" dir="auto" data-walk>{title}</a>{query}<span '
        'class="kept-details" dir="auto">[[in {collection}]] · {details}{at}</span>{standing}</div><span '
        'class="kept-buttons">{buttons}</span></li>'
    ).format(
        address=clean(search.address),
        title=title,
        query=Markup('<span class="kept-query" dir="auto">{}</span>').format(shorten(search.query, 200))
        if search.name and search.name != search.query
        else "",
        collection=clean(search.collection),
        details=f"{shorten(search.details, 300)} · " if search.details else "",
        at=moment(search.at),
        buttons=buttons,
        standing=render_standing(search.standing) if search.standing else "",
    )


def _render_renaming(search: KeptSearch, title: str) -> Markup:
    return html(
        '<details class="renaming" data-form data-keep="{id} {name}"><summary class="plain-button" '
        'aria-label="{label}">[[Rename]]</summary>'
        '<span><input name="name" value="{name}" maxlength="{most}" aria-label="{field}" dir="auto">{save}</span>'
        "</details>"
    ).format(
        id=clean(search.id),
        label=_("Rename {name}").format(name=title),
        name=clean(search.name),
        most=MAX_SEARCH_NAME_CHARACTERS,
        field=_("New name of {name}").format(name=title),
        save=_button("rename", _("Save"), spoken=_("Save the new name of {name}").format(name=title), search=search.id),
    )


def _confirm_deletion(search: KeptSearch, title: str) -> str:
    if search.standing:
        return _("Delete the saved search “{name}” with its alert and the matches found so far?").format(name=title)
    return _("Delete the saved search “{name}”?").format(name=title)


def _button(action: str, label: str, *, spoken: str = "", search: str = "", confirm: str = "") -> Markup:
    return Markup(
        '<button type="button" class="plain-button{}" data-event="act" data-action="{}" data-subject="{}"{}{}>{}'
        "</button>"
    ).format(
        Markup(" is-danger") if action in ("delete", "forget", "clear") else "",
        action,
        clean(search),
        Markup(' data-confirm="{}"').format(confirm) if confirm else "",
        Markup(' aria-label="{}"').format(spoken) if spoken else "",
        label,
    )
