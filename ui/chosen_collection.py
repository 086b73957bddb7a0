"""The current collection: from the page's address, else from a cookie. ui/assets/collection.js keeps the cookie and the
links between pages up to date."""

from __future__ import annotations

from urllib.parse import unquote

import gradio as gr

from app.errors import GircseError
from app.ports.catalog import Catalog
from app.types.search import ALL_COLLECTIONS
from ui.language import _
from ui.render.text import render_error

COOKIE = "gircse-collection"
MAX_COOKIE_CHARS = 400
_KEEP = "(name) => gircse.keepCollection(name)"


def asked_collection(request: gr.Request) -> str | None:
    """The collection in the address (`collection` or, for a search, `c`) or cookie. It may not exist."""
    named = request.query_params.get("collection") or request.query_params.get("c")
    return named or unquote(request.cookies.get(COOKIE, "")[:MAX_COOKIE_CHARS]) or None


def missing_collection(catalog: Catalog, request: gr.Request) -> str:
    """A notice if the address names a missing collection, so that the page shows the first one instead."""
    named = request.query_params.get("collection") or request.query_params.get("c")
    try:
        names = [each.name for each in catalog.collections()]
    except GircseError:  # the first use of the page reports the error
        return ""
    if not named or not names or named in (*names, ALL_COLLECTIONS):
        return ""
    said = _("The collection “{name}” does not exist, or you have no access. This page shows “{other}” instead.")
    return render_error(said.format(name=named[:80], other=names[0]), title=_("Another collection"))


def remember_collection(field: gr.Dropdown) -> None:
    """Makes the other pages start with the collection chosen in this field."""
    field.change(fn=None, inputs=field, js=_KEEP, api_visibility="private", show_progress="hidden")
