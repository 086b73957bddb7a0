"""The link that takes the keyboard past the fields of a search."""

from __future__ import annotations

import gradio as gr

from ui.language import html

_LINK = '<a class="skip" data-skip href="#{target}">[[Skip to hits]]</a>'


def build_skip_link(target: str) -> None:
    """A link that is shown while it has the focus. It leads to the first hit in the element `target`, or to the element
    if it has no hits. Build it right after the query."""
    gr.HTML(html(_LINK).format(target=target), js_on_load=None, min_width=0, elem_classes="skip-holder")
