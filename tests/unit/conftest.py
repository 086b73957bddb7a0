"""What several unit tests stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ingest_parts import IngestParts

from app.testing import InMemoryVectorIndex, ToyEmbedder


@pytest.fixture
def embedder() -> ToyEmbedder:
    return ToyEmbedder()


@pytest.fixture
def index() -> InMemoryVectorIndex:
    return InMemoryVectorIndex()


@pytest.fixture
def parts(tmp_path: Path, embedder: ToyEmbedder, index: InMemoryVectorIndex) -> Iterator[IngestParts]:
    parts = IngestParts.open(tmp_path, index)
    parts.add_collection(embedder)
    yield parts
    parts.engine.dispose()
