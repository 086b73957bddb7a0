"""The documents page: what a collection holds, adding files, watching them being read, deleting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.errors import InputError, UnknownDocumentError
from app.ports import Catalog
from ui.choice_fields import choice_field, choose_collection
from ui.contract import PageParts
from ui.guard import guarded, read_choice
from ui.render.documents import render_documents
from ui.render.text import render_note
from ui.uploads import accept_uploads_only, taken_uploads

DOCUMENTS_SHOWN = 100
POLL_SECONDS = 2.0

# Rows are drawn again at every poll, so one listener on the whole list serves every "Delete".
_DELETE_SCRIPT = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-document]');
  if (button && window.confirm(button.getAttribute('aria-label') + '?')) {
    trigger('delete', { document: button.dataset.document });
  }
});
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHandlers:
    """The page without Gradio: plain values in, HTML out."""

    catalog: Catalog
    add_files: Any = None

    def list(self, collection: object) -> tuple[str]:
        if not collection:
            return (render_note("There is no collection yet. `gircse ingest PATH` makes the first one."),)
        found = self.catalog.counted_collection(read_choice(collection, name="collection"))
        documents = self.catalog.documents(found.name, limit=DOCUMENTS_SHOWN)
        jobs = self.catalog.jobs(collection=found.name, limit=4 * DOCUMENTS_SHOWN)
        return (render_documents(documents, jobs, total=found.document_count),)

    def add(self, collection: object, paths: object) -> tuple[str, str, None]:
        """A message, the new list, and an empty file field."""
        if self.add_files is None:
            raise InputError("Files cannot be added here. Use `gircse ingest PATH` instead.")
        name = self.catalog.collection(read_choice(collection, name="collection")).name
        with taken_uploads(paths) as uploads:
            added = self.add_files(name, uploads)
        files = "1 file was" if len(added) == 1 else f"{len(added)} files were"
        message = f"{files} handed in. You can leave this page: reading goes on."
        return render_note(message), self.list(name)[0], None

    def delete(self, collection: object, document_id: object) -> tuple[str, str]:
        name = self.catalog.collection(read_choice(collection, name="collection")).name
        document = self.catalog.document(read_choice(document_id, name="document"))
        if document.collection != name:  # an id of another collection must not be deleted from this one's list
            raise UnknownDocumentError(f"The collection {name!r} has no such document. Load the page again.")
        self.catalog.submit_delete(document.id)
        return render_note(f"“{document.title or document.uri}” is being deleted."), self.list(name)[0]


def build_documents_page(site: gr.Blocks, parts: PageParts) -> None:
    """Draws the page in the current Blocks."""
    handlers = DocumentHandlers(catalog=parts.catalog, add_files=None)
    with gr.Row(elem_classes="ask documents-ask"):
        with gr.Column(scale=2, min_width=220):
            collection = choice_field([], label="Collection", elem_id="documents-collection")
        with gr.Column(scale=5, min_width=280, visible=handlers.add_files is not None):
            files = accept_uploads_only(
                gr.File(
                    label="Add files", file_count="multiple", type="filepath", height=120, elem_id="documents-files"
                )
            )
            add = gr.Button("Add to collection", variant="primary", size="md", elem_id="documents-add")
    message = gr.HTML("", elem_id="documents-message", js_on_load=None)
    listing = gr.HTML("", elem_id="documents-list", js_on_load=_DELETE_SCRIPT)
    timer = gr.Timer(POLL_SECONDS)

    def remove(name: object, event: gr.EventData) -> tuple[Any, ...]:
        data = event._data if isinstance(event._data, dict) else {}
        return guarded(handlers.delete, outputs=2, on_error=gr.skip())(name, data.get("document"))

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    show = {"fn": guarded(handlers.list, outputs=1), "inputs": collection, "outputs": listing, **quiet}
    site.load(lambda: choose_collection(parts.catalog), outputs=collection, **quiet).then(**show)
    collection.input(**show)
    timer.tick(**show)
    add.click(
        guarded(handlers.add, outputs=3, on_error=gr.skip()),
        [collection, files],
        [message, listing, files],
        api_visibility="private",
    )
    listing.delete(remove, collection, [message, listing], **quiet)
