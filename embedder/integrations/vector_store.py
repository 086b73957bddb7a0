"""`open_vector_store`: LangChain's vector store for a collection of the search application on this machine."""

from __future__ import annotations

from abc import abstractmethod
from importlib.metadata import entry_points
from typing import Any, Self

from langchain_core.vectorstores import VectorStore

_GROUP, _NAME = "gircse.application", "open_vector_store"  # gircse-search registers itself under these


class OpenVectorStore(VectorStore):
    """Has a connection to the vector index, and its process if it started one, until `close`, the end of a `with`
    block, or its last use."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_vector_store(
    collection: str, *, query_instruction: str | None = None, settings: Any = None
) -> OpenVectorStore:
    """A LangChain vector store for searching a collection that `gircse ingest` filled. `close()`, or a `with` block,
    frees it before its last use ends.

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
        store: OpenVectorStore = opened(collection, query_instruction=query_instruction, settings=settings)
        return store
    raise ImportError(
        "open_vector_store opens a collection of gircse-search, which is not installed: "
        "pip install 'gircse-search[app]' langchain-qdrant"
    )
