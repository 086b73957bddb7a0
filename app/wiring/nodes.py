"""What a process of a Ray cluster opens by the settings that it is sent. Imports torch only where it embeds.

Processes that read and write start in a fraction of the time and memory of those that embed.
"""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache

from tokenizers import Tokenizer

from app.collections.blobs import FolderBlobStore
from app.ports.parts import Embedder
from app.ports.texts import Splitter
from app.settings import Settings
from app.types.documents import Collection
from app.vectors import QdrantVectorIndex
from app.wiring.index import open_index
from app.wiring.ingestion import process_limits_of, read_limits
from ingest.readers import ProcessReader
from ingest.splitters import splitter_of

_opened = ExitStack()  # ends with its process, and what it holds sees that by its pipes


@dataclass(frozen=True, slots=True)
class SettingsParts:
    """Implements `NodeParts`. The tokenizer, as JSON, travels along; the model is loaded by its name."""

    settings: Settings
    device: str | None
    tokenizer: str = field(repr=False)

    def blobs(self) -> FolderBlobStore:
        return FolderBlobStore(self.settings.home / "files")

    def index(self) -> QdrantVectorIndex:
        return _index(self.settings)

    def embedder(self) -> Embedder:
        return _embedder(self.settings, self.device)

    def reader(self) -> ProcessReader:
        return _reader(self.settings)

    def splitter(self, collection: Collection) -> Splitter:
        return splitter_of(collection, _token_counter(self.tokenizer))


class JsonTokenCounter:
    """Implements `TokenCounter`."""

    def __init__(self, tokenizer: str) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)


@cache
def _index(settings: Settings) -> QdrantVectorIndex:
    return _opened.enter_context(open_index(settings))


@cache
def _embedder(settings: Settings, device: str | None) -> Embedder:
    embedder: Embedder = importlib.import_module("app.wiring.embedders").embedder_for(settings, device=device)
    return embedder


@cache
def _token_counter(tokenizer: str) -> JsonTokenCounter:
    return JsonTokenCounter(tokenizer)


@cache
def _reader(settings: Settings) -> ProcessReader:
    return _opened.enter_context(
        ProcessReader(limits=read_limits(settings), process_limits=process_limits_of(settings))
    )
