"""Fields that offer what there is at this moment: collections, lenses."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.errors import GircseError
from app.ports import Catalog

class ChoiceField(gr.Dropdown):
    """A dropdown that passes on what it is sent, for handlers check it, and can say what is wrong.

    Gradio would refuse what was not among its choices when the server started, without a word to the person.
    """

    is_template = True  # it is drawn as its parent is

    def preprocess(self, payload: Any) -> Any:
        return payload
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block

    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

def choose_collection(catalog: Catalog, wanted: str | None = None) -> gr.Dropdown:
    """The field with all collections of this moment; the wanted one is chosen where it exists, else the first."""
    try:
        names = [each.name for each in catalog.collections()]
    except GircseError:  # the first use of the page says what is wrong
        names = []
    return gr.Dropdown(choices=names, value=wanted if wanted in names else next(iter(names), None))
