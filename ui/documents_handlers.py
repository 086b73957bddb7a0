"""The documents page without Gradio: plain values in, HTML out. Each handler validates its input."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from app.errors import ConflictError, InputError, UnknownCollectionError, UnknownDocumentError
from app.ports.catalog import Catalog
from app.ports.services import Documents, Fetching, Reindexing
from app.types.defaults import MAX_DOCUMENTS_AT_ONCE, UNDO_S
from app.types.documents import Collection, Document, DocumentState
from app.types.upkeep import ReindexState
from app.types.uris import shown_address
from ui.collection_handlers import MAX_NAME_CHARS
from ui.document_view import read_document
from ui.handler_inputs import read_choice, read_text
from ui.language import _, ngettext, number
from ui.render.collections import render_settings
from ui.render.documents import (
    DocumentPage,
    render_documents,
    render_new_collection,
    render_no_collection,
    render_offer,
    render_overview,
    render_undo,
)
from ui.render.text import name_of, render_note

PAGE_SIZE = 50
MAX_URLS_AT_ONCE = 100
MAX_URL_CHARS = 2_000
MAX_FILTER_CHARS = 200
_MAX_OFFSET = 10**8
BUSY_POLL_S, IDLE_POLL_S = 2.0, 10.0


@dataclass(frozen=True, slots=True)
class DocumentsView:
    """The parts of the page for a collection, and the seconds until the next refresh. `offer` is a button that creates
    a collection with the typed name."""

    offer: str
    overview: str
    listing: str
    settings: str
    poll_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHandlers:
    catalog: Catalog
    documents: Documents
    fetching: Fetching
    reindexing: Reindexing

    def show(self, collection: object, text: object = "", state: object = "", offset: object = "") -> DocumentsView:
        if not collection:
            # While the page is loading, none of several collections is chosen yet.
            listing = render_new_collection("") if self.catalog.collections() else render_no_collection()
            return DocumentsView("", "", listing, "", IDLE_POLL_S)
        try:
            found = self._collection(collection)
        except UnknownCollectionError as error:
            name = proposed_name(error.name)
            return DocumentsView(render_offer(error.name, name), "", render_new_collection(name), "", IDLE_POLL_S)
        wanted, part = read_state(state), read_text(text, name="filter", max_chars=MAX_FILTER_CHARS)
        first = read_offset(offset)
        everything = self.catalog.count_documents(found.name)
        matching = self.catalog.count_documents(found.name, text=part) if part else everything
        total = matching[wanted] if wanted is not None else sum(matching.values())
        first = (
            min(first, (total - 1) // PAGE_SIZE * PAGE_SIZE) if total else 0
        )  # the last page if documents disappeared
        documents = self.catalog.find_documents(found.name, text=part, state=wanted, limit=PAGE_SIZE, offset=first)
        jobs = self.catalog.latest_jobs([document.id for document in documents])
        fetches = self.fetching.fetches(found.name)
        reindex = self.reindexing.status(found.name)
        is_busy = everything[DocumentState.QUEUED] or everything[DocumentState.DELETING]
        is_busy = is_busy or any(not each.error for each in fetches) or reindex.state is ReindexState.RUNNING
        shown = DocumentPage(
            collection=found.name,
            documents=documents,
            jobs=jobs,
            first=first,
            total=total,
            page_size=PAGE_SIZE,
            is_filtered=bool(part) or wanted is not None,
            is_paused=found.is_paused,
        )
        return DocumentsView(
            "",
            render_overview(found, everything, fetches),
            render_documents(shown),
            render_settings(found, reindex),
            BUSY_POLL_S if is_busy else IDLE_POLL_S,
        )

    def act(self, collection: object, data: Mapping[str, object]) -> str:
        """Runs the action of a button in the list. Returns a message."""
        action = data.get("action")
        if action == "retry-all":
            count = self.catalog.retry_dead(self._collection(collection).name)
            return render_note(
                ngettext(
                    "{count} document is being reindexed.", "{count} documents are being reindexed.", count
                ).format(count=number(count))
            )
        if action in ("retry", "cancel"):
            return self._act_on_document(collection, str(action), data)
        if action in ("delete", "restore", "move"):
            return self._act_on_documents(data.get("collection") or collection, str(action), data)
        if action in ("retry-url", "forget-url"):
            return self._act_on_fetch(collection, str(action), data)
        raise InputError(_("Unknown button. Reload the page."))

    def add_urls(self, collection: object, text: object) -> str:
        """Fetches web pages; `text` has one address per line."""
        name = self._collection(collection).name
        lines = read_text(text, name="list of addresses", max_chars=MAX_URLS_AT_ONCE * MAX_URL_CHARS).splitlines()
        urls = [line.strip() for line in lines if line.strip()]
        if not urls:
            raise InputError(_("Enter at least one address, one per line."))
        if len(urls) > MAX_URLS_AT_ONCE:
            raise InputError(
                _(
                    "Enter at most {max_urls_at_once} addresses, not {count}. Use `gircse ingest --urls` for more."
                ).format(max_urls_at_once=MAX_URLS_AT_ONCE, count=len(urls))
            )
        self.fetching.add(name, urls)
        said = ngettext("{count} page is being fetched.", "{count} pages are being fetched.", len(urls))
        return render_note(f"{said.format(count=len(urls))} {_('You can leave this page; the work continues.')}")

    def _act_on_document(self, collection: object, action: str, data: Mapping[str, object]) -> str:
        document = read_document(self.catalog, collection, data.get("document"))
        title = name_of(document)
        job = self.catalog.latest_jobs([document.id]).get(document.id)
        if job is None:
            raise ConflictError(_("“{title}” is not being processed any more. Reload the page.").format(title=title))
        if action == "retry":
            self.catalog.retry(job.id)
            return render_note(_("“{title}” is being reindexed.").format(title=title))
        self.catalog.cancel(job.id)
        return render_note(_("Indexing of “{title}” was cancelled.").format(title=title))

    def _act_on_documents(self, collection: object, action: str, data: Mapping[str, object]) -> str:
        """Runs an action that can be undone: a deletion within UNDO_S, a move by moving back."""
        name, ids = self._collection(collection).name, read_ids(data.get("documents"))
        if action == "restore":
            restored = [self.catalog.restore_document(self._deleted(name, each).id) for each in ids]
            return render_note(
                ngettext(
                    "{count} document was restored. If needed, it is indexed again.",
                    "{count} documents were restored. If needed, they are indexed again.",
                    len(restored),
                ).format(count=number(len(restored)))
            )
        documents = [read_document(self.catalog, name, each) for each in ids]
        what, count = name_of(documents[0]), len(documents)
        if action == "delete":
            for each in documents:
                self.documents.delete_document(each.id, delay=timedelta(seconds=UNDO_S))
            said = ngettext("“{title}” was deleted.", "{count} documents were deleted.", count)
            undo = _("You can undo this for {seconds} seconds.").format(seconds=UNDO_S)
            message = f"{said.format(title=what, count=number(count))} {undo}"
            return render_undo(message, ids, action="restore", collection=name)
        to = self._collection(data.get("to")).name
        moved = [document.id for document, _ in self.documents.move_documents(ids, to)]
        said = ngettext(
            "“{title}” was moved to collection “{to}”.", "{count} documents were moved to collection “{to}”.", count
        )
        message = said.format(title=what, count=number(count), to=to)
        return render_undo(message, moved, action="move", collection=to, to=name)

    def _deleted(self, collection: str, document_id: str) -> Document:
        """Loads a document even if it is being deleted; `read_document` hides those."""
        document = self.catalog.document(document_id)
        if document.collection != collection:  # access was checked only for this collection
            raise UnknownDocumentError(
                _("The collection {collection!r} does not contain this document. Reload the page.").format(
                    collection=collection
                )
            )
        return document

    def _act_on_fetch(self, collection: object, action: str, data: Mapping[str, object]) -> str:
        name = self._collection(collection).name
        url = read_text(data.get("url"), name="address", max_chars=MAX_URL_CHARS)
        if action == "retry-url":
            self.fetching.retry(name, url)
            return render_note(_("{url} is being fetched again.").format(url=shown_address(url)))
        self.fetching.forget(name, url)
        return ""

    def _collection(self, name: object) -> Collection:
        return self.catalog.collection(read_choice(name, name="collection"))


def proposed_name(typed: str) -> str:
    """A valid collection name close to the typed one; empty if no character is usable."""
    plain = unicodedata.normalize("NFKD", typed).encode("ascii", "ignore").decode().lower()
    return re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9_]+", "-", plain)).strip("-_")[:MAX_NAME_CHARS].rstrip("-")


def read_ids(value: object) -> list[str]:
    """Parses document ids, separated by spaces, from an attribute."""
    ids = list(dict.fromkeys(value.split())) if isinstance(value, str) else []
    if not ids:
        raise InputError(_("Select documents first."))
    if len(ids) > MAX_DOCUMENTS_AT_ONCE:
        raise InputError(
            _("Select at most {max_documents_at_once} documents, not {count}.").format(
                max_documents_at_once=number(MAX_DOCUMENTS_AT_ONCE), count=number(len(ids))
            )
        )
    return ids


def read_state(value: object) -> DocumentState | None:
    if value is None or value == "":
        return None
    try:
        return DocumentState(str(value)[:20])
    except ValueError:
        raise InputError(
            _("Unknown state {value!r}. Choose one from the list.").format(value=str(value)[:40])
        ) from None


def read_offset(value: object) -> int:
    """Parses the offset from a text field of the page."""
    text = str(value or 0)
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) > _MAX_OFFSET:
        raise InputError(_("The list has no such page. Reload the page."))
    return int(text)
