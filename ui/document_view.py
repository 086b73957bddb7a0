"""A dialog that shows a document's text around a passage; any page can open it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.errors import InputError, UnknownDocumentError
from app.ports.catalog import Catalog
from app.ports.services import Texts
from app.types.documents import Document, DocumentState
from app.types.search import ALL_COLLECTIONS
from ui.contract import PageParts
from ui.handler_inputs import as_handler, event_data, read_choice
from ui.language import _
from ui.render.document_view import (
    VIEW_CHARACTERS,
    PassagePlace,
    render_deleted,
    render_document_view,
    render_view_notice,
    view_bounds,
)

_WHOLE = re.compile(r"[0-9]{1,9}")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentViewHandlers:
    """Handlers of the dialog, without Gradio: plain values in, HTML out."""

    catalog: Catalog
    texts: Texts

    def open(self, collection: object, data: Mapping[str, object]) -> tuple[str]:
        """`data` has the document id and optionally a chunk id, or start and end of a passage, and the page to show,
        the best sentence, and the start of the shown text.

        Raises InputError, and NotFoundError also for documents of other collections.
        """
        document = read_document(self.catalog, collection, data.get("document"))
        start, end, page = _read_place(data, "start") or 0, _read_place(data, "end") or 0, _read_place(data, "page")
        if data.get("chunk"):
            chunk = self.catalog.find_chunk(document.id, read_choice(data["chunk"], name="passage"))
            if chunk is not None:  # a replaced chunk is missing: open the document at its beginning
                start, end, page = chunk.start, chunk.end, page or chunk.page
        first, last = view_bounds(start, end)
        begin = _read_place(data, "from")
        if begin is not None:
            first, last = begin, begin + VIEW_CHARACTERS
        window = self.texts.text_window(document, first, last)
        layout = self.texts.layout(document, window.start, window.end)
        place = PassagePlace(start, end, page, _read_sentence(data))
        shown = data.get("chunk")
        return (
            render_document_view(document, window, place, layout=layout, chunk=shown if isinstance(shown, str) else ""),
        )

    def show(self, collection: object, data: Mapping[str, object]) -> tuple[str]:
        """Like `open`, but shows a notice if the document was deleted."""
        try:
            return self.open(collection, data)
        except UnknownDocumentError:
            return (render_deleted(),)


def read_document(catalog: Catalog, collection: object, document_id: object) -> Document:
    """Loads a document of the collection, or of any collection if all are searched. Raises InputError and
    NotFoundError."""
    asked = read_choice(collection, name="collection")
    name = None if asked == ALL_COLLECTIONS else catalog.collection(asked).name
    try:
        document = catalog.document(read_choice(document_id, name="document"))
    except UnknownDocumentError:
        raise UnknownDocumentError(_("This document was deleted. Reload the page.")) from None
    is_deleted = document.state is DocumentState.DELETING
    # Access was checked only for this collection, or, without one, by the catalog for the document's collection.
    if is_deleted or name not in (None, document.collection):
        raise UnknownDocumentError(
            _("The collection {name!r} does not contain this document. Reload the page.").format(name=asked)
        )
    return document


def build_document_view(parts: PageParts, *, collection: Any, sources: Sequence[Any], elem_id: str) -> gr.HTML:
    """Adds the closed dialog to the current Blocks. The event `open` of a source opens it.

    Each source is a gr.HTML whose script listens to 'open'. Its buttons have data-event="open", data-document and
    optionally data-chunk. `collection` is the collection field.
    """
    handlers = DocumentViewHandlers(catalog=parts.catalog, texts=parts.texts)
    view = gr.HTML("", elem_id=elem_id, js_on_load="gircse.listen(element, trigger, ['open'])")

    def show(name: object, event: gr.EventData) -> str:
        (shown,) = as_handler(handlers.show, outputs=1)(name, event_data(event))
        return shown if shown.startswith("<dialog") else render_view_notice(shown)

    for each in (view, *sources):
        each.open(show, collection, view, api_visibility="private", show_progress="hidden").then(
            fn=None, js=f"() => gircse.openDialog('{elem_id}')"
        )
    return view


def _read_sentence(data: Mapping[str, object]) -> tuple[int, int]:
    """The sentence's character range in the document; empty if none is given."""
    value = data.get("sentence")
    if value is None or value == "":
        return 0, 0
    found = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InputError(_("The position of the sentence must be two whole numbers. Reload the page."))
    return int(found[1]), int(found[2])


def _read_place(data: Mapping[str, object], name: str) -> int | None:
    """Parses a number from a data- attribute."""
    value = data.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not _WHOLE.fullmatch(value):
        raise InputError(_("The {name} of the passage must be a whole number. Reload the page.").format(name=name))
    return int(value)
