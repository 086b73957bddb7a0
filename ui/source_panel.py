"""The part of the documents page that lists and adds scheduled sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.contract import PageParts
from ui.handler_inputs import as_handler, event_data
from ui.language import _
from ui.render.sources import render_source_form
from ui.source_handlers import SourceHandlers

LIST_SCRIPT = "gircse.listen(element, trigger, ['act']); gircse.keepFocus(element)"
FORM_SCRIPT = "gircse.listen(element, trigger, ['act'])"
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, slots=True)
class SourcePanel:
    handlers: SourceHandlers
    form: gr.HTML
    listing: gr.HTML


def build_source_panel(parts: PageParts) -> SourcePanel:
    with gr.Accordion(_("Scheduled sources"), open=False, elem_id="sources-panel"):
        listing = gr.HTML("", elem_id="sources-list", js_on_load=LIST_SCRIPT)
        form = gr.HTML(render_source_form(), elem_id="source-form", js_on_load=FORM_SCRIPT)
    return SourcePanel(SourceHandlers(sources=parts.sources), form, listing)


def connect_source_panel(
    panel: SourcePanel, *, collection: gr.Dropdown, message: gr.HTML, showing: dict[str, Any]
) -> None:
    def act(chosen: object, event: gr.EventData) -> str:
        data = event_data(event)
        (said,) = as_handler(lambda: (panel.handlers.act(chosen, data),), outputs=1)()
        return said

    for view in (panel.listing, panel.form):
        view.act(act, collection, message, **_QUIET).then(**showing)
