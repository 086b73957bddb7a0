"""What encode.py compares: our encoder, sentence-transformers, OpenVINO, and two plain ways to write
Algorithm 1."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer, DynamicCache

from embedder.encoder import Encoder
from embedder.model.backbone import Backbone
from embedder.model.contract import Contract
from embedder.model.prefill import Prompt, pad
from embedder.text.prompts import TEMPLATES, PromptTokenizer

Encode = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Model:
    """One set of weights for all who encode with it."""

    backbone: Backbone
    tokenizer: Tokenizer
    contract: Contract

    def prompts(self, texts: Sequence[str]) -> Prompt:
        template = TEMPLATES[self.contract.template]
        prompts = PromptTokenizer(self.tokenizer, template, max_length=self.contract.max_length).encode(texts, "")
        return pad([each.ids for each in prompts], device=self.backbone.device, side="left")


def ours(model: Model, texts: Sequence[str], steps: int) -> Encode:
    """steps 0: one pass over the prompt, whose states are averaged."""
    whole = replace(model.contract, selection_files={})  # without an instruction no sentence is left out
    contract = whole if steps else replace(whole, pooling="prompt_mean")
    encoder = Encoder(model.backbone, model.tokenizer, contract)
    return lambda: encoder.encode_queries(texts, instruction="", steps=max(steps, 1), batch_size=len(texts))


def sentence_transformers(folder: Path, texts: Sequence[str], dtype: torch.dtype, device: str) -> Encode:
    model = SentenceTransformer(str(folder), device=device, model_kwargs={"dtype": dtype})
    model.max_seq_length = 512
    return lambda: model.encode(list(texts), batch_size=len(texts), show_progress_bar=False)


def has_openvino() -> bool:
    """It does not run where oneDNN is told to take the processor for a lesser one."""
    return find_spec("openvino") is not None and "ONEDNN_MAX_CPU_ISA" not in os.environ


def openvino(folder: Path, texts: Sequence[str]) -> Encode:
    """The backbone compiled by OpenVINO, in the precision that it chooses; a backend of sentence-transformers, too."""
    compiled, tokenizer = _compiled(folder)

    def encode() -> np.ndarray:
        read = dict(tokenizer(list(texts), padding=True, truncation=True, max_length=512, return_tensors="np"))
        states = compiled(read)[0]
        mask = read["attention_mask"][..., None]
        vectors = (states * mask).sum(axis=1) / mask.sum(axis=1)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return encode


@cache
def _compiled(folder: Path) -> tuple[Any, Any]:
    import openvino as ov

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    example = dict(tokenizer(["Two texts", "of other lengths"], padding=True, return_tensors="pt"))
    with torch.no_grad():
        return ov.Core().compile_model(ov.convert_model(model, example_input=example), "CPU"), tokenizer


def with_dynamic_cache(model: Model, texts: Sequence[str], steps: int) -> Encode:
    """Algorithm 1 with transformers' own modules and its DynamicCache, as most people would write it."""
    backbone = model.backbone

    def encode() -> Tensor:
        prompt = model.prompts(texts)
        mask, cache = prompt.mask, DynamicCache(config=backbone.model.config)
        positions = (mask.long().cumsum(dim=1) - 1).clamp_min(0)
        states = backbone.forward(backbone.embed(prompt.ids), mask=mask, positions=positions, cache=cache)
        read, generated = _prompt_part(model, prompt, states), []
        for step in range(steps):
            soft_token = torch.softmax(backbone.logits(states[:, -1]).float(), dim=-1)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            inputs = backbone.embed_soft(soft_token)[:, None]
            states = backbone.forward(inputs, mask=mask, positions=positions[:, -1:] + step + 1, cache=cache)
            generated.append(states[:, -1].float())
        return normalize(torch.stack(generated, dim=1).mean(dim=1) + read, dim=-1)

    return torch.inference_mode()(encode)


def without_cache(model: Model, texts: Sequence[str], steps: int) -> Encode:
    """Algorithm 1 as the released code runs it in training: the whole sequence again at every step."""
    backbone = model.backbone

    def encode() -> Tensor:
        prompt = model.prompts(texts)
        inputs, mask, prompt_length = backbone.embed(prompt.ids), prompt.mask, prompt.ids.shape[1]
        states = _read_whole(backbone, inputs, mask, prompt_length)
        read = _prompt_part(model, prompt, states)
        for _ in range(steps):
            soft_token = torch.softmax(backbone.logits(states[:, -1]).float(), dim=-1)
            inputs = torch.cat([inputs, backbone.embed_soft(soft_token)[:, None]], dim=1)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            states = _read_whole(backbone, inputs, mask, prompt_length)
        return normalize(states[:, prompt_length:].float().mean(dim=1) + read, dim=-1)

    return torch.inference_mode()(encode)


def _prompt_part(model: Model, prompt: Prompt, states: Tensor) -> Tensor | float:
    """What the states of prompts (B, N, D) add to the mean of the generated ones: their own mean, or nothing."""
    if model.contract.pooling != "residual":
        return 0.0
    weights = prompt.mask[..., None].float()
    return (states.float() * weights).sum(dim=1) / weights.sum(dim=1)


def _read_whole(backbone: Backbone, inputs: Tensor, mask: Tensor, prompt_length: int) -> Tensor:
    """States of prompts and generated positions together (B, T, D), without a cache."""
    places = torch.arange(inputs.shape[1], device=inputs.device)
    seen = (places[None, :] <= places[:, None]) | (backbone.attention == "prefix") & (places[None, :] < prompt_length)
    return backbone.body(
        inputs_embeds=inputs,
        attention_mask=seen & mask[:, None, None, :],
        position_ids=(mask.long().cumsum(dim=1) - 1).clamp_min(0),
        use_cache=False,
    ).last_hidden_state
