"""A value reader: MiniLM whose upper layers read a text beside an instruction and the names of its values.

The lower layers are frozen and read every text, instruction and name alone; their states can be kept, so a known text
is read under another instruction for the cost of the upper layers. Without an instruction the vector is plain MiniLM's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

# Who looks at whom. A token of its own segment is looked at without a bias, as in plain MiniLM.
TEXT_TO_INSTRUCTION, TEXT_TO_NAMES, NAME_TO_INSTRUCTION = range(3)
RELATIONS = 3
_START_BIAS = (-3.0, -4.5, -3.0)  # little attention across segments at first, so that training begins at plain MiniLM
_PLAIN_SCALE = 20.0  # 1 / temperature of the cosines between plain vectors of texts and names


Beside = tuple[Tensor, Tensor, Tensor]  # keys and values (1 or B, H, C, d), bias (1 or B, H, 1, C)


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a BERT encoder."""

    layers: int
    hidden: int
    heads: int
    inner: int

    @classmethod
    def of(cls, base: Path) -> Shape:
        config = json.loads((base / "config.json").read_text(encoding="utf-8"))
        names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
        return cls(*(int(config[name]) for name in names))


class Layer(nn.Module):
    """A post-norm BERT layer whose tokens may look at tokens of other segments as well."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = 0.0  # of what attention and the inner layer add, in training
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden, eps=1e-12)
        self.up = nn.Linear(shape.hidden, shape.inner)
        self.down = nn.Linear(shape.inner, shape.hidden)
        self.last_norm = nn.LayerNorm(shape.hidden, eps=1e-12)

    def project(self, states: Tensor) -> Tensor:
        """(B, T, D) -> queries, keys, values (3, B, H, T, d)."""
        rows, length, _ = states.shape
        return self.qkv(states).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)

    def memory(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, D) -> keys and values (B, H, T, d), for others to look at."""
        rows, length, size = states.shape
        both = F.linear(states, self.qkv.weight[size:], self.qkv.bias[size:])
        keys, values = both.view(rows, length, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        return keys, values

    def forward(self, states: Tensor, mask: Tensor, beside: Sequence[Beside] = ()) -> Tensor:
        """states (B, T, D); mask (B, 1, 1, T), 0 or -inf."""
        rows, length, _ = states.shape
        queries, keys, values = self.project(states)
        bias = mask.to(queries.dtype)
        if beside:
            keys = torch.cat([keys, *(each[0].expand(rows, -1, -1, -1) for each in beside)], dim=2)
            values = torch.cat([values, *(each[1].expand(rows, -1, -1, -1) for each in beside)], dim=2)
            own = bias.expand(rows, self.heads, 1, length)
            bias = torch.cat([own, *(each[2].to(own.dtype).expand(rows, -1, -1, -1) for each in beside)], dim=3)
        read = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias.expand(-1, -1, length, -1))
        states = self.norm(states + self._dropped(self.out(read.transpose(1, 2).reshape(rows, length, -1))))
        return self.last_norm(states + self._dropped(self.down(F.gelu(self.up(states)))))

    def _dropped(self, states: Tensor) -> Tensor:
        return F.dropout(states, self.dropout, training=True) if self.dropout and self.training else states


class PlainEncoder(nn.Module):
    """MiniLM as it is, layer by layer."""

    def __init__(self, base: Path) -> None:
        super().__init__()
        self.shape = Shape.of(base)
        weights = load_file(base / "model.safetensors")
        weights = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}
        self.words = nn.Embedding.from_pretrained(weights["embeddings.word_embeddings.weight"])
        table = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        self.positions = nn.Parameter(table)
        self.norm = nn.LayerNorm(self.shape.hidden, eps=1e-12)
        self.norm.load_state_dict({kind: weights[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")})
        self.layers = nn.ModuleList(Layer(self.shape) for _ in range(self.shape.layers))
        for index, layer in enumerate(self.layers):
            layer.load_state_dict(_layer_weights(weights, f"encoder.layer.{index}."))
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(
        self, ids: Sequence[Sequence[int]], *, keep: int, layers: int | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """States after layer `keep`, (T, D) per text, and the plain vectors (B, D), L2-normalised.

        layers: how many are run; with fewer than all, the vectors are the means of the last of them.
        """
        lengths = [len(each) for each in ids]
        padded = pad_sequence([torch.tensor(each) for each in ids], batch_first=True)
        mask = padding_mask(lengths)
        states = self.norm(self.words(padded) + self.positions[: padded.shape[1]])
        kept = states
        for index, layer in enumerate(self.layers[:layers], start=1):
            states = layer(states, mask)
            kept = states if index == keep else kept
        return [row[:length] for row, length in zip(kept, lengths, strict=True)], pooled(states, mask)


def _layer_weights(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """A BERT layer's weights under the names of Layer."""
    places = {
        "out": "attention.output.dense",
        "norm": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "last_norm": "output.LayerNorm",
    }
    found: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        found |= {f"{own}.{kind}": weights[f"{prefix}{at}.{kind}"] for own, at in places.items()}
        parts = [weights[f"{prefix}attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
        found[f"qkv.{kind}"] = torch.cat(parts)
    return found


def padding_mask(lengths: Sequence[int]) -> Tensor:
    """(B, 1, 1, T): 0 at tokens, -inf at pads."""
    beyond = torch.arange(max(lengths))[None] >= torch.tensor(lengths)[:, None]
    return torch.zeros(beyond.shape).masked_fill(beyond, -math.inf)[:, None, None]


def pooled(states: Tensor, mask: Tensor) -> Tensor:
    """The mean of a row's tokens, L2-normalised: (B, T, D) -> (B, D)."""
    return F.normalize(masked_mean(states, mask), dim=-1)


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The mean of a row's tokens: (B, T, D) -> (B, D)."""
    kept = (mask[:, 0, 0] == 0).to(states.dtype)[..., None]
    return (states * kept).sum(1) / kept.sum(1)


@dataclass(frozen=True, slots=True)
class Lens:
    """An instruction and its names, read once. keys, values, bias: per layer, what a text looks at."""

    beside: tuple[tuple[Beside, ...], ...]
    names: Tensor | None  # V (M, D), L2-normalised
    soft: Tensor | None = None  # (M, D): what a soft token mixes, in the space of layer `keep`


class ValueReader(nn.Module):
    """The upper layers. They begin as MiniLM's own.

    A text is read once; then each refinement step adds one position, whose input is the soft token: the names, mixed by
    their probabilities so far. z_k is the mean of the text's states plus a learned share of the mean of g_1..g_k.
    """

    def __init__(self, base: PlainEncoder, *, upper: int = 3) -> None:
        super().__init__()
        self.upper = upper
        self.keep = base.shape.layers - upper  # the layer whose states it reads
        self.layers = nn.ModuleList(Layer(base.shape) for _ in range(upper))
        for own, layer in zip(self.layers, base.layers[self.keep :], strict=True):
            own.load_state_dict(layer.state_dict())
        start = torch.tensor(_START_BIAS)
        self.relations = nn.Parameter(start[None, :, None].repeat(upper, 1, base.shape.heads))  # (layers, relation, H)
        self.soft_place = nn.Parameter(torch.zeros(base.shape.hidden))
        self.share = nn.Parameter(torch.zeros(base.shape.hidden))  # of the generated states; none at first
        self.log_scale = nn.Parameter(torch.tensor(math.log(_PLAIN_SCALE)))

    @torch.no_grad()
    def move_to_plain(self, base: PlainEncoder, *, share: float) -> None:
        """Mixes MiniLM's own layers into the trained ones: 0 leaves them, 1 puts MiniLM's back."""
        for own, layer in zip(self.layers, base.layers[self.keep :], strict=True):
            for name, parameter in own.named_parameters():
                parameter.lerp_(layer.get_parameter(name), share)

    @property
    def trained(self) -> list[Layer]:
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def read_lens(self, instruction: Tensor, names: Sequence[Tensor], *, names_beside: bool) -> Lens:
        """instruction (T, D) and names (T_j, D): states of layer `keep`.

        names_beside: whether texts look at the names, or at the instruction alone.
        """
        states, mask = instruction[None], torch.zeros(1, 1, 1, len(instruction))
        beside: list[list[Beside]] = []
        name_states: Tensor | None = None
        name_mask: Tensor | None = None
        soft: Tensor | None = None
        if names:
            soft = torch.stack([each.mean(0) for each in names]) + self.soft_place
            name_states, name_mask = pad_sequence(list(names), batch_first=True), padding_mask([*map(len, names)])
        for index, layer in enumerate(self.trained):
            keys, values = layer.memory(states)
            length = states.shape[1]
            looked_at = [(keys, values, self._bias(index, TEXT_TO_INSTRUCTION, length))]
            if name_states is not None and name_mask is not None:
                if names_beside:
                    looked_at.append(self._names_of_layer(index, layer, name_states, name_mask))
                own = (keys, values, self._bias(index, NAME_TO_INSTRUCTION, length))
                name_states = layer(name_states, name_mask, [own])
            beside.append(looked_at)
            states = layer(states, mask)
        vectors = None if name_states is None or name_mask is None else pooled(name_states, name_mask)
        return Lens(tuple(tuple(each) for each in beside), vectors, soft)

    def read(self, texts: Sequence[Tensor], lens: Lens, *, steps: int = 0) -> Tensor:
        """texts (T_i, D): states of layer `keep`. Returns z_0..z_steps (steps + 1, B, D), L2-normalised.

        Steps need names.
        """
        states, mask = pad_sequence(list(texts), batch_first=True), padding_mask([len(each) for each in texts])
        looked_at: list[list[Beside]] = []
        for layer, beside in zip(self.trained, lens.beside, strict=True):
            if steps:
                keys, values = layer.memory(states)
                looked_at.append([(keys, values, mask.expand(-1, layer.heads, -1, -1)), *beside])
            states = layer(states, mask, beside)
        mean = masked_mean(states, mask)
        return self._refine(mean, looked_at, lens, steps) if steps else F.normalize(mean, dim=-1)[None]

    def _refine(self, mean: Tensor, looked_at: list[list[Beside]], lens: Lens, steps: int) -> Tensor:
        """Every position looks at the text, at what lies beside it, and at earlier positions, as a causal decoder."""
        if lens.names is None or lens.soft is None:
            raise ValueError(f"{steps} steps were asked for, but soft tokens mix names and the lens has none.")
        readings, said = [F.normalize(mean, dim=-1)], torch.zeros_like(mean)
        own = torch.zeros(len(mean), 1, 1, 1)
        for step in range(1, steps + 1):
            chances = self.scores(readings[-1].float(), lens.names.float()).softmax(1)  # s_k (B, M)
            states = (chances @ lens.soft)[:, None]  # d_k (B, 1, D)
            for layer, beside in zip(self.trained, looked_at, strict=True):
                keys, values = layer.memory(states)
                read = layer(states, own, beside)
                beside.append((keys, values, own.expand(-1, layer.heads, -1, -1)))
                states = read
            said = said + states[:, 0]
            readings.append(F.normalize(mean + self.share * said / step, dim=-1))
        return torch.stack(readings)

    def scores(self, vectors: Tensor, names: Tensor) -> Tensor:
        """Logits of names: (B, D), (M, D) -> (B, M)."""
        return self.log_scale.exp() * vectors @ names.T

    def _bias(self, index: int, relation: int, length: int) -> Tensor:
        return self.relations[index, relation][None, :, None, None].expand(1, -1, 1, length)

    def _names_of_layer(self, index: int, layer: Layer, states: Tensor, mask: Tensor) -> Beside:
        """All names' tokens as one row: (M, T, D) -> keys, values (1, H, n, d) and bias (1, H, 1, n)."""
        flat = states[mask[:, 0, 0] == 0][None]
        keys, values = layer.memory(flat)
        return keys, values, self._bias(index, TEXT_TO_NAMES, flat.shape[1])
