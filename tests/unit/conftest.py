"""What several unit tests stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from ingest_parts import IngestParts

from app.access import hashing
from app.testing import InMemoryVectorIndex, ToyEmbedder


@pytest.fixture(scope="module", autouse=True)
def password_hasher() -> Iterator[PasswordHasher]:
    """The hasher of passwords as it is; the tests of a module hash theirs with an eighth of its memory."""
    with pytest.MonkeyPatch.context() as patch:
        kept = hashing.PASSWORDS._hasher
        patch.setattr(hashing.PASSWORDS, "_hasher", PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1))
        patch.setattr(hashing.PASSWORDS, "_absent", None)
        yield kept


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
