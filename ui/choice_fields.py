"""Dropdowns of the collections and lenses that exist now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.errors import GircseError
from app.ports.catalog import Catalog


def choice_field(choices: Sequence[str | tuple[str, str]], **options: Any) -> gr.Dropdown:
    """A dropdown that passes on what it is sent, for handlers check it, and can say what is wrong.

    Gradio would silently refuse what was not among its choices when the server started.
    """
    field = gr.Dropdown(list(choices), **options)
    # Of this one field: for a subclass Gradio would write a stub file beside the module.
    field.preprocess = lambda payload: payload  # type: ignore[method-assign]
    return field


def choose_collection(catalog: Catalog, *wanted: object) -> gr.Dropdown:
    """The field with all collections of this moment, and the first of the wanted ones that exists, else the first."""
    try:
        names = [each.name for each in catalog.collections()]
    except GircseError:  # the first use of the page says what is wrong
        names = []
    return gr.Dropdown(choices=names, value=next((name for name in (*wanted, *names) if name in names), None))
