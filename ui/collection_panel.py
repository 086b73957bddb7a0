"""The part of the documents page for creating, changing and deleting collections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.errors import GircseError
from ui.choice_fields import choose_collection
from ui.collection_handlers import LEAST_CHUNK_TOKENS, MOST_CHUNK_TOKENS, SETTINGS, CollectionHandlers
from ui.contract import PageParts
from ui.handler_inputs import as_handler, event_data
from ui.language import _, html

FACTS_SCRIPT = "gircse.listen(element, trigger, ['manage']); gircse.keepFocus(element)"
_BESIDE = "<p class='hint'>[[Searches use the current index until the new one is ready. You can leave this page.]]</p>"
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, slots=True)
class CollectionPanel:
    """The components of the collection settings. `facts` shows the settings and reindexing progress of a collection;
    each page refresh renders it again."""

    handlers: CollectionHandlers
    settings: gr.Accordion
    facts: gr.HTML
    change: list[Any]
    reindex: gr.Button
    typed: gr.Textbox
    delete: gr.Button
    name: gr.Textbox
    given: list[Any]
    create: gr.Button


def build_collection_panel(parts: PageParts) -> CollectionPanel:
    handlers = CollectionHandlers(
        catalog=parts.catalog,
        collections=parts.collections,
        reindexing=parts.reindexing,
        min_steps=parts.min_steps,
        max_steps=parts.max_steps,
    )
    with gr.Accordion(_("Collection settings"), open=False, elem_id="collection-settings") as settings:
        facts = gr.HTML("", elem_id="settings-facts", js_on_load=FACTS_SCRIPT)
        change = _build_contract("change", parts)
        reindex = gr.Button(_("Reindex with these settings"), elem_id="reindex", size="md")
        gr.HTML(html(_BESIDE), js_on_load=None)
        with gr.Row(elem_classes="ask-row"):
            typed = gr.Textbox(
                label=_("To delete this collection, type its name"), max_lines=1, scale=4, elem_id="delete-name"
            )
            delete = gr.Button(
                _("Delete collection"), variant="stop", size="md", scale=0, min_width=170, elem_id="delete-collection"
            )
    with gr.Accordion(_("New collection"), open=False, elem_id="new-collection"):
        name = gr.Textbox(label=_("Name"), placeholder="papers-2024", max_lines=1, elem_id="new-name")
        given = _build_contract("new", parts)
        create = gr.Button(_("Create collection"), elem_id="create", size="md")
    return CollectionPanel(handlers, settings, facts, change, reindex, typed, delete, name, given, create)


def _build_contract(elem_id: str, parts: PageParts) -> list[Any]:
    """Fields for instruction, steps, tokens and overlap. An empty number means default."""
    with gr.Row(elem_classes="ask-row"):
        instruction = gr.Textbox(
            label=_("Document instruction"),
            info=_("Applied to every passage when it is indexed. Leave it empty to suit all questions."),
            max_lines=3,
            scale=4,
            min_width=280,
            elem_id=f"{elem_id}-instruction",
        )
    with gr.Row(elem_classes="ask-row"):
        steps = _number(_("Steps per document"), parts.min_steps, parts.max_steps, f"{elem_id}-steps")
        tokens = _number(
            _("Longest passage, in tokens (parts of words)"), LEAST_CHUNK_TOKENS, MOST_CHUNK_TOKENS, f"{elem_id}-tokens"
        )
        overlap = _number(
            _("Overlap with the previous passage, in tokens"), 0, MOST_CHUNK_TOKENS // 2, f"{elem_id}-overlap"
        )
    return [instruction, steps, tokens, overlap]


def _number(label: str, least: int, most: int, elem_id: str) -> gr.Textbox:
    """A text field, because Gradio's number field shows an empty value as 0 and has its own error for bounds."""
    return gr.Textbox(
        label=label,
        placeholder=_("Default ({least} to {most})").format(least=least, most=most),
        max_lines=1,
        min_width=150,
        elem_id=elem_id,
    )


def connect_collection_panel(
    panel: CollectionPanel,
    parts: PageParts,
    *,
    collection: gr.Dropdown,
    offer: gr.HTML,
    message: gr.HTML,
    showing: dict[str, Any],
) -> None:
    """Connects the panel to the collection field, the offer to create a collection, and messages. `showing` refreshes
    the page."""
    handlers = panel.handlers

    def fill(name: object) -> tuple[Any, ...]:
        try:
            return handlers.settings_of(name)
        except GircseError:  # the list reports the error
            return tuple(gr.skip() for _ in panel.change)

    def create(name: object, *settings: object) -> tuple[Any, ...]:
        said, made = handlers.create(name, *settings)
        return said, choose_collection(parts.catalog, made), ""

    def create_offered(event: gr.EventData) -> tuple[Any, ...]:
        """Shows no message, which would move the list down: the upload area names the new collection."""
        offered = event_data(event).get("name")
        return as_handler(lambda: ("", create(offered, *[""] * SETTINGS)[1]), outputs=2, on_error=gr.skip())()

    def delete(name: object, typed: object) -> tuple[Any, ...]:
        """Closes the settings, which would be those of the next collection."""
        return handlers.delete(name, typed), choose_collection(parts.catalog), "", gr.Accordion(open=False)

    def manage(name: object, event: gr.EventData) -> tuple[Any, ...]:
        return as_handler(lambda: (handlers.manage(name, event_data(event)),), outputs=1)()

    offer.create(create_offered, None, [message, collection], **_QUIET).then(**showing)
    collection.change(fill, collection, panel.change, **_QUIET)
    kept: dict[str, Any] = {"outputs": 3, "on_error": gr.skip()}
    panel.create.click(
        as_handler(create, **kept), [panel.name, *panel.given], [message, collection, panel.name], **_QUIET
    ).then(**showing)
    panel.delete.click(
        as_handler(delete, outputs=4, on_error=gr.skip()),
        [collection, panel.typed],
        [message, collection, panel.typed, panel.settings],
        **_QUIET,
    ).then(**showing)
    panel.reindex.click(
        as_handler(lambda *given: (handlers.reindex(*given),), outputs=1),
        [collection, *panel.change],
        message,
        **_QUIET,
    ).then(**showing)
    panel.facts.manage(manage, collection, message, **_QUIET).then(**showing)
