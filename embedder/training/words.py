"""Word bags for the grounding loss: which tokens a text should bring to mind, weighted by how rare they are."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Bags:
    """Sparse rows: token `ids[i]` belongs to text `rows[i]` with `weights[i]`; a row's weights sum to 1."""

    rows: Tensor
    ids: Tensor
    weights: Tensor


class WordIndex:
    """Inverse document frequencies of the vocabulary's word-like pieces; the other pieces are never a target."""

    def __init__(self, tokenizer: Tokenizer, sample: Iterable[str]) -> None:
        self._tokenizer = tokenizer
        size = tokenizer.get_vocab_size()
        self.word_like = torch.tensor([is_word_like(tokenizer.id_to_token(i) or "") for i in range(size)])
        counts: Counter[int] = Counter()
        total = 0
        for encoding in tokenizer.encode_batch(list(sample), add_special_tokens=False):
            counts.update(set(encoding.ids))
            total += 1
        self._idf = torch.tensor([math.log((total + 1) / (counts[i] + 1)) for i in range(size)])
        self._idf[~self.word_like] = 0.0

    def bags(self, weighted_texts: Sequence[Sequence[tuple[str, float]]]) -> Bags:
        """One bag per row of (text, share): the idf weights of each text's words sum to its share."""
        rows, ids, weights = [], [], []
        for row, parts in enumerate(weighted_texts):
            bag: dict[int, float] = defaultdict(float)
            for text, share in parts:
                tokens = set(self._tokenizer.encode(text, add_special_tokens=False).ids)
                idf = {token: float(self._idf[token]) for token in tokens if self._idf[token] > 0}
                total = sum(idf.values())
                for token, value in idf.items():
                    bag[token] += share * value / total
            total = sum(bag.values())
            for token, value in sorted(bag.items()):
                rows.append(row)
                ids.append(token)
                weights.append(value / total)
        return Bags(torch.tensor(rows, dtype=torch.long), torch.tensor(ids, dtype=torch.long), torch.tensor(weights))


def is_word_like(piece: str) -> bool:
    """Whether a person can read the piece as a word: letters only, at least two, not a continuation."""
    return len(piece) > 1 and piece.isascii() and piece.isalpha()
