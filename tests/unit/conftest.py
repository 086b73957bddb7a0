"""What several unit tests stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from argon2 import PasswordHasher
from ingest_parts import IngestParts

from app.access import hashing
from app.testing import InMemoryVectorIndex, ToyEmbedder

if TYPE_CHECKING:
    from embedder import Encoder


@pytest.fixture(scope="module", autouse=True)
def password_hasher() -> Iterator[PasswordHasher]:
    """The hasher of passwords as it is; the tests of a module hash theirs with an eighth of its memory."""
    with pytest.MonkeyPatch.context() as patch:
        kept = hashing.PASSWORDS._hasher
        patch.setattr(hashing.PASSWORDS, "_hasher", PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1))
        patch.setattr(hashing.PASSWORDS, "_absent", None)
        yield kept


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a real model with random weights."""
    from tiny_models import save_tiny_model  # torch takes seconds, in every process that collects tests

    return str(save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen2"))


@pytest.fixture(scope="module")
def tiny_encoder(tiny_model: str) -> Encoder:
    from embedder import load_encoder

    return load_encoder(tiny_model, dtype="float32")


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
