"""A small decoder over MiniLM's last token states: a few positions look at a text, an instruction and names of values.

Its answer is added to the plain vector, by a weight that is zero at first: training begins at plain MiniLM.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from embedder.value_reader import (
    NAME_TO_INSTRUCTION,
    TEXT_TO_INSTRUCTION,
    TEXT_TO_NAMES,
    Beside,
    Lens,
    PlainEncoder,
    ValueReader,
    masked_mean,
    padding_mask,
    pooled,
)


class ValueDecoder(ValueReader):
    """The interface of ValueReader, from the states of the last layer."""

    def __init__(self, base: PlainEncoder, *, upper: int = 3) -> None:
        super().__init__(base, upper=upper)
        del self.soft_place, self.share  # its one position reads no soft token
        self.keep = base.shape.layers
        size = base.shape.hidden
        self.start = nn.Parameter(torch.zeros(size))
        self.start_norm = nn.LayerNorm(size)
        self.answer = nn.Linear(size, size, bias=False)
        nn.init.zeros_(self.answer.weight)

    def move_to_plain(self, base: PlainEncoder, *, share: float) -> None:
        """Its layers do not stand where MiniLM's do; its answer is what moves it away."""
        with torch.no_grad():
            self.answer.weight.mul_(1 - share)

    def read_lens(self, instruction: Tensor, names: Sequence[Tensor], *, names_beside: bool) -> Lens:
        looked_at: list[list[Beside]] = []
        of_names: list[list[Beside]] = []
        for index, layer in enumerate(self.trained):
            keys, values = layer.memory(instruction[None])
            length = len(instruction)
            looked_at.append([(keys, values, self._bias(index, TEXT_TO_INSTRUCTION, length))])
            of_names.append([(keys, values, self._bias(index, NAME_TO_INSTRUCTION, length))])
            if names and names_beside:
                keys, values = layer.memory(torch.cat(list(names))[None])
                looked_at[-1].append((keys, values, self._bias(index, TEXT_TO_NAMES, keys.shape[2])))
        vectors = self._decode(names, of_names) if names else None
        return Lens(tuple(tuple(each) for each in looked_at), vectors)

    def read(self, texts: Sequence[Tensor], lens: Lens, *, steps: int = 0) -> Tensor:
        """z (1, B, D). There is one step, whose input is the text's mean."""
        return self._decode(texts, lens.beside)[None]

    def _decode(self, texts: Sequence[Tensor], beside: Sequence[Sequence[Beside]]) -> Tensor:
        """(B, D), L2-normalised: one position looks at each text and at what lies beside."""
        memory, mask = pad_sequence(list(texts), batch_first=True), padding_mask([len(each) for each in texts])
        plain = pooled(memory, mask)
        states = self.start_norm(masked_mean(memory, mask)[:, None] + self.start)
        own = torch.zeros(len(texts), 1, 1, 1)
        for layer, shared in zip(self.trained, beside, strict=True):
            keys, values = layer.memory(memory)
            of_text = (keys, values, mask.expand(-1, layer.heads, -1, -1))
            states = layer(states, own, [of_text, *shared])
        return F.normalize(plain + self.answer(states[:, 0]), dim=-1)
