"""LangChain's vector store for a collection of gircse, with matching embeddings. Needs `langchain-qdrant`."""

from __future__ import annotations

import weakref
from contextlib import ExitStack

from langchain_qdrant import QdrantVectorStore

from app.errors import FingerprintMismatchError
from app.settings import Settings, load_settings
from app.types.documents import Collection
from app.wiring.catalog import open_catalog
from app.wiring.index import open_index
from embedder import GircseEmbeddings
from embedder.integrations.vector_store import OpenVectorStore


class CollectionStore(OpenVectorStore, QdrantVectorStore):
    """Searches the collection's index of the time when it was opened."""

    def __init__(self, collection: Collection, embeddings: GircseEmbeddings, settings: Settings) -> None:
        with ExitStack() as opened:
            index = opened.enter_context(open_index(settings))
            QdrantVectorStore.__init__(self, index.client, collection.active_index, embedding=embeddings)
            self._end = weakref.finalize(self, opened.pop_all().close)  # also at exit

    def close(self) -> None:
        self._end()


def open_vector_store(
    collection: str, *, query_instruction: str | None = None, settings: Settings | None = None
) -> CollectionStore:
    """A vector store for searching the collection's present index, with its document instruction.

    Do not add texts to it: they become unmanaged points, which `gircse search` ignores. Raises UnknownCollectionError,
    and FingerprintMismatchError if another model embedded the collection.
    """
    settings = settings or load_settings()
    with open_catalog(settings) as catalog:
        found = catalog.collection(collection)
    return CollectionStore(found, _embeddings_for(found, settings, query_instruction), settings)


def _embeddings_for(collection: Collection, settings: Settings, query_instruction: str | None) -> GircseEmbeddings:
    embeddings = GircseEmbeddings(
        model=settings.model,
        device=settings.device,
        dtype=settings.dtype,
        query_instruction=query_instruction,
        document_instruction=collection.document_instruction,
        document_steps=collection.document_steps,
    )
    if embeddings.fingerprint != collection.fingerprint:
        raise FingerprintMismatchError(
            f"The collection {collection.name!r} was embedded by another model than {settings.model!r} (fingerprint "
            f"{collection.fingerprint}, not {embeddings.fingerprint}). Set GIRCSE_MODEL to that model, or run "
            f"`gircse reindex {collection.name}`."
        )
    return embeddings
