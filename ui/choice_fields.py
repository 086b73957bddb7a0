"""Dropdowns of the collections and lenses that exist now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.errors import GircseError
from app.ports.catalog import Catalog
from app.types.search import ALL_COLLECTIONS
from ui.language import _, later

ALL_LABEL = later("All collections")


def choice_field(choices: Sequence[str | tuple[str, str]], **options: Any) -> gr.Dropdown:
    """A dropdown that passes on what it is sent, for handlers check it, and can say what is wrong.

    Gradio would silently refuse what was not among its choices when the server started.
    """
    field = gr.Dropdown(list(choices), **options)
    # Of this one field: for a subclass Gradio would write a stub file beside the module.
    field.preprocess = lambda payload: payload  # type: ignore[method-assign]
    return field


def choose_collection(catalog: Catalog, *wanted: object, offers_all: bool = False) -> gr.Dropdown:
    """The field with all collections of this moment, and the first of the wanted ones that exists, else the first.
    `offers_all`: where there are several, all of them at once can be chosen, too."""
    names = collection_names(catalog)
    choices = [(name, name) for name in names]
    if offers_all and len(names) > 1:
        choices.append((_(ALL_LABEL), ALL_COLLECTIONS))
    offered = [value for _label, value in choices]
    return gr.Dropdown(choices=choices, value=first_offered(offered, *wanted))


def collection_names(catalog: Catalog) -> list[str]:
    """Those of this moment; none where the catalog cannot be asked: the first use of the page says what is wrong."""
    try:
        return [each.name for each in catalog.collections()]
    except GircseError:
        return []


def first_offered(offered: Sequence[str], *wanted: object) -> str | None:
    """The first of the wanted names that is offered, else the first one."""
    return next((name for name in (*wanted, *offered) if isinstance(name, str) and name in offered), None)
