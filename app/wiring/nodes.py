"""Opens embedder and indexer in a process of a Ray cluster, from settings sent to it. Imports torch when it embeds."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache

from tokenizers import Tokenizer

from app.documents.blobs import FolderBlobStore
from app.ports.parts import SharedEmbedder, VectorIndex
from app.runtime.thread_switching import set_switch_interval
from app.settings import Settings
from app.types.documents import Collection, Job, Point
from app.wiring.index import open_index
from app.wiring.ingestion import reader_of
from ingest.indexer import DocumentIndexer
from ingest.splitters import splitter_of

_opened = ExitStack()  # never closed: child processes notice by their pipes when this process ends


@dataclass(frozen=True, slots=True)
class SettingsParts:
    """The model and the indexer of a cluster node, built from settings. Implements `NodeParts`. Includes the tokenizer
    as JSON; each process loads the model by its name."""

    settings: Settings
    device: str | None
    tokenizer: str = field(repr=False)

    def prepare_cpu(self, threads: int) -> None:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # before torch is imported
        set_switch_interval()

    def embedder(self) -> SharedEmbedder:
        return _embedder(self.settings, self.device)

    def indexer(self, *, is_leaving: Callable[[], bool], before_embedding: Callable[[], None]) -> DocumentIndexer:
        settings = self.settings
        counter = JsonTokenCounter(self.tokenizer)
        index = _opened.enter_context(open_index(settings))
        return DocumentIndexer(
            blobs=FolderBlobStore(settings.home / "files"),
            index=index,
            lens_indexing=Unlabelled(index),
            embedder=self.embedder().for_ingestion(is_leaving),
            read=_opened.enter_context(reader_of(settings, is_stopping=is_leaving)),
            splitter_for=lambda collection: splitter_of(collection, counter),
            before_embedding=before_embedding,
        )


class JsonTokenCounter:
    """Counts tokens with a tokenizer given as JSON, without the model. Implements `TokenCounter`."""

    def __init__(self, tokenizer: str) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)


class Unlabelled:
    """Implements `LensIndexing` without a catalog: writes points without labels, which the driver queues later."""

    def __init__(self, index: VectorIndex) -> None:
        self._index = index

    def upsert(self, collection: Collection, points: Sequence[Point]) -> None:
        self._index.upsert(collection.active_index, points)

    def build(self, job: Job, *, heartbeat: Callable[[float], None]) -> int:
        raise NotImplementedError("Lens indexes are built by workers.")


@cache
def _embedder(settings: Settings, device: str | None) -> SharedEmbedder:
    """The embedder, one per process. It loads the model at first use."""
    embedders = importlib.import_module("app.wiring.embedders")
    embedder: SharedEmbedder = embedders.embedder_for(settings, device=device)
    return embedder
