"""A model as it is served, asked for what the measures need."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from embedder.encoder import Encoder
from embedder.evaluation.stored_vectors import StoredVectors
from embedder.text.mentions import mentions
from embedder.text.relevance import Parts

_SCALE = 10.0  # 1 / τ of value distributions
_BOTH, _MENTION = 0.5, 0.2  # of joined sums; chosen on the tuning half for gircse-small


class Reader:
    """A text is told by its vector under the instruction beside plain names, and by its plain vector beside names under
    the instruction, which is what `label_names` and `name_queries` train.

    steps: under an instruction. is_plain: nothing is read under an instruction, as of a model that knows none.
    is_joined: both under the instruction count for half as much in addition, and a name that the text says is nearer.
    reads_sentences: values are read as by re-rankers, sentence by sentence where a text says unrelated things.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        steps: int,
        is_plain: bool = False,
        is_joined: bool = False,
        reads_sentences: bool = False,
    ) -> None:
        self._reads_sentences = reads_sentences
        self._encoder, self._steps, self._is_plain, self._is_joined = encoder, steps, is_plain, is_joined
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
        parts = Parts.of(texts) if self._reads_sentences else Parts(tuple(texts))
        parts, stored = parts.unrelated(self.plain(parts.to_embed(names, instruction)).numpy())
        plain, count = torch.from_numpy(stored), len(parts.texts)
        of_texts, of_names = self.vectors(parts.texts, instruction), self.vectors(names, instruction)
        total = of_texts @ plain[count : count + len(names)].T + plain[:count] @ of_names.T
        if self._is_joined:
            said = torch.from_numpy(mentions(parts.texts, names)).to(total)
            total = total + _BOTH * of_texts @ of_names.T + _MENTION * said
        if parts.owners:
            near = of_texts[len(texts) :] @ plain[-1]
            total = torch.from_numpy(parts.join(total.numpy(), near.numpy())).to(total)
        return _SCALE * total
