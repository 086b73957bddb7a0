"""Word bags for the grounding loss: the tokens that a text's soft tokens should contain, weighted by rarity."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from tokenizers import Tokenizer
from torch import Tensor

from embedder.model.prefill import on_device
from embedder.training.fragments import find_fragments

# The library's list also has these words, which carry meaning in a complaint, a film or a feeling.
_TELLING = {"amount", "bill", "call", "cry", "describe", "detail", "fire", "interest", "mill", "serious", "sincere"}
STOP_WORDS = ENGLISH_STOP_WORDS - _TELLING - {"name", "system"}


@dataclass(frozen=True, slots=True)
class Bags:
    """Sparse rows: piece `ids[i]` belongs to text `rows[i]` with `weights[i]`; a row's weights sum to 1."""

    rows: Tensor
    ids: Tensor
    weights: Tensor
    row_count: int  # number of texts with a non-empty bag

    def between(self, start: int, stop: int) -> Bags:
        """The bags of texts [start, stop), with rows counted from `start`."""
        inside = (self.rows >= start) & (self.rows < stop)
        rows = self.rows[inside] - start
        return Bags(rows, self.ids[inside], self.weights[inside], rows.unique().numel())

    def to(self, device: torch.device, pieces: Tensor | None = None) -> Bags:
        """Moves to a device. With `pieces`, converts ids to token ids: a model's own head covers the whole
        vocabulary."""
        ids = self.ids if pieces is None else pieces[self.ids]
        rows, ids, weights = (on_device(each, device) for each in (self.rows, ids, self.weights))
        return Bags(rows, ids, weights, self.row_count)


class WordIndex:
    """The pieces that soft tokens can express, and their rarity; only these are targets.

    size: number of word-like pieces to keep, the most frequent of the sample; None keeps all. left_out: pieces to drop.
    pieces: the pieces of an already trained head, to keep. `pieces` (n,) are their token ids in order; ids in a bag
    index into them.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        sample: Iterable[str],
        *,
        size: int | None = None,
        left_out: Collection[str] = (),
        pieces: Tensor | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        known = {tokenizer.id_to_token(i) or "": i for i in range(tokenizer.get_vocab_size())}
        words = [i for piece, i in known.items() if is_word_like(piece) and piece not in left_out]
        counts: Counter[int] = Counter()
        total = 0
        for encoding in tokenizer.encode_batch(list(sample), add_special_tokens=False):
            counts.update(set(encoding.ids))
            total += 1
        chosen = sorted(words, key=lambda i: (-counts[i], i))[:size] if pieces is None else pieces.tolist()
        kept = sorted(chosen)
        self.pieces = torch.tensor(kept, dtype=torch.long)
        self._place = {token: place for place, token in enumerate(kept)}
        self._idf = {token: math.log((total + 1) / (counts[token] + 1)) for token in kept}

    def bags(self, weighted_texts: Sequence[Sequence[tuple[str, float]]]) -> Bags:
        """One bag per row of (text, share): the idf weights of each text's words sum to its share."""
        rows, ids, weights = [], [], []
        texts = list(dict.fromkeys(text for parts in weighted_texts for text, _ in parts))
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        tokens_of = {text: set(each.ids) for text, each in zip(texts, encoded, strict=True)}
        for row, parts in enumerate(weighted_texts):
            bag: dict[int, float] = defaultdict(float)
            for text, share in parts:
                idf = {
                    self._place[token]: self._idf[token] for token in tokens_of[text] if self._idf.get(token, 0.0) > 0
                }
                total = sum(idf.values())
                for place, value in idf.items():
                    bag[place] += share * value / total
            total = sum(bag.values())
            for place, value in sorted(bag.items()):
                rows.append(row)
                ids.append(place)
                weights.append(value / total)
        numbers = torch.tensor(rows, dtype=torch.long), torch.tensor(ids, dtype=torch.long), torch.tensor(weights)
        return Bags(*numbers, row_count=len(set(rows)))


def empty_pieces(tokenizer: Tokenizer, texts: Iterable[str]) -> frozenset[str]:
    """Function words, and pieces that start longer words in these texts far more often than they stand alone."""
    pieces = [piece for piece in tokenizer.get_vocab() if is_word_like(piece)]
    return STOP_WORDS.union(find_fragments(tokenizer, texts, pieces))


def is_word_like(piece: str) -> bool:
    """Whether a person can read the piece as a word: only letters, at least two, not a continuation."""
    return len(piece) > 1 and piece.isascii() and piece.isalpha()
