"""States of texts after the frozen layers, computed when first needed and kept in memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor

from embedder.value_reader import PlainEncoder

_BATCH_TOKENS = 2048


class StateMemory:
    """text -> its states (T, D) after layer `keep`, in bf16, and its plain vector where that was asked for.

    Forgets the oldest states beyond `capacity` tokens.
    """

    def __init__(
        self, encoder: PlainEncoder, tokenizer: Tokenizer, *, keep: int, max_tokens: int, capacity: int
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._encoder, self._tokenizer = encoder, tokenizer
        self._keep, self._max_tokens, self._capacity = keep, max_tokens, capacity
        self._known: dict[str, Tensor] = {}
        self._plain: dict[str, Tensor] = {}
        self._tokens = 0

    def read(self, texts: Sequence[str]) -> None:
        """Reads what is not yet known, in large batches."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        new = dict(zip(missing, self._compute(missing, self._keep)[0], strict=True))
        self._known |= new
        self._tokens += sum(len(each) for each in new.values())

    def forget(self) -> None:
        """The oldest beyond the capacity. Between batches alone, so that a batch finds all that it has read."""
        while self._tokens > self._capacity:
            oldest = next(iter(self._known))
            self._tokens -= len(self._known.pop(oldest))

    def states(self, texts: Sequence[str]) -> list[Tensor]:
        """fp32."""
        return [self._known[text].float() for text in texts]

    def plain(self, texts: Sequence[str]) -> Tensor:
        """Plain vectors (B, D), L2-normalised."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._plain]
        self._plain |= zip(missing, self._compute(missing, self._encoder.shape.layers)[1], strict=True)
        return torch.stack([self._plain[text] for text in texts])

    def _compute(self, texts: Sequence[str], layers: int) -> tuple[list[Tensor], list[Tensor]]:
        ids = tokenise(self._tokenizer, texts, max_tokens=self._max_tokens) if texts else []
        states: list[Tensor] = [torch.empty(0)] * len(ids)
        vectors: list[Tensor] = [torch.empty(0)] * len(ids)
        for batch in batches_of([len(each) for each in ids]):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                rows, means = self._encoder([ids[place] for place in batch], keep=self._keep, layers=layers)
            for place, row, mean in zip(batch, rows, means, strict=True):
                states[place], vectors[place] = row.to(torch.bfloat16).clone(), mean.float().clone()
        return states, vectors


def tokenise(tokenizer: Tokenizer, texts: Sequence[str], *, max_tokens: int) -> list[list[int]]:
    """Ids with [CLS] and [SEP], the text cut where it is too long. The tokenizer neither cuts nor pads."""
    found = [each.ids for each in tokenizer.encode_batch(list(texts))]
    return [ids if len(ids) <= max_tokens else [*ids[: max_tokens - 1], ids[-1]] for ids in found]


def batches_of(lengths: Sequence[int], *, tokens: int = _BATCH_TOKENS) -> list[list[int]]:
    """Places of texts, longest first, in batches of about so many tokens."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    batches: list[list[int]] = []
    for place in order:
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > tokens:
            batches.append([])
        batches[-1].append(place)
    return batches
