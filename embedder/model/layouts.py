"""Extracts the layout of a body from its modules: BERT, MPNet, and Llama and relatives (Mistral, Qwen2, Qwen3, and
Gemma 3, whose layers have two more norms)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from embedder.model.relative_places import RelativePlaces
from embedder.model.weight_formats import Linear, Product, linear_of

_PAD_ROWS = 2  # MPNet: the first position comes after the pad's


class UnknownLayoutError(Exception):
    """The body has unsupported parts; run it with transformers itself."""


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm in float32, like the states between layers; only matrix products use the weights' dtype."""

    weight: Tensor
    bias: Tensor | None  # None: a root-mean-square norm
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.bias is None:
            return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True)
class Layer:
    qkv: Product  # queries, keys and values packed: (heads + 2·key_heads)·head_size rows
    out: Product
    up: Product  # gate and up packed, if there is a gate
    down: Product
    attention_norm: Norm
    feed_norm: Norm
    query_norm: Norm | None = None  # per head
    key_norm: Norm | None = None
    attention_end_norm: Norm | None = None  # applied to the attention output before it is added
    feed_end_norm: Norm | None = None
    window: int | None = None  # number of positions that attention sees, including its own; None: all
    angles: str | None = None  # key of the rotary angles, if there are several


@dataclass(frozen=True, slots=True)
class Layout:
    layers: Sequence[Layer]
    heads: int
    key_heads: int
    head_size: int
    scaling: float
    gate: Product | None  # activation of the first half of `up`'s output; None if `up` includes its activation
    is_norm_first: bool
    places: tuple[Tensor, Norm] | None  # learned positions (P, D) and the norm after them
    rotary: nn.Module | None
    final_norm: Norm | None
    relative: RelativePlaces | None = None  # only within prompts; no steps can follow

    @property
    def has_windows(self) -> bool:
        return any(each.window is not None for each in self.layers)

    def enter(self, x: Tensor, positions: Tensor) -> Tensor:
        if self.places is None:
            return x
        table, norm = self.places
        return norm(x + table[positions])

    def angles(self, x: Tensor, positions: Tensor) -> dict[str | None, tuple[Tensor, Tensor] | None]:
        """Cosines and sines of the rotary angles (N, 1, head_size), shared by all heads; the keys are the layers'
        `angles`."""
        if self.rotary is None:
            return {None: None}
        found: dict[str | None, tuple[Tensor, Tensor] | None] = {}
        for name in {each.angles for each in self.layers}:
            cos, sin = self.rotary(x[None], positions[None], *(() if name is None else (name,)))  # (1, N, head_size)
            found[name] = cos[0, :, None, :], sin[0, :, None, :]
        return found

    def feed(self, layer: Layer, x: Tensor) -> Tensor:
        raised = layer.up(x)
        if self.gate is None:
            return layer.down(raised)
        gate, raised = raised.chunk(2, dim=-1)
        return layer.down(self.gate(gate) * raised)


def with_products(layout: Layout, weight_format: Callable[[Product], Product]) -> Layout:
    """The same layout with its matrices in another format."""
    layers = [
        replace(
            each,
            qkv=weight_format(each.qkv),
            out=weight_format(each.out),
            up=weight_format(each.up),
            down=weight_format(each.down),
        )
        for each in layout.layers
    ]
    return replace(layout, layers=layers)


def read_layout(model: nn.Module) -> Layout:
    """Reads the layout. Packs weights that belong together; the modules of `model` keep views of them.

    Raises UnknownLayoutError.
    """
    body: Any = model.base_model
    try:
        if not hasattr(body, "encoder"):
            return _read_llama(body)
        return _read_mpnet(body) if hasattr(body.encoder, "relative_attention_bias") else _read_bert(body)
    except AttributeError as error:
        raise UnknownLayoutError(f"{type(body).__name__}: {error}") from error


def _read_bert(body: Any) -> Layout:
    embeddings = body.embeddings
    if body.config.hidden_act != "gelu":
        raise UnknownLayoutError(f"{type(body).__name__}: the activation {body.config.hidden_act!r}")
    layers = []
    for each in body.encoder.layer:
        attention = each.attention.self
        layers.append(
            Layer(
                qkv=_packed(attention.query, attention.key, attention.value),
                out=linear_of(each.attention.output.dense),
                up=replace(linear_of(each.intermediate.dense), has_gelu=True),
                down=linear_of(each.output.dense),
                attention_norm=norm_of(each.attention.output.LayerNorm),
                feed_norm=norm_of(each.output.LayerNorm),
            )
        )
    # A prompt is one segment: add its embedding at every position.
    table = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
    return Layout(
        layers=layers,
        heads=attention.num_attention_heads,
        key_heads=attention.num_attention_heads,
        head_size=attention.attention_head_size,
        scaling=attention.scaling,
        gate=None,
        is_norm_first=False,
        places=(table, norm_of(embeddings.LayerNorm)),
        rotary=None,
        final_norm=None,
    )


def _read_mpnet(body: Any) -> Layout:
    config = body.config
    head_size = config.hidden_size // config.num_attention_heads
    layers = [
        Layer(
            qkv=_packed(each.attention.attn.q, each.attention.attn.k, each.attention.attn.v),
            out=linear_of(each.attention.attn.o),
            up=replace(linear_of(each.intermediate.dense), has_gelu=True),
            down=linear_of(each.output.dense),
            attention_norm=norm_of(each.attention.LayerNorm),
            feed_norm=norm_of(each.output.LayerNorm),
        )
        for each in body.encoder.layer
    ]
    return Layout(
        layers=layers,
        heads=config.num_attention_heads,
        key_heads=config.num_attention_heads,
        head_size=head_size,
        scaling=head_size**-0.5,
        gate=None,
        is_norm_first=False,
        # Skip the first rows, which are for pads.
        places=(body.embeddings.position_embeddings.weight[_PAD_ROWS:], norm_of(body.embeddings.LayerNorm)),
        rotary=None,
        final_norm=None,
        relative=RelativePlaces(body.encoder.relative_attention_bias.weight),
    )


def _read_llama(body: Any) -> Layout:
    config = body.config
    has_end_norms = hasattr(body.layers[0], "post_feedforward_layernorm")
    if getattr(body.layers[0].self_attn, "attn_logit_softcapping", None):
        raise UnknownLayoutError(f"{type(body).__name__}: capped attention")
    # Mistral states the window of all layers only in the config.
    all_layers_window = getattr(config, "sliding_window", None)
    layers = []
    for each in body.layers:
        attention, feed = each.self_attn, each.mlp
        layers.append(
            Layer(
                qkv=_packed(attention.q_proj, attention.k_proj, attention.v_proj),
                out=linear_of(attention.o_proj),
                up=_packed(feed.gate_proj, feed.up_proj),
                down=linear_of(feed.down_proj),
                attention_norm=norm_of(each.input_layernorm),
                feed_norm=norm_of(each.pre_feedforward_layernorm if has_end_norms else each.post_attention_layernorm),
                query_norm=norm_of(attention.q_norm) if hasattr(attention, "q_norm") else None,
                key_norm=norm_of(attention.k_norm) if hasattr(attention, "k_norm") else None,
                attention_end_norm=norm_of(each.post_attention_layernorm) if has_end_norms else None,
                feed_end_norm=norm_of(each.post_feedforward_layernorm) if has_end_norms else None,
                window=getattr(attention, "sliding_window", all_layers_window),
                angles=getattr(attention, "layer_type", None) if hasattr(body.rotary_emb, "layer_types") else None,
            )
        )
    return Layout(
        layers=layers,
        heads=config.num_attention_heads,
        key_heads=config.num_key_value_heads,
        head_size=attention.head_dim,
        scaling=attention.scaling,
        gate=feed.act_fn,
        is_norm_first=True,
        places=None,
        rotary=body.rotary_emb,
        final_norm=norm_of(body.norm),
    )


def _packed(*parts: nn.Linear) -> Linear:
    """Packs several linear layers into one matrix. They become views of it, to save memory."""
    weight = torch.cat([each.weight.detach() for each in parts])
    biases = [each.bias for each in parts]
    if any(each is None for each in biases) != all(each is None for each in biases):
        raise UnknownLayoutError("a bias on some projections only")
    bias = None if biases[0] is None else torch.cat([each.detach() for each in biases])
    start = 0
    for each in parts:
        end = start + each.weight.shape[0]
        each.weight.data = weight[start:end]
        if bias is not None:
            each.bias.data = bias[start:end]
        start = end
    return Linear(weight, bias)


def norm_of(module: Any) -> Norm:
    """A layer norm, or a root-mean-square norm. Gemma multiplies by 1 + weight and stores only the weight."""
    bias = getattr(module, "bias", None)
    weight = module.weight.detach().float()
    if bias is not None:
        return Norm(weight, bias.detach().float(), module.eps)
    is_gemma = hasattr(module, "eps")
    return Norm(weight + 1 if is_gemma else weight, None, module.eps if is_gemma else module.variance_epsilon)
