"""Maps the GGUF files of each family to transformers: config, names of weights, and storage order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedder.errors import ContractError

Metadata = Mapping[str, Any]  # keys of a GGUF file and their values, without arrays

_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA_LAYER = {
    **_LAYER,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
ROPE_FACTORS = "rope_freqs.weight"  # Llama 3.1 and later: divisor of each rotary frequency
_GEMMA_PATTERN = 6  # every 6th layer of Gemma 3 attends to everything, the others to a window
_LAYERS_OF_27B = 62  # the only Gemma 3 that scales queries by hidden size / heads


@dataclass(frozen=True, slots=True)
class Family:
    """How the GGUF files of a family differ from transformers.

    architecture: transformers' class. norm_offset: added to norm weights in the file. has_pairs: the file interleaves
    the two rotary halves of each head, in queries and keys.
    """

    architecture: str
    model_type: str
    config: Callable[[Metadata, str], dict[str, Any]]  # config fields besides the common ones
    layer: Mapping[str, str]
    norm_offset: float = 0.0
    has_pairs: bool = False

    def name_of(self, tensor: str) -> str:
        """The weight's name in transformers. Raises ContractError if the family has no such weight."""
        parts = tensor.split(".")
        if len(parts) == 2 and parts[0] in _WHOLE:
            return f"{_WHOLE[parts[0]]}.{parts[1]}"
        if len(parts) == 4 and parts[0] == "blk" and parts[2] in self.layer:
            return f"model.layers.{parts[1]}.{self.layer[parts[2]]}.{parts[3]}"
        raise ContractError(
            f"The GGUF file holds {tensor!r}, which this version of {self.architecture} does not support "
            "(mixtures of experts, for instance). Use another file."
        )

    def restore(self, tensor: str, weight: np.ndarray, *, heads: int, key_heads: int) -> np.ndarray:
        """Converts `weight` to transformers' storage order."""
        part = tensor.split(".")[-2]
        if part.endswith("norm") and self.norm_offset:
            return weight - np.float32(self.norm_offset)
        if self.has_pairs and part in ("attn_q", "attn_k"):
            count = heads if part == "attn_q" else key_heads
            halves = weight.reshape(count, -1, 2, *weight.shape[1:]).swapaxes(1, 2)
            return np.ascontiguousarray(halves.reshape(weight.shape))
        return weight


def _plain_config(metadata: Metadata, prefix: str) -> dict[str, Any]:
    return {"rope_parameters": _rope(metadata, prefix)}


def _gemma_config(metadata: Metadata, prefix: str) -> dict[str, Any]:
    layers = metadata[f"{prefix}.block_count"]
    heads, head_size = metadata[f"{prefix}.attention.head_count"], _head_size(metadata, prefix)
    pattern = metadata.get(f"{prefix}.attention.sliding_window_pattern", _GEMMA_PATTERN)
    is_largest = layers == _LAYERS_OF_27B
    local = metadata.get(f"{prefix}.rope.freq_base_swa", 10_000.0)
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": metadata[f"{prefix}.embedding_length"] // heads if is_largest else head_size,
        "sliding_window": metadata[f"{prefix}.attention.sliding_window"],
        "layer_types": [
            "full_attention" if (layer + 1) % pattern == 0 else "sliding_attention" for layer in range(layers)
        ],
        "final_logit_softcapping": metadata.get(f"{prefix}.final_logit_softcapping"),
        "rope_parameters": {
            "full_attention": _rope(metadata, prefix),
            "sliding_attention": {"rope_type": "default", "rope_theta": local},
        },
    }


def _rope(metadata: Metadata, prefix: str) -> dict[str, Any]:
    """The config of rotary scaling. Raises ContractError for an unknown kind."""
    base = {"rope_theta": metadata.get(f"{prefix}.rope.freq_base", 10_000.0)}
    kind = metadata.get(f"{prefix}.rope.scaling.type", "none")
    if kind == "linear":
        return {**base, "rope_type": "linear", "factor": metadata[f"{prefix}.rope.scaling.factor"]}
    if kind != "none":
        raise ContractError(f"The GGUF file scales positions by {kind!r}; this version supports linear and none.")
    return {**base, "rope_type": "default"}


# By `general.architecture`. Mistral's files use llama, which has the same parts.
FAMILIES: Mapping[str, Family] = {
    "gemma3": Family("Gemma3ForCausalLM", "gemma3_text", _gemma_config, _GEMMA_LAYER, norm_offset=1.0),
    "llama": Family("LlamaForCausalLM", "llama", _plain_config, _LAYER, has_pairs=True),
    "qwen2": Family("Qwen2ForCausalLM", "qwen2", _plain_config, _LAYER),
    "qwen3": Family("Qwen3ForCausalLM", "qwen3", _plain_config, _LAYER),
}


def family_of(metadata: Metadata) -> Family:
    """The family of a file. Raises ContractError, with its name, if it is unknown."""
    name = str(metadata.get("general.architecture"))
    if name not in FAMILIES:
        raise ContractError(
            f"The GGUF file holds a model of the family {name!r}; this version reads {', '.join(sorted(FAMILIES))} "
            "(llama includes Mistral)."
        )
    return FAMILIES[name]


def config_of(metadata: Metadata, *, vocabulary_size: int, is_tied: bool, rope_factors: list[float]) -> dict[str, Any]:
    """Builds config.json. Sets every field explicitly: transformers' defaults belong to one particular checkpoint.

    rope_factors: empty if the file has none.
    """
    family, prefix = family_of(metadata), str(metadata["general.architecture"])
    try:
        heads = metadata[f"{prefix}.attention.head_count"]
        config = {
            "architectures": [family.architecture],
            "model_type": family.model_type,
            "vocab_size": vocabulary_size,
            "hidden_size": metadata[f"{prefix}.embedding_length"],
            "intermediate_size": metadata[f"{prefix}.feed_forward_length"],
            "num_hidden_layers": metadata[f"{prefix}.block_count"],
            "num_attention_heads": heads,
            "num_key_value_heads": metadata.get(f"{prefix}.attention.head_count_kv", heads),
            "head_dim": _head_size(metadata, prefix),
            "max_position_embeddings": metadata[f"{prefix}.context_length"],
            "rms_norm_eps": metadata[f"{prefix}.attention.layer_norm_rms_epsilon"],
            "tie_word_embeddings": is_tied,
            "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
            "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id"),
            "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
            "dtype": "float32",
            **family.config(metadata, prefix),
        }
    except KeyError as error:
        raise ContractError(f"The GGUF file lacks {error}. Get it again.") from error
    if rope_factors:
        # Divides the frequencies for all lengths, like transformers' longrope with a single list.
        config["rope_parameters"] |= {
            "rope_type": "longrope",
            "short_factor": rope_factors,
            "long_factor": rope_factors,
            "attention_factor": 1.0,
            "original_max_position_embeddings": config["max_position_embeddings"],
        }
    return config


def _head_size(metadata: Metadata, prefix: str) -> int:
    heads = metadata[f"{prefix}.attention.head_count"]
    return int(metadata.get(f"{prefix}.attention.key_length", metadata[f"{prefix}.embedding_length"] // heads))
