"""The documents page without Gradio: plain values in, HTML out. Each handler checks all that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import ConflictError, InputError
from app.ports.catalog import Catalog
from app.ports.services import Fetching, Reindexing
from app.types.documents import Collection, DocumentState
from app.types.upkeep import ReindexState
from ui.document_view import read_document
from ui.handler_inputs import read_choice, read_text
from ui.render.collections import render_settings
from ui.render.documents import DocumentPage, render_documents, render_no_collection, render_overview
from ui.render.text import name_of, render_note

PAGE_SIZE = 50
MAX_URLS_AT_ONCE = 100
MAX_URL_CHARS = 2_000
MAX_FILTER_CHARS = 200
_MAX_OFFSET = 10**8
BUSY_POLL_S, IDLE_POLL_S = 2.0, 10.0


@dataclass(frozen=True, slots=True)
class DocumentsView:
    """What the page shows of a collection, and after how many seconds it should look again."""

    overview: str
    listing: str
    settings: str
    poll_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHandlers:
    catalog: Catalog
    fetching: Fetching
    reindexing: Reindexing

    def show(self, collection: object, text: object = "", state: object = "", offset: object = "") -> DocumentsView:
        if not collection:
            return DocumentsView("", render_no_collection(), "", IDLE_POLL_S)
        found = self._collection(collection)
        wanted, part = read_state(state), read_text(text, name="filter", max_chars=MAX_FILTER_CHARS)
        first = read_offset(offset)
        everything = self.catalog.count_documents(found.name)
        matching = self.catalog.count_documents(found.name, text=part) if part else everything
        total = matching[wanted] if wanted is not None else sum(matching.values())
        first = min(first, (total - 1) // PAGE_SIZE * PAGE_SIZE) if total else 0  # the last page, where there were more
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
            render_overview(found, everything, fetches),
            render_documents(shown),
            render_settings(found, reindex),
            BUSY_POLL_S if is_busy else IDLE_POLL_S,
        )

    def act(self, collection: object, data: Mapping[str, object]) -> str:
        """What a button in the list asks for; what was done."""
        action = data.get("action")
        if action == "retry-all":
            count = self.catalog.retry_dead(self._collection(collection).name)
            return render_note(f"{count} documents are read again." if count != 1 else "1 document is read again.")
        if action in ("delete", "retry", "cancel"):
            return self._act_on_document(collection, str(action), data)
        if action in ("retry-url", "forget-url"):
            return self._act_on_fetch(collection, str(action), data)
        raise InputError("That button does not exist. Load the page again.")

    def add_urls(self, collection: object, text: object) -> str:
        """Has the pages fetched whose addresses stand in the lines of a text."""
        name = self._collection(collection).name
        lines = read_text(text, name="list of addresses", max_chars=MAX_URLS_AT_ONCE * MAX_URL_CHARS).splitlines()
        urls = [line.strip() for line in lines if line.strip()]
        if not urls:
            raise InputError("Write at least one address, each in a line of its own.")
        if len(urls) > MAX_URLS_AT_ONCE:
            raise InputError(
                f"At most {MAX_URLS_AT_ONCE} addresses at once, not {len(urls)}. `gircse ingest --urls` takes more."
            )
        self.fetching.add(name, urls)
        pages = "1 page is" if len(urls) == 1 else f"{len(urls)} pages are"
        return render_note(f"{pages} being fetched. You can leave this page: it goes on.")

    def _act_on_document(self, collection: object, action: str, data: Mapping[str, object]) -> str:
        document = read_document(self.catalog, collection, data.get("document"))
        title = name_of(document)
        if action == "delete":
            self.catalog.submit_delete(document.id)
            return render_note(f"“{title}” is being deleted.")
        job = self.catalog.latest_jobs([document.id]).get(document.id)
        if job is None:
            raise ConflictError(f"Nothing is going on with “{title}”. Load the page again.")
        if action == "retry":
            self.catalog.retry(job.id)
            return render_note(f"“{title}” is read again.")
        self.catalog.cancel(job.id)
        return render_note(f"The reading of “{title}” is cancelled.")

    def _act_on_fetch(self, collection: object, action: str, data: Mapping[str, object]) -> str:
        name = self._collection(collection).name
        url = read_text(data.get("url"), name="address", max_chars=MAX_URL_CHARS)
        if action == "retry-url":
            self.fetching.retry(name, url)
            return render_note(f"{url} is fetched again.")
        self.fetching.forget(name, url)
        return ""

    def _collection(self, name: object) -> Collection:
        return self.catalog.collection(read_choice(name, name="collection"))


def read_state(value: object) -> DocumentState | None:
    if value is None or value == "":
        return None
    try:
        return DocumentState(str(value)[:20])
    except ValueError:
        raise InputError(f"There is no state {str(value)[:40]!r}. Choose one of the list.") from None


def read_offset(value: object) -> int:
    """From a field of the page, where it is text."""
    text = str(value or 0)
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) > _MAX_OFFSET:
        raise InputError("That page of the list does not exist. Load the page again.")
    return int(text)
