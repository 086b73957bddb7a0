"""The documents page: adding files and web pages, progress, opening documents, and managing collections."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.choice_fields import choice_field, choose_collection, collection_names, first_offered
from ui.chosen_collection import asked_collection, missing_collection
from ui.collection_panel import build_collection_panel, connect_collection_panel
from ui.contract import PageParts
from ui.document_view import build_document_view
from ui.documents_handlers import BUSY_POLL_S, DocumentHandlers
from ui.handler_inputs import as_handler, event_data
from ui.language import _, later
from ui.render.selection import render_selection
from ui.render.text import render_reader_note
from ui.render.upload import render_uploader
from ui.source_panel import build_source_panel, connect_source_panel
from ui.theme import ASSETS

STATES = (
    (later("All"), ""),
    (later("Ready"), "ready"),
    (later("Waiting or processing"), "queued"),
    (later("Failed"), "failed"),
    (later("Being deleted"), "deleting"),
)
FIRST_PAGE = "0"
ACT_SCRIPT = "gircse.listen(element, trigger, ['act'])"
OFFER_SCRIPT = "gircse.listen(element, trigger, ['create'])"
LIST_SCRIPT = "gircse.listen(element, trigger, ['open', 'act', 'turn']); gircse.keepFocus(element)"
OVERVIEW_SCRIPT = "gircse.listen(element, trigger, ['act']); gircse.keepFocus(element)"
UPLOAD_SCRIPT = (ASSETS / "upload.js").read_text(encoding="utf-8")
SELECTION_SCRIPT = (ASSETS / "selection.js").read_text(encoding="utf-8")
# The first response must not overwrite text that was typed before it arrived.
FILL_UNLESS_WRITTEN = """(asked, chosen) => {
  const field = document.querySelector("#documents-collection input");
  const { names, name } = JSON.parse(asked);
  const update = { __type__: "update", choices: names.map((each) => [each, each]) };
  return chosen || field?.value ? update : { ...update, value: name };
}"""

_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, slots=True)
class _Adding:
    uploader: gr.HTML
    urls: gr.Textbox
    fetch: gr.Button


@dataclass(frozen=True, slots=True)
class _Asked:
    """Fields that select the shown documents. The offset is text in a hidden field."""

    collection: gr.Dropdown
    text: gr.Textbox
    state: gr.Dropdown
    offset: gr.Textbox

    @property
    def all(self) -> list[Any]:
        return [self.collection, self.text, self.state, self.offset]


@dataclass(frozen=True, slots=True)
class _Views:
    message: gr.HTML
    offer: gr.HTML
    overview: gr.HTML
    selection: gr.HTML
    listing: gr.HTML


def build_documents_page(site: gr.Blocks, parts: PageParts) -> None:
    """Draws the page in the current Blocks."""
    handlers = DocumentHandlers(
        catalog=parts.catalog, documents=parts.documents, fetching=parts.fetching, reindexing=parts.reindexing
    )
    with gr.Row(elem_classes="ask documents-ask"):
        with gr.Column(scale=2, min_width=240):
            collection = choice_field(
                [],
                label=_("Collection"),
                info=_("Choose one, or enter a new name."),
                allow_custom_value=True,
                elem_id="documents-collection",
            )
            offer = gr.HTML("", elem_id="collection-offer", js_on_load=OFFER_SCRIPT)
            with gr.Accordion(_("Add web pages"), open=False, elem_id="add-urls"):
                urls = gr.Textbox(
                    label=_("Addresses, one per line"),
                    placeholder="https://example.org/page",
                    lines=3,
                    elem_id="urls",
                )
                fetch = gr.Button(_("Fetch"), size="md", elem_id="fetch-urls")
            sources = build_source_panel(parts)
            panel = build_collection_panel(parts)
        with gr.Column(scale=3, min_width=280):
            uploader = gr.HTML(render_uploader(), elem_id="uploader", js_on_load=UPLOAD_SCRIPT)
    gr.HTML(render_reader_note(), js_on_load=None)
    message = gr.HTML("", elem_id="documents-message", js_on_load=ACT_SCRIPT)
    overview = gr.HTML("", elem_id="documents-overview", js_on_load=OVERVIEW_SCRIPT)
    asked = _build_filter(collection)
    selection = gr.HTML(render_selection(), elem_id="documents-selection", js_on_load=SELECTION_SCRIPT)
    listing = gr.HTML("", elem_id="documents-list", js_on_load=LIST_SCRIPT)
    views = _Views(message, offer, overview, selection, listing)
    timer = gr.Timer(BUSY_POLL_S)
    build_document_view(parts, collection=collection, sources=[views.listing], elem_id="document-view")

    def show(*given: object) -> tuple[Any, ...]:
        view = handlers.show(*given)
        coming = sources.handlers.show(given[0] if given else None)
        poll_s = BUSY_POLL_S if coming.is_awaited else view.poll_s
        return view.offer, view.overview, view.listing, view.settings, coming.listing, gr.Timer(poll_s)

    showing = {
        "fn": as_handler(show, outputs=6, on_error=gr.skip()),
        "inputs": asked.all,
        "outputs": [views.offer, views.overview, views.listing, panel.facts, sources.listing, timer],
        "trigger_mode": "always_last",
        **_QUIET,
    }
    timer.tick(**showing)
    connect_collection_panel(panel, parts, collection=collection, offer=offer, message=message, showing=showing)
    connect_source_panel(sources, collection=collection, message=message, showing=showing)
    _connect_choices(site, parts, asked, views.message, showing)
    _connect_adding(handlers, parts, asked, _Adding(uploader, urls, fetch), views, showing)
    _connect_list(handlers, asked, views, showing)


def _build_filter(collection: gr.Dropdown) -> _Asked:
    with gr.Row(elem_classes="ask-row documents-filter"):
        text = gr.Textbox(
            label=_("Filter"),
            placeholder=_("Part of a title or address"),
            max_lines=1,
            scale=4,
            elem_id="list-text",
        )
        state = choice_field(
            [(_(label), state) for label, state in STATES],
            value="",
            label=_("State"),
            scale=1,
            min_width=200,
            filterable=False,
            elem_id="list-state",
        )
    offset = gr.Textbox(FIRST_PAGE, visible=False, elem_id="list-offset")
    return _Asked(collection, text, state, offset)


def _connect_choices(
    site: gr.Blocks, parts: PageParts, asked: _Asked, message: gr.HTML, showing: dict[str, Any]
) -> None:
    def missing(request: gr.Request) -> str:
        return missing_collection(parts.catalog, request)

    def look_up(request: gr.Request) -> str:
        names = collection_names(parts.catalog)
        return json.dumps({"names": names, "name": first_offered(names, asked_collection(request))})

    first_page: dict[str, Any] = {"fn": lambda: FIRST_PAGE, "outputs": asked.offset, **_QUIET}
    found = gr.Textbox(visible=False, elem_id="documents-collections")
    site.load(look_up, outputs=found, **_QUIET).then(
        None, [found, asked.collection], asked.collection, js=FILL_UNLESS_WRITTEN, **_QUIET
    ).then(**showing)
    site.load(missing, outputs=message, **_QUIET)
    asked.collection.input(**first_page).then(**showing)
    gr.on([asked.text.submit, asked.text.blur, asked.state.input], **first_page).then(**showing)


def _connect_adding(
    handlers: DocumentHandlers,
    parts: PageParts,
    asked: _Asked,
    adding: _Adding,
    views: _Views,
    showing: dict[str, Any],
) -> None:
    def add_urls(collection: object, text: object) -> tuple[str, str]:
        return handlers.add_urls(collection, text), ""

    def choose_filled(collection: object, event: gr.EventData) -> gr.Dropdown:
        """Keeps the chosen collection; selects the upload's collection only if the chosen one does not exist."""
        return choose_collection(parts.catalog, collection, event_data(event).get("collection"))

    adding.fetch.click(
        as_handler(add_urls, outputs=2, on_error=gr.skip()),
        [asked.collection, adding.urls],
        [views.message, adding.urls],
        **_QUIET,
    ).then(**showing)
    adding.uploader.added(choose_filled, asked.collection, asked.collection, **_QUIET).then(**showing)


def _connect_list(handlers: DocumentHandlers, asked: _Asked, views: _Views, showing: dict[str, Any]) -> None:
    def act(collection: object, event: gr.EventData) -> str:
        data = event_data(event)
        (said,) = as_handler(lambda: (handlers.act(collection, data),), outputs=1)()
        return said

    def turn(event: gr.EventData) -> str:
        offset = event_data(event).get("offset")
        return offset if isinstance(offset, str) else FIRST_PAGE

    for view in (views.listing, views.overview, views.selection, views.message):
        view.act(act, asked.collection, views.message, **_QUIET).then(**showing)
    views.listing.turn(turn, outputs=asked.offset, **_QUIET).then(**showing)
