"""Soft tokens mixed by their most probable entries: what is left out is bounded, and only sharp ones are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import save_tiny_model
from torch import Tensor

from embedder.checkpoint import load_encoder
from embedder.errors import ContractError
from embedder.model.vocabulary import TopEntries

EMBEDDING = torch.randn(300, 16, generator=torch.Generator().manual_seed(0))


def soft_tokens(sharpness: float, seed: int, rows: int) -> Tensor:
    logits = torch.randn(rows, 300, generator=torch.Generator().manual_seed(seed))
    return torch.softmax(sharpness * logits, dim=1)


@given(sharpness=st.floats(0.1, 30), seed=st.integers(0, 99), rows=st.integers(1, 5), count=st.integers(1, 400))
def test_the_mean_moves_by_no_more_than_the_tail_allows(sharpness: float, seed: int, rows: int, count: int) -> None:
    soft = soft_tokens(sharpness, seed, rows)
    mixed = TopEntries(EMBEDDING, count, lambda s: s @ EMBEDDING, most_tail=0.05)(soft)
    exact = soft @ EMBEDDING
    tails = 1 - soft.sort(dim=1, descending=True).values[:, :count].sum(dim=1)
    allowed = torch.where(tails > 0.05, 0, 2 * tails * EMBEDDING.norm(dim=1).max())
    assert bool(((mixed - exact).norm(dim=1) <= allowed + 1e-4).all()), (tails, (mixed - exact).norm(dim=1))


def test_only_rows_with_a_heavy_tail_are_mixed_whole() -> None:
    asked: list[Tensor] = []

    def whole(soft: Tensor) -> Tensor:
        asked.append(soft)
        return soft @ EMBEDDING

    soft = torch.cat([soft_tokens(30, 0, 1), soft_tokens(0.1, 1, 1), soft_tokens(30, 2, 1)])
    TopEntries(EMBEDDING, 20, whole)(soft)
    assert len(asked) == 1
    torch.testing.assert_close(asked[0], soft[1:2])
    TopEntries(EMBEDDING, 20, whole)(soft[::2])
    assert len(asked) == 1


def test_an_encoder_takes_it_on_where_it_is_asked_to(tmp_path: Path) -> None:
    folder = str(save_tiny_model(tmp_path, "qwen2"))
    exact, near = (load_encoder(folder, top_entries=count).encode_queries(["a text"], steps=4) for count in (None, 8))
    np.testing.assert_allclose(
        near, exact, atol=1e-5
    )  # untrained, its soft tokens are nearly even: each is mixed whole
    encoder = load_encoder(folder, top_entries=8)
    assert encoder._backbone.decoder is not None
    assert isinstance(encoder._backbone.decoder.vocabulary.input_projection, TopEntries)
    with pytest.raises(ContractError, match="top_entries"):
        load_encoder(folder, top_entries=0)
