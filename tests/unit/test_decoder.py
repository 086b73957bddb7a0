"""Which models our decoder reads: those of a known layout whose states it reproduces. Others are read as they were."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import SHAPE, bert_backbone, contract, family_backbone, family_encoder, save_tiny_model, tiny_tokenizer
from torch import nn
from transformers import Gemma2Config, GPTNeoXConfig, MistralConfig

from embedder.checkpoint import chosen_dtype, load_encoder
from embedder.encoder import Encoder
from embedder.errors import ContractError
from embedder.model.backbone import Backbone, with_decoder
from embedder.model.layouts import Norm, read_layout
from embedder.model.weight_formats import BlockedLinear, Int8Linear, Linear, fastest_format, has_blocks, in_int8

TEXTS = ["A short one.", "A text that is somewhat longer than the other one."]


def vectors(backbone: Backbone) -> np.ndarray:
    return Encoder(backbone, tiny_tokenizer(), contract()).encode_queries(TEXTS, steps=4)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(GPTNeoXConfig(**SHAPE), id="other parts"),
        pytest.param(
            Gemma2Config(**SHAPE, num_key_value_heads=2, head_dim=8, final_logit_softcapping=None), id="capped"
        ),
    ],
)
def test_a_model_of_another_layout_is_read_through_transformers(tmp_path: Path, config) -> None:
    backbone = family_backbone(save_tiny_model(tmp_path, config))
    before = vectors(backbone)
    found = with_decoder(backbone)
    assert found.decoder is None
    np.testing.assert_allclose(vectors(found), before, atol=1e-6, rtol=0)


def test_a_window_in_every_layer_is_kept_to(tmp_path: Path) -> None:
    """Of pads as well, which a window must not count: one text is shorter than the other."""
    config = MistralConfig(**SHAPE, num_key_value_heads=2, sliding_window=8)
    backbone = family_backbone(save_tiny_model(tmp_path, config))
    before = vectors(backbone)
    found = with_decoder(backbone)
    assert found.decoder is not None
    np.testing.assert_allclose(vectors(found), before, atol=1e-5, rtol=0)


def test_a_model_that_only_looks_alike_is_read_through_transformers(tmp_path: Path) -> None:
    backbone = family_backbone(save_tiny_model(tmp_path, "qwen3"))
    backbone.body.layers[1].mlp.act_fn = nn.ReLU()
    before = vectors(backbone)
    found = with_decoder(backbone)
    assert found.decoder is None
    np.testing.assert_allclose(vectors(found), before, atol=1e-6, rtol=0)


def test_packed_weights_are_not_kept_twice() -> None:
    backbone = bert_backbone()
    layer = read_layout(backbone.model).layers[0]
    attention = backbone.body.encoder.layer[0].attention.self
    assert attention.key.weight.data_ptr() == layer.qkv.weight[384:].data_ptr()
    assert attention.key.bias.data_ptr() == layer.qkv.bias[384:].data_ptr()


@pytest.mark.skipif(not has_blocks(), reason="this build of torch has no oneDNN")
@pytest.mark.parametrize("rows", [1, 7, 64, 300])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("has_gelu", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_blocked_weights_give_the_same_product(
    rows: int, has_bias: bool, has_gelu: bool, dtype: torch.dtype, tolerance: float
) -> None:
    torch.manual_seed(rows)
    weight, x = (torch.randn(size, 48).to(dtype) for size in (80, rows))
    linear = Linear(weight, torch.randn(80).to(dtype) if has_bias else None, has_gelu)
    blocked = fastest_format(linear)
    assert isinstance(blocked, BlockedLinear) is has_blocks(dtype)  # bfloat16 needs AVX-512
    exact = replace(linear, weight=weight.double(), bias=linear.bias.double() if has_bias else None)(x.double())
    torch.testing.assert_close(blocked(x).double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rows", [1, 4, 5, 70])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("has_gelu", [True, False])
def test_weights_of_eight_bits_give_nearly_the_same_product(rows: int, has_bias: bool, has_gelu: bool) -> None:
    torch.manual_seed(rows)
    weight, x = (torch.randn(size, 64).bfloat16() for size in (96, rows))
    weight[3] = 0  # a row without a largest weight
    linear = Linear(weight, torch.randn(96).bfloat16() if has_bias else None, has_gelu)
    small = in_int8(linear)
    assert isinstance(small, Int8Linear)
    assert small.codes.dtype == torch.int8
    exact, found = linear(x).float(), small(x).float()
    assert found.isfinite().all()
    assert (exact - found).norm() < 0.02 * exact.norm()


def test_weights_of_another_device_stay_as_they_are() -> None:
    linear = Linear(torch.empty(8, 4, device="meta"), None)
    assert fastest_format(linear) is linear


def test_what_goes_from_layer_to_layer_is_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded to bfloat16 between layers, vectors of gircse-mini would be 0.00014 of a cosine away, not 0.00007."""
    seen = []
    call = Norm.__call__
    monkeypatch.setattr(Norm, "__call__", lambda self, x: seen.append(call(self, x).dtype) or call(self, x))
    family_encoder(save_tiny_model(tmp_path, "qwen3"), dtype="bfloat16").encode_queries(TEXTS, steps=2)
    assert set(seen) == {torch.float32}


def test_auto_is_bfloat16_where_it_is_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_fast, expected in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr("embedder.checkpoint.multiplies_bfloat16", lambda is_fast=is_fast: is_fast)
        assert chosen_dtype("auto", default="float32", device="cpu") == expected
        assert chosen_dtype("float32", default="bfloat16", device="cpu") == "float32"
    assert chosen_dtype("auto", default="float32", device="cuda:1") == "bfloat16"
    with pytest.raises(ContractError, match="float16"):
        chosen_dtype("float16", default="float32", device="cpu")


def test_a_processor_that_may_not_use_what_it_has_gets_float32() -> None:
    """As one with AVX2 alone; weights in bfloat16 could not even be put into blocks."""
    program = (
        "from embedder.checkpoint import chosen_dtype; print(chosen_dtype('auto', default='float32', device='cpu'))"
    )
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "float32"


@pytest.mark.parametrize(("dtype", "least"), [("bfloat16", 0.999), ("int8", 0.995)])
def test_other_dtypes_are_close_to_float32(tmp_path: Path, dtype: str, least: float) -> None:
    folder = str(save_tiny_model(tmp_path, "llama"))
    exact, close = (load_encoder(folder, dtype=each).encode_queries(TEXTS, steps=8) for each in ("float32", dtype))
    assert least < (exact * close).sum(axis=1).min() < 0.9999999


def test_int8_is_refused_where_the_layout_is_unknown(tmp_path: Path) -> None:
    config = GPTNeoXConfig(**SHAPE)
    with pytest.raises(ContractError, match="supports neither int8"):
        load_encoder(str(save_tiny_model(tmp_path, config)), dtype="int8")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_weights_are_not_kept_twice(tmp_path: Path, dtype: str) -> None:
    encoder = load_encoder(str(save_tiny_model(tmp_path, "qwen2")), dtype=dtype)
    left = [each for each in encoder._backbone.body.modules() if isinstance(each, nn.Linear) and each.weight.numel()]
    assert left == []
    assert np.isfinite(encoder.encode_queries(TEXTS, steps=2)).all()
