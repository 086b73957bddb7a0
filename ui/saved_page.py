"""The page of saved searches and history, and the row on the search page that saves a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from app.types.search import SearchRequest
from ui.contract import PageParts
from ui.handler_inputs import as_handler, event_data
from ui.language import _, html
from ui.saved_handlers import SavedHandlers

LIST_SCRIPT = "gircse.listen(element, trigger, ['act']); gircse.keepFocus(element); gircse.showAddresses(element)"
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


def build_saved_page(site: gr.Blocks, parts: PageParts) -> None:
    """Draws the page in the current Blocks."""
    handlers = SavedHandlers(catalog=parts.catalog, searches=parts.own_searches, standing=parts.standing)
    message = gr.HTML("", elem_id="saved-message", js_on_load=None)
    gr.HTML(html("<h2 class='kept-heading'>[[Saved searches]]</h2>"), js_on_load=None)
    saved = gr.HTML("", elem_id="saved-searches", js_on_load=LIST_SCRIPT)
    gr.HTML(html("<h2 class='kept-heading'>[[History]]</h2>"), js_on_load=None)
    history = gr.HTML("", elem_id="search-history", js_on_load=LIST_SCRIPT)
    showing: dict[str, Any] = {
        "fn": as_handler(handlers.show, outputs=2),
        "outputs": [saved, history],
        **_QUIET,
    }

    def act(event: gr.EventData) -> str:
        data = event_data(event)
        (said,) = as_handler(lambda: (handlers.act(data),), outputs=1)()
        return said

    site.load(**showing)
    for view in (saved, history):
        view.act(act, None, message, **_QUIET).then(**showing)


def build_saving(parts: PageParts, *, asked: Sequence[Any], read_request: Callable[..., SearchRequest]) -> None:
    """A row that saves the search in the fields `asked`; `read_request` parses them."""
    handlers = SavedHandlers(catalog=parts.catalog, searches=parts.own_searches, standing=parts.standing)
    with gr.Row(elem_classes="ask-row saving"):
        name = gr.Textbox(
            label=_("Save this search"), placeholder=_("A name for it"), max_lines=1, scale=1, elem_id="search-name"
        )
        button = gr.Button(_("Save search"), size="md", scale=0, min_width=130, elem_id="save-search")
    message = gr.HTML("", elem_id="saving-message", js_on_load=None)

    def save(given: object, *values: object) -> tuple[str, str]:
        return handlers.save(given, lambda: read_request(*values)), ""

    gr.on(
        [button.click, name.submit],
        fn=as_handler(save, outputs=2, on_error=gr.skip()),
        inputs=[name, *asked],
        outputs=[message, name],
        **_QUIET,
    )
