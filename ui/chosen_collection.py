"""The collection that a person works with: named by the page's address, else remembered by the browser, which also puts
it into the links between the pages (ui/assets/collection.js)."""

from __future__ import annotations

from urllib.parse import unquote

import gradio as gr

COOKIE = "gircse-collection"
MAX_COOKIE_CHARS = 400
_KEEP = "(name) => gircse.keepCollection(name)"


def asked_collection(request: gr.Request) -> str | None:
    """A name that need not exist: `collection` of links between pages, or `c` of a search."""
    named = request.query_params.get("collection") or request.query_params.get("c")
    return named or unquote(request.cookies.get(COOKIE, "")[:MAX_COOKIE_CHARS]) or None


def remember_collection(field: gr.Dropdown) -> None:
    """From now on what is chosen in this field is what the other pages begin with."""
    field.change(fn=None, inputs=field, js=_KEEP, api_visibility="private", show_progress="hidden")
