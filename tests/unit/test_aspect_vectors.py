"""The vectors that come with the bank are those of the shipped model, and serve no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.search.aspect_search import AspectSearch, bank_wordings, embed_plainly
from app.search.aspect_vectors import FILE, keep_vectors, kept_vectors
from app.testing import ToyEmbedder
from app.wiring.embedding import LocalEmbedder
from embedder.model_info import DEFAULT_MODEL


def test_the_file_holds_the_vectors_of_the_shipped_model_for_the_whole_bank() -> None:
    """Where it fails, run scripts/make_aspect_vectors.py."""
    model = LocalEmbedder(DEFAULT_MODEL, dtype="float32")
    wordings = bank_wordings()
    kept = kept_vectors(model.info, wordings)
    assert kept is not None, FILE
    every = len(wordings) // 40
    expected = embed_plainly(model, wordings[::every])
    np.testing.assert_array_less(0.9999, (kept[::every] * expected).sum(axis=1))
    model.close()


@pytest.mark.parametrize("changes", [{"fingerprint": "other"}, {"dimension": 4}])
def test_another_model_embeds_the_bank_itself(tmp_path: Path, changes: dict) -> None:
    model, vectors = ToyEmbedder().info, np.eye(3, 5, dtype=np.float32)
    keep_vectors(model, ["a", "b", "c"], vectors, file=tmp_path / "kept")
    found = kept_vectors(model, ["a", "b", "c"], file=tmp_path / "kept")
    assert found is not None
    np.testing.assert_allclose(found, vectors, atol=0.01)
    assert kept_vectors(replace(model, **changes), ["a", "b", "c"], file=tmp_path / "kept") is None
    assert kept_vectors(model, ["a", "c", "b"], file=tmp_path / "kept") is None
    assert kept_vectors(model, ["a", "b", "c"], file=tmp_path / "absent") is None


class CountingEmbedder(LocalEmbedder):
    texts = 0

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        self.texts += len(texts)
        return super().embed_documents(texts, instruction=instruction, steps=steps)


def test_no_wording_is_embedded_where_its_vector_came_along() -> None:
    model = CountingEmbedder(DEFAULT_MODEL, dtype="float32")
    [asked] = embed_plainly(model, ["Which animal does the text speak of?"])
    assert len(AspectSearch(model).nearest(asked, 3)) == 3
    assert model.texts == 1
    model.close()
