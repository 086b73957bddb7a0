"""Dropdowns for collections and lenses that load their choices whenever a page opens."""

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
    """A dropdown that passes any value on to its handler, which validates it and reports errors.

    By default Gradio silently rejects values that were not among the choices at server start.
    """
    field = gr.Dropdown(list(choices), **options)
    # Patch the instance: for a subclass, Gradio would write a stub file beside the module.
    field.preprocess = lambda payload: payload  # type: ignore[method-assign]
    return field


def choose_collection(catalog: Catalog, *wanted: object, offers_all: bool = False) -> gr.Dropdown:
    """A dropdown update with all current collections. Selects the first existing one of `wanted`, else the first.
    `offers_all` adds “all collections” if there are several."""
    names = collection_names(catalog)
    choices = [(name, name) for name in names]
    if offers_all and len(names) > 1:
        choices.append((_(ALL_LABEL), ALL_COLLECTIONS))
    offered = [value for _label, value in choices]
    return gr.Dropdown(choices=choices, value=first_offered(offered, *wanted))


def collection_names(catalog: Catalog) -> list[str]:
    """Names of the current collections. Empty if the catalog fails; the first use of the page reports the error."""
    try:
        return [each.name for each in catalog.collections()]
    except GircseError:
        return []


def first_offered(offered: Sequence[str], *wanted: object) -> str | None:
    """The first wanted name that is offered, else the first offered name."""
    return next((name for name in (*wanted, *offered) if isinstance(name, str) and name in offered), None)
