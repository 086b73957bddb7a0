"""`open_vector_store`: LangChain's vector store for a collection of the search application on this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from typing import Any

from langchain_core.vectorstores import VectorStore

_GROUP, _NAME = "gircse.application", "open_vector_store"  # gircse-search registers itself under these


def open_vector_store(
    collection: str, *, query_instruction: str | None = None, settings: Any = None
) -> AbstractContextManager[VectorStore]:
    """A LangChain vector store for searching a collection that `gircse ingest` filled. Use it in a `with` block.

    settings: `app.settings.Settings`; None: those of this installation. Raises ImportError if gircse-search or
    langchain-qdrant is not installed, and the application's errors for an unknown collection or another model.
    """
    for each in entry_points(group=_GROUP, name=_NAME):
        try:
            opened = each.load()
        except ModuleNotFoundError as error:
            raise ImportError(
                f"open_vector_store needs the package {error.name!r}: pip install 'gircse-search[app]' langchain-qdrant"
            ) from error
        store: AbstractContextManager[VectorStore] = opened(
            collection, query_instruction=query_instruction, settings=settings
        )
        return store
    raise ImportError(
        "open_vector_store opens a collection of gircse-search, which is not installed: "
        "pip install 'gircse-search[app]' langchain-qdrant"
    )
