"""The collection that a person works with: named by the page's address, else remembered by the browser, which also puts
it into the links between the pages (ui/assets/collection.js)."""

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
    """A name that need not exist: `collection` of links between pages, or `c` of a search."""
    named = request.query_params.get("collection") or request.query_params.get("c")
    return named or unquote(request.cookies.get(COOKIE, "")[:MAX_COOKIE_CHARS]) or None


def missing_collection(catalog: Catalog, request: gr.Request) -> str:
    """What is to be said where the address names a collection that is not there, and the first one takes its place."""
    named = request.query_params.get("collection") or request.query_params.get("c")
    try:
        names = [each.name for each in catalog.collections()]
    except GircseError:  # the first use of the page says what is wrong
        return ""
    if not named or not names or named in (*names, ALL_COLLECTIONS):
        return ""
    said = _("The collection “{name}” does not exist, or you have no access. This page shows “{other}” instead.")
    return render_error(said.format(name=named[:80], other=names[0]), title=_("Another collection"))


def remember_collection(field: gr.Dropdown) -> None:
    """From now on what is chosen in this field is what the other pages begin with."""
    field.change(fn=None, inputs=field, js=_KEEP, api_visibility="private", show_progress="hidden")
