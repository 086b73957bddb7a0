"""The library for interfaces: collections and documents, each call authorized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from app.access.authorizer import Authorizer
from app.access.quotas import UserQuotas
from app.errors import ForbiddenError
from app.ports.catalog import Catalog
from app.ports.pages import Pages
from app.ports.services import Documents
from app.types.access import Role
from app.types.defaults import CHUNK_OVERLAP, CHUNK_TOKENS
from app.types.documents import Collection, Document, IndexStatus, Job, Source, TextWindow
from app.types.pages import PageView
from app.types.texts import Layout

READER, EDITOR = Role.READER, Role.EDITOR


class AuthorizedPages:
    def __init__(self, pages: Pages, authorizer: Authorizer) -> None:
        self._pages = pages
        self._authorizer = authorizer

    def page(self, document: Document, number: int, *, start: int = 0, end: int = 0) -> PageView:
        with self._authorizer.require_access(READER, document.collection):
            return self._pages.page(document, number, start=start, end=end)

    def image(self, document: Document, number: int, *, width: int) -> bytes:
        with self._authorizer.require_access(READER, document.collection):
            return self._pages.image(document, number, width=width)


class AuthorizedLibrary:
    def __init__(self, library: Documents, catalog: Catalog, authorizer: Authorizer, quotas: UserQuotas) -> None:
        self._quotas = quotas
        self._library = library
        self._catalog = catalog
        self._authorizer = authorizer

    def create_collection(
        self,
        name: str,
        *,
        document_instruction: str | None = None,
        document_steps: int | None = None,
        chunk_tokens: int = CHUNK_TOKENS,
        chunk_overlap: int = CHUNK_OVERLAP,
        chunk_context: bool = True,
        chunk_structure: bool = True,
    ) -> Collection:
        self._require_own_name(name)
        made = self._library.create_collection(
            name,
            document_instruction=document_instruction,
            document_steps=document_steps,
            chunk_tokens=chunk_tokens,
            chunk_overlap=chunk_overlap,
            chunk_context=chunk_context,
            chunk_structure=chunk_structure,
        )
        self._authorizer.note("collection.created", name)
        return made

    def ensure_collection(self, name: str) -> Collection:
        self._require_own_name(name)
        return self._library.ensure_collection(name)

    def delete_collection(self, name: str) -> None:
        with self._authorizer.require_access(EDITOR, name):
            self._authorizer.note("collection.deleted", name)
            self._library.delete_collection(name)

    def add_document(self, collection: str, source: Source) -> tuple[Document, Job | None]:
        with self._authorizer.require_access(EDITOR, collection) as principal:
            return self._library.add_document(collection, replace(source, allowance=self._quotas.allowance(principal)))

    def delete_document(self, document_id: str, *, delay: timedelta = timedelta()) -> Job:
        document = self._catalog.document(document_id)
        with self._authorizer.require_access(EDITOR, document.collection):
            self._authorizer.note("document.deleted", document.id, {"collection": document.collection})
            return self._library.delete_document(document_id, delay=delay)

    def restore_document(self, document_id: str) -> Job:
        return self._catalog.restore_document(document_id)  # which is authorized, and notes it

    def move_documents(self, document_ids: Sequence[str], collection: str) -> list[tuple[Document, Job | None]]:
        documents = [self._catalog.document(each) for each in document_ids]
        with self._authorizer.require_access(EDITOR, collection, *{each.collection for each in documents}):
            moved = self._library.move_documents(document_ids, collection)
            for each in documents:
                self._authorizer.note("document.moved", each.id, {"collection": each.collection, "to": collection})
            return moved

    def index_status(self, name: str) -> IndexStatus:
        with self._authorizer.require_access(READER, name):
            return self._library.index_status(name)

    def optimize_index(self, name: str) -> IndexStatus:
        with self._authorizer.require_access(EDITOR, name):
            return self._library.optimize_index(name)

    def text_window(self, document: Document, start: int, end: int) -> TextWindow:
        with self._authorizer.require_access(READER, document.collection):
            return self._library.text_window(document, start, end)

    def layout(self, document: Document, start: int, end: int) -> Layout:
        with self._authorizer.require_access(READER, document.collection):
            return self._library.layout(document, start, end)

    def original_file(self, document: Document) -> Path:
        with self._authorizer.require_access(READER, document.collection):
            return self._library.original_file(document)

    def _require_own_name(self, name: str) -> None:
        """A name that is another's is refused whether or not there is a collection of it."""
        principal = self._authorizer.require_role(EDITOR)
        if not principal.covers(name):
            own = ", ".join(principal.key_collections if "*" in principal.collections else principal.collections)
            raise ForbiddenError(f"You may not make {name!r}: your collections are {own or 'none'}.")
