"""What GGUF files of each family say, in the words of transformers: config, names of weights, how they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedder.errors import ContractError

Metadata = Mapping[str, Any]  # of a GGUF file: its keys, and values that are no arrays

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
ROPE_FACTORS = "rope_freqs.weight"  # of Llama 3.1 and later: what each angle is slowed down by
_GEMMA_PATTERN = 6  # every 6th layer of Gemma 3 sees everything, the others a window
_LAYERS_OF_27B = 62  # alone among Gemma 3 it scales queries by hidden size over heads


@dataclass(frozen=True, slots=True)
class Family:
    """architecture: the class of transformers. norm_offset: what the file adds to the weights of norms.

    has_pairs: halves of a head that are rotated together lie side by side in the file, in queries and keys.
    """

    architecture: str
    model_type: str
    config: Callable[[Metadata, str], dict[str, Any]]  # what the family has beside what all have
    layer: Mapping[str, str]
    norm_offset: float = 0.0
    has_pairs: bool = False

    def name_of(self, tensor: str) -> str:
        """Of a weight in transformers. Raises ContractError for one that the family does not have."""
        parts = tensor.split(".")
        if len(parts) == 2 and parts[0] in _WHOLE:
            return f"{_WHOLE[parts[0]]}.{parts[1]}"
        if len(parts) == 4 and parts[0] == "blk" and parts[2] in self.layer:
            return f"model.layers.{parts[1]}.{self.layer[parts[2]]}.{parts[3]}"
        raise ContractError(
            f"The GGUF file holds {tensor!r}, which {self.architecture} as this version reads it does not have "
            "(experts, for instance, are not read). Take another file."
        )

    def restore(self, tensor: str, weight: np.ndarray, *, heads: int, key_heads: int) -> np.ndarray:
        """`weight` as transformers has it."""
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
    """Raises ContractError where positions are stretched in a way that is not known here."""
    base = {"rope_theta": metadata.get(f"{prefix}.rope.freq_base", 10_000.0)}
    kind = metadata.get(f"{prefix}.rope.scaling.type", "none")
    if kind == "linear":
        return {**base, "rope_type": "linear", "factor": metadata[f"{prefix}.rope.scaling.factor"]}
    if kind != "none":
        raise ContractError(f"The GGUF file stretches positions by {kind!r}; this version knows linear and none.")
    return {**base, "rope_type": "default"}


# By what `general.architecture` says. Mistral's files say llama, whose parts it has.
FAMILIES: Mapping[str, Family] = {
    "gemma3": Family("Gemma3ForCausalLM", "gemma3_text", _gemma_config, _GEMMA_LAYER, norm_offset=1.0),
    "llama": Family("LlamaForCausalLM", "llama", _plain_config, _LAYER, has_pairs=True),
    "qwen2": Family("Qwen2ForCausalLM", "qwen2", _plain_config, _LAYER),
    "qwen3": Family("Qwen3ForCausalLM", "qwen3", _plain_config, _LAYER),
}


def family_of(metadata: Metadata) -> Family:
    """Raises ContractError, with its name, for one that is not known."""
    name = str(metadata.get("general.architecture"))
    if name not in FAMILIES:
        raise ContractError(
            f"The GGUF file holds a model of the family {name!r}; this version reads {', '.join(sorted(FAMILIES))} "
            "(llama stands for Mistral, too)."
        )
    return FAMILIES[name]


def config_of(metadata: Metadata, *, vocabulary_size: int, is_tied: bool, rope_factors: list[float]) -> dict[str, Any]:
    """config.json. Everything that the file says is said, for defaults of transformers are those of one checkpoint.

    rope_factors: empty where the file has none.
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
        raise ContractError(f"The GGUF file does not say {error}. Get it again.") from error
    if rope_factors:
        # The frequencies themselves are divided, whatever the length: what transformers' longrope does with one list.
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
