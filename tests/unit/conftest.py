"""What several unit tests stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ingest_parts import IngestParts

from app.testing import InMemoryVectorIndex, ToyEmbedder


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[IngestParts]:
    parts = IngestParts.open(tmp_path, InMemoryVectorIndex())
    parts.add_collection(ToyEmbedder())
    yield parts
    parts.engine.dispose()
