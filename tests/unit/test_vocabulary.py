"""The next input without the soft token: over tiles it is what it is through the soft token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import bert_encoder, family_encoder, save_tiny_model
from torch import Tensor

from embedder.encoder import Encoder
from embedder.model.heads import SoftHead
from embedder.model.prefill import PackedPrefill
from embedder.model.refine import refine_states, softmax_over_vocabulary
from embedder.model.vocabulary import LARGE, Tiles, Vocabulary, build_vocabulary, cut
from embedder.model.weight_formats import Linear

TEXTS = ["A short one.", "A text that is somewhat longer than the other one."]


def plain(head: Linear, embedding: Tensor, x: Tensor, temperature: float, bias: Tensor | None) -> Tensor:
    return softmax_over_vocabulary(head(x), temperature=temperature, logit_bias=bias) @ embedding.float()


def random_head(entries: int, width: int, *, seed: int = 0, has_bias: bool = True) -> tuple[Linear, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight, embedding = torch.randn(2, entries, width, generator=generator)
    return Linear(weight, torch.randn(entries, generator=generator) if has_bias else None), embedding


@settings(deadline=None)
@given(
    rows=st.integers(1, 9),
    entries=st.integers(1, 80),
    width=st.integers(1, 24),
    size=st.integers(1, 90),
    temperature=st.floats(0.05, 20),
    bias=st.sampled_from(["none", "small", "some are out", "all but one are out"]),
    has_bias=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_tiles_give_what_the_soft_token_gives(rows, entries, width, size, temperature, bias, has_bias, seed) -> None:
    head, embedding = random_head(entries, width, seed=seed, has_bias=has_bias)
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed + 1))
    biases = {
        "none": None,
        "small": torch.linspace(-10, 10, entries),
        "some are out": torch.zeros(entries).index_fill_(0, torch.arange(0, entries - 1, 2), -1e30),
        "all but one are out": torch.full((entries,), -torch.inf).index_fill_(0, torch.tensor([seed % entries]), 1.0),
    }
    found = cut(head, embedding, size=size).mean(x, temperature, biases[bias])
    expected = plain(head, embedding, x, temperature, biases[bias])
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rows", [1, 20])
def test_tiles_of_bfloat16_are_close(rows: int) -> None:
    head, embedding = random_head(500, 64)
    x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(3))
    half = Linear(head.weight.bfloat16(), head.bias.bfloat16())
    found = cut(half, embedding.bfloat16(), size=128).mean(x, 8.0, None)
    assert found.dtype == torch.bfloat16
    expected = plain(head, embedding, x, 8.0, None)
    assert torch.cosine_similarity(found.float(), expected, dim=-1).min() > 0.999


def test_tiles_give_logits_and_mix_soft_tokens_too() -> None:
    head, embedding = random_head(70, 8)
    tiles, x = cut(head, embedding, size=32), torch.randn(3, 8)
    torch.testing.assert_close(tiles.logits(x), head(x))
    soft_token = torch.softmax(head(x), dim=-1)
    torch.testing.assert_close(tiles.input_projection(soft_token), soft_token @ embedding)


def vocabularies(large: int) -> dict[str, Vocabulary]:
    torch.manual_seed(0)
    linear, soft_head = torch.nn.Linear(16, LARGE + 5, bias=False), SoftHead(16, torch.arange(LARGE + 5))
    for parameter in soft_head.parameters():
        torch.nn.init.normal_(parameter)
    embedding = torch.randn(LARGE + 5, 16)
    return {
        "lm_head": build_vocabulary(head=linear, soft_head=None, soft_weight=embedding, large=large),
        "soft_head": build_vocabulary(head=linear, soft_head=soft_head, soft_weight=embedding, large=large),
    }


@pytest.mark.parametrize("kind", ["lm_head", "soft_head"])
@torch.no_grad()
def test_a_large_vocabulary_gives_what_a_small_one_gives(kind: str) -> None:
    small, large = vocabularies(2 * LARGE)[kind], vocabularies(LARGE)[kind]
    assert small.mean is None
    assert large.mean is not None
    state, bias = torch.randn(3, 16), torch.linspace(-2, 2, LARGE + 5)
    expected = small.next_inputs(state, temperature=0.7, logit_bias=bias)
    torch.testing.assert_close(large.next_inputs(state, temperature=0.7, logit_bias=bias), expected)
    torch.testing.assert_close(large.logits(state), small.logits(state))
    through = large.embed_soft(softmax_over_vocabulary(large.logits(state), temperature=0.7, logit_bias=bias))
    torch.testing.assert_close(through, expected)


def with_tiles(encoder: Encoder) -> Encoder:
    """The same with its small vocabulary in tiles."""
    backbone = encoder._backbone
    vocabulary = build_vocabulary(
        head=backbone.head, soft_head=backbone.soft_head, soft_weight=backbone.soft_weight.detach(), large=100
    )
    assert vocabulary.mean is not None
    backbone.decoder._vocabulary = vocabulary
    return encoder


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "bert"])
def test_vectors_do_not_tell_whether_the_vocabulary_is_in_tiles(tmp_path: Path, family: str) -> None:
    make = bert_encoder if family == "bert" else lambda: family_encoder(save_tiny_model(tmp_path, family))
    expected = make().encode_prefixes(TEXTS, steps=5)
    np.testing.assert_allclose(with_tiles(make()).encode_prefixes(TEXTS, steps=5), expected, atol=1e-5, rtol=0)


def test_only_who_looks_at_soft_tokens_has_them_made(tmp_path: Path) -> None:
    encoder = family_encoder(save_tiny_model(tmp_path, "qwen2"))
    backbone, counts = encoder._backbone, {"mean": 0, "project": 0}
    vocabulary = backbone.decoder.vocabulary

    def count(name: str, call):
        def counted(*given):
            counts[name] += 1
            return call(*given)

        return counted

    tiles = cut(Linear(backbone.head.weight, None), backbone.weight, size=100)
    backbone.decoder._vocabulary = replace(
        vocabulary, output_projection=count("project", vocabulary.output_projection), mean=count("mean", tiles.mean)
    )
    seen: list[Tensor] = []
    with torch.no_grad():
        for on_step in (None, lambda step, soft_token: seen.append(soft_token)):
            refine_states(PackedPrefill(backbone, backbone.decoder, [[1, 2, 3]], steps=4), steps=4, on_step=on_step)
    assert counts == {"mean": 4, "project": 4}
    torch.testing.assert_close(torch.stack(seen).sum(dim=-1), torch.ones(4, 1))


def test_no_more_than_a_tile_of_logits_exists() -> None:
    head, embedding = random_head(1000, 8)
    tiles, widest = cut(head, embedding, size=64), []
    watched = tuple(
        replace(
            tile, output_projection=lambda x, project=tile.output_projection: widest.append(project(x)) or widest[-1]
        )
        for tile in tiles.parts
    )
    Tiles(watched, tiles.dtype).mean(torch.randn(2, 8), 1.0, None)
    assert [each.shape[1] for each in widest] == [64] * 15 + [40]
