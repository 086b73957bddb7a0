"""Shows refinement tokens to people: the most probable words of every soft token, without the tokenizer's marks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from embedder.errors import TextError
from embedder.refinement_steps import MAX_BIAS, RefinementStep, RefinementToken
from embedder.text.prompts import check_surrogates

# of a model: pieces that start longer words but are not words themselves; one per line
FRAGMENTS_FILE = "fragments.txt"
_WORD_MARKS = ("##", "Ġ", "▁")
_BYTE_LEVEL_MARK = "Ġ"


class TopTokens:
    """Observes soft tokens and keeps, per step, the ids and probabilities of the `count` most probable.

    ids: the token ids (n,) of a soft token's entries; None means the whole vocabulary.
    """

    def __init__(self, count: int, ids: Tensor | None = None) -> None:
        self._count = count
        self._ids = ids
        self._kept: list[tuple[Tensor, Tensor]] = []

    def __call__(self, step: int, soft_token: Tensor) -> None:
        top = soft_token.topk(min(self._count, soft_token.shape[-1]), dim=-1)
        ids = top.indices if self._ids is None else self._ids[top.indices]
        self._kept.append((ids.cpu(), top.values.cpu()))

    def steps_of(self, row: int, read: Callable[[int], str]) -> tuple[RefinementStep, ...]:
        """The readable steps of one row. read: returns the readable word of a token id; empty to skip it."""
        return tuple(
            RefinementStep(number, _readable(ids[row].tolist(), values[row].tolist(), read))
            for number, (ids, values) in enumerate(self._kept, start=1)
        )


def _readable(ids: list[int], probabilities: list[float], read: Callable[[int], str]) -> tuple[RefinementToken, ...]:
    """Lower-cases words and strips marks; adds up pieces that become the same word (section 5.2)."""
    words: dict[str, float] = {}
    for token_id, probability in zip(ids, probabilities, strict=True):
        word = read(token_id)
        if word:
            words[word] = words.get(word, 0.0) + probability
    ranked = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    return tuple(RefinementToken(word, probability) for word, probability in ranked)


def word_of(token_id: int, tokenizer: Tokenizer) -> str:
    """The readable word of a token id: lower case, no word marks, bytes decoded."""
    piece = tokenizer.id_to_token(token_id) or ""
    if piece.startswith(_WORD_MARKS[0]):
        piece = piece[2:]
    elif not piece.startswith(("[", "<")):
        piece = tokenizer.decode([token_id], skip_special_tokens=False) or piece
    return piece.replace(_BYTE_LEVEL_MARK, "").replace("▁", "").strip().lower()


def shown_word_of(token_id: int, tokenizer: Tokenizer, *, fragments: Collection[str]) -> str:
    """Like `word_of`, but empty for pieces inside a word and for `fragments`."""
    piece = tokenizer.id_to_token(token_id) or ""
    return "" if piece.startswith(_WORD_MARKS[0]) or piece in fragments else word_of(token_id, tokenizer)


def read_fragments(folder: Path) -> frozenset[str]:
    """The fragments of the model in `folder`; empty if `embedder.training.fragments` was not run."""
    file = folder / FRAGMENTS_FILE
    return frozenset(file.read_text(encoding="utf-8").split()) if file.is_file() else frozenset()


def bias_vector(
    token_bias: Mapping[str, float], tokenizer: Tokenizer, vocabulary_size: int, ids: Tensor | None = None
) -> Tensor:
    """Logit bias (n,): applies each word's number to all its pieces, both at the start of a text and after a space.

    ids: as in TopTokens. Raises TextError for an empty or invalid word, a number outside [-10, 10], or a word without
    pieces.
    """
    bias = torch.zeros(vocabulary_size)
    spoken = set(range(vocabulary_size) if ids is None else ids.tolist())
    for word, value in token_bias.items():
        if not word.strip():
            raise TextError("A token bias has an empty word. Give a word such as 'price'.")
        check_surrogates(word, "A word of the token bias")
        if not -MAX_BIAS <= value <= MAX_BIAS:  # also refuses NaN
            raise TextError(f"The bias of {word!r} is {value}, but must be within [{-MAX_BIAS:g}, {MAX_BIAS:g}].")
        pieces = {
            token_id
            for form in (word, f" {word}", word.lower(), f" {word.lower()}")
            for token_id in tokenizer.encode(form, add_special_tokens=False).ids
            if token_id in spoken and word_of(token_id, tokenizer)
        }
        if not pieces:
            raise TextError(f"The model's soft tokens cannot express the word {word!r}. Choose another word.")
        bias[sorted(pieces)] += value
    return bias if ids is None else bias[ids.cpu()]
