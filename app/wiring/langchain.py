"""LangChain's vector store for a collection of gircse, with matching embeddings. Needs `langchain-qdrant`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from langchain_qdrant import QdrantVectorStore

from app.errors import FingerprintMismatchError
from app.settings import Settings, load_settings
from app.types.documents import Collection
from app.wiring.catalog import open_catalog
from app.wiring.index import open_index
from embedder import GircseEmbeddings


@contextmanager
def open_vector_store(
    collection: str, *, query_instruction: str | None = None, settings: Settings | None = None
) -> Iterator[QdrantVectorStore]:
    """A vector store for searching the collection's index at the start of the block, with its document instruction.

    Do not add texts to it: they become unmanaged points, which `gircse search` ignores. Raises UnknownCollectionError,
    and FingerprintMismatchError if another model embedded the collection.
    """
    settings = settings or load_settings()
    with open_catalog(settings) as catalog, open_index(settings) as index:
        found = catalog.collection(collection)
        embeddings = _embeddings_for(found, settings, query_instruction)
        yield QdrantVectorStore(index.client, found.active_index, embedding=embeddings)


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
