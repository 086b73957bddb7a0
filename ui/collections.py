"""The collections that a page offers."""

from __future__ import annotations

import gradio as gr

from app.errors import GircseError
from app.ports import Catalog


def choose_collection(catalog: Catalog, wanted: str | None = None) -> gr.Dropdown:
    """The field with all collections of this moment; the wanted one is chosen where it exists, else the first."""
    try:
        names = [each.name for each in catalog.collections()]
    except GircseError:  # the first use of the page says what is wrong
        names = []
    return gr.Dropdown(choices=names, value=wanted if wanted in names else next(iter(names), None))
