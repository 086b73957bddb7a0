"""A model as it is served, asked for what the measures need."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from embedder.encoder import Encoder
from embedder.hyper_projection import StoredVectors

_SCALE = 10.0  # 1 / τ of value distributions


class Reader:
    """A text is told by its vector under the instruction beside plain names, and by its plain vector beside names under
    the instruction, which is what `label_names` and `name_queries` train.

    steps: under an instruction. is_plain: nothing is read under an instruction, as of a model that knows none.
    """

    def __init__(self, encoder: Encoder, *, steps: int, is_plain: bool = False) -> None:
        self._encoder, self._steps, self._is_plain = encoder, steps, is_plain
        self._plain_steps = 0 if encoder.contract.min_steps == 0 else steps
        self._stored = StoredVectors(encoder, steps=self._plain_steps)

    @property
    def key(self) -> str:
        """Of its plain vectors: those of another model, or of other steps, are others."""
        return f"{self._encoder.fingerprint}-{self._plain_steps}"

    def plain(self, texts: Sequence[str]) -> Tensor:
        """Without an instruction: (B, D), L2-normalised."""
        return torch.from_numpy(self._stored.of(texts))

    def vectors(self, texts: Sequence[str], instruction: str) -> Tensor:
        """Under an instruction: (B, D), L2-normalised."""
        if self._is_plain:
            return self.plain(texts)
        return torch.from_numpy(self._encoder.encode_queries(texts, instruction=instruction, steps=self._steps))

    def scores(self, texts: Sequence[str], instruction: str, names: Sequence[str]) -> Tensor:
        """Logits of the named values: (B, M)."""
        by_text = self.vectors(texts, instruction) @ self.plain(names).T
        by_name = self.plain(texts) @ self.vectors(names, instruction).T
        return _SCALE * (by_text + by_name)
