"""Writes tiny GGUF files as llama.cpp's converter does: its names, its order of rotated halves, its norms."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tiny_models import TOKENIZER_FOLDER
from transformers import AutoModelForCausalLM, PretrainedConfig

ARCHITECTURES = {"gemma3": "gemma3", "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
_EXACT, _CONTROL, _BYTE = 1, 3, 6  # kinds of tokens
WORDS = "the water flows down to 2026 and the garden of words in time nothing is found"


def write_gguf(
    path: Path,
    family: str,
    config: PretrainedConfig,
    *,
    seed: int = 0,
    changes: dict[str, Any] | None = None,
    extra: dict[str, np.ndarray] | None = None,
) -> Any:
    """The model that was written, whose `down` weights are those that eight bits keep. changes: other metadata."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.add_(torch.randn_like(weight) * 0.2)
    name = ARCHITECTURES[family]
    writer = gguf.GGUFWriter(path, name)
    _add_config(writer, name, config)
    (_add_byte_level if name.startswith("qwen") else _add_sentencepiece)(writer, config.vocab_size)
    for key, value in (changes or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_uint32)(key, value)
    architecture = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == name)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    for weight_name, weight in model.state_dict().items():
        if weight_name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        written = names.get_name(weight_name, try_suffixes=(".weight", ".bias"))
        _add_weight(writer, written, weight, config, norm_offset=1.0 if name == "gemma3" else 0.0)
    for tensor, values in (extra or {}).items():
        writer.add_tensor(tensor, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _add_config(writer: gguf.GGUFWriter, name: str, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    if name in ("gemma3", "qwen3"):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if name == "llama":
        writer.add_rope_dimension_count(config.head_dim)
    if name == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern(config.layer_types.index("full_attention") + 1)


def _add_weight(writer: gguf.GGUFWriter, name: str, weight: torch.Tensor, config: Any, *, norm_offset: float) -> None:
    values = weight.detach().numpy()
    if "norm" in name:
        values = values + np.float32(norm_offset)
    if writer.arch == "llama" and (".attn_q." in name or ".attn_k." in name):
        heads = config.num_attention_heads if ".attn_q." in name else config.num_key_value_heads
        values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
    if ".ffn_down." in name:
        small = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
        with torch.no_grad():
            weight.copy_(torch.from_numpy(gguf.quants.dequantize(small, gguf.GGMLQuantizationType.Q8_0)))
        writer.add_tensor(name, small, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    else:
        writer.add_tensor(name, np.ascontiguousarray(values))


def _add_byte_level(writer: gguf.GGUFWriter, size: int) -> None:
    said = json.loads((TOKENIZER_FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = [""] * size
    for token, place in said["model"]["vocab"].items():
        tokens[place] = token
    kinds = [_EXACT] * size
    for added in said["added_tokens"]:
        tokens[added["id"]], kinds[added["id"]] = added["content"], _CONTROL
    tokens = [token or f"[PAD{place}]" for place, token in enumerate(tokens)]
    merges = [each if isinstance(each, str) else " ".join(each) for each in said["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(0)


def sentencepiece_vocabulary(size: int) -> tuple[list[str], list[float], list[int]]:
    """Tokens, scores and kinds: control, bytes, pieces of words (the sooner a pair is joined the higher), letters."""
    tokens, kinds = ["<pad>", "<eos>", "<bos>", "<unk>"], [_CONTROL] * 4
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    kinds += [_BYTE] * 256
    spelled = [f"▁{word}" for word in WORDS.split()]
    pieces = sorted(
        {word[:end] for word in spelled for end in range(2, len(word) + 1)}, key=lambda each: (len(each), each)
    )
    letters = sorted({letter for word in spelled for letter in word} | set("0123456789.:\n"))
    tokens += pieces + letters
    kinds += [_EXACT] * (len(tokens) - len(kinds))
    tokens += [f"<unused{place}>" for place in range(size - len(tokens))]
    kinds += [_CONTROL] * (size - len(kinds))
    first = tokens.index(pieces[0])
    return tokens, [float(first - place) if place >= first else 0.0 for place in range(size)], kinds


def _add_sentencepiece(writer: gguf.GGUFWriter, size: int) -> None:
    tokens, scores, kinds = sentencepiece_vocabulary(size)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(writer.arch == "llama")


def sentencepiece_ids(text: str, tokens: list[str], scores: list[float]) -> list[int]:
    """As sentencepiece defines it: the two neighbours that make the token of the highest score are joined, again and
    again; what is no token then is written in bytes."""
    places = {token: place for place, token in enumerate(tokens)}
    symbols = list(text.replace(" ", "▁"))
    while True:
        joined = [(scores[places[a + b]], -at) for at, (a, b) in enumerate(pairwise(symbols)) if a + b in places]
        if not joined:
            break
        at = -max(joined)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    ids: list[int] = []
    for symbol in symbols:
        known = symbol in places
        ids += [places[symbol]] if known else [places[f"<0x{byte:02X}>"] for byte in symbol.encode()]
    return ids
