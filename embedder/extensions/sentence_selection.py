"""Selects the sentences of a text to encode under an instruction, and detects retrieval instructions.

Both use vectors of the base model without an instruction. If a text's sentences are unrelated, the model skips those
that do not concern the instruction. Under a retrieval instruction it encodes the whole text, and the vector stays near
the base model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional as F

from embedder.errors import ContractError
from embedder.extensions.instruction_vectors import VectorTransform
from embedder.model.module_files import read_weights, save_module
from embedder.text.prompts import Frame, split_instructions, split_sentences
from embedder.text.relevance import MOST_ALIKE, mean_cosine

SELECTION_FILE = "selection.safetensors"

Ids = tuple[int, ...]  # token ids of a prompt


class SentenceSelector(nn.Module):
    """Two towers of one hidden layer over vectors of the base model (D), and a logistic regression over instructions.

    `most_alike`, `margin` and `plain_share` were chosen on the tuning half: docs/decisions/0067-sentence-selection.md.
    """

    most_alike: Tensor  # from this mean cosine of its sentences on, a text is encoded whole
    margin: Tensor  # keep sentences whose cosine with the instruction is at most this far below the best one
    plain_share: Tensor  # share of the base model's vector under a retrieval instruction

    def __init__(self, dimension: int, width: int) -> None:
        super().__init__()
        self.instruction = _Tower(dimension, width)
        self.sentence = _Tower(dimension, width)
        self.retrieval = nn.Linear(dimension, 1)
        for name, value in (("most_alike", MOST_ALIKE), ("margin", 0.05), ("plain_share", 0.4)):
            self.register_buffer(name, torch.tensor(value))

    @property
    def dimension(self) -> int:
        return self.retrieval.in_features

    def asks_for_retrieval(self, instruction: Tensor) -> bool:
        """Whether the instruction asks for retrieval. instruction: its plain vector (D,), L2-normalised."""
        return bool(self.retrieval(instruction.float()) > 0)

    def is_read(self, sentences: Tensor, instruction: Tensor) -> list[bool]:
        """For each sentence of a text, whether to encode it. Plain vectors (S, D) and (D,), L2-normalised."""
        sentences, count = sentences.float(), len(sentences)
        if count < 2 or bool(mean_cosine(sentences) >= self.most_alike):
            return [True] * count
        near = self.sentence(sentences) @ self.instruction(instruction.float())
        kept: list[bool] = (near >= near.max() - self.margin).tolist()
        return kept if any(kept) else [True] * count  # keep all if the vectors are not finite


class _Tower(nn.Module):
    """x to x + V gelu(U x), L2-normalised; V starts at zero."""

    def __init__(self, dimension: int, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(dimension, width, bias=False)
        self.up = nn.Linear(width, dimension, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors + self.up(F.gelu(self.down(vectors))), dim=-1)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The parts of one prompt: ids before the sentences, the sentences without marks, ids after them."""

    instruction: Ids
    head: Ids
    sentences: tuple[Ids, ...]
    end: Ids

    @classmethod
    def parse(cls, instruction: Ids, ids: Ids, frame: Frame) -> Self:
        head, sentences = split_sentences(ids)
        if not sentences:
            return cls(instruction, head, (), ())
        last = len(sentences[-1]) - len(frame.end)
        return cls(instruction, head, (*sentences[:-1], sentences[-1][:last]), sentences[-1][last:])

    def reading(self, is_read: Sequence[bool]) -> Ids:
        kept = (each for each, flag in zip(self.sentences, is_read, strict=True) if flag)
        return (*self.head, *chain.from_iterable(kept), *self.end)


@dataclass(frozen=True, slots=True)
class SelectedBatch:
    """Prompts for the model, the transform of their vectors, and which marked sentences they keep."""

    prompts: list[Ids]
    transform: VectorTransform | None  # None if it would change no row
    is_read: list[list[bool]]


def select_sentences(
    selector: SentenceSelector,
    frame: Frame,
    prompts: Sequence[Ids],
    *,
    own: Callable[[Ids], Tensor],
    read: Callable[[Sequence[Ids]], Tensor],
) -> SelectedBatch:
    """Selects sentences in a batch of prompts.

    own: returns the plain vector (D,) of an instruction by its ids. read: returns the plain vectors (N, D) of texts by
    their prompts. All are L2-normalised.
    """
    rows = [_Prompt.parse(*each, frame) for each in zip(*split_instructions(prompts), strict=True)]
    own_of = {ids: own(ids) for ids in dict.fromkeys(row.instruction for row in rows) if ids}
    retrieving = {ids for ids, vector in own_of.items() if selector.asks_for_retrieval(vector)}
    plain = [_plain_prompts(row, frame, is_whole=row.instruction in retrieving) for row in rows]
    counts = [len(each) for each in plain]
    vectors = read([*chain.from_iterable(plain)]).split(counts) if any(counts) else [None] * len(rows)
    is_read = [[True] * len(row.sentences) for row in rows]
    mixed: dict[int, Tensor] = {}
    for at, (row, found) in enumerate(zip(rows, vectors, strict=True)):
        if row.instruction in retrieving:
            mixed[at] = found[0]
        elif found is not None and len(found):
            is_read[at] = selector.is_read(found, own_of[row.instruction])
    readings = [row.reading(flags) for row, flags in zip(rows, is_read, strict=True)]
    return SelectedBatch(readings, _mixing(mixed, selector.plain_share) if mixed else None, is_read)


def _plain_prompts(row: _Prompt, frame: Frame, *, is_whole: bool) -> list[Ids]:
    """The prompts without an instruction whose vectors the selection needs: of the whole text, of its sentences, or
    none."""
    if is_whole:
        return [(*frame.begin, *chain.from_iterable(row.sentences), *frame.end)]
    if not row.instruction or len(row.sentences) < 2:
        return []
    return [(*frame.begin, *each, *frame.end) for each in row.sentences]


def _mixing(plain: dict[int, Tensor], share: Tensor) -> VectorTransform:
    """Mixes in the base model's vectors. plain: vector (D,) by row."""
    rows = list(plain)
    others = torch.stack([plain[row] for row in rows])[:, None]

    def transform(prefixes: Tensor) -> Tensor:
        prefixes = prefixes.clone()
        prefixes[rows] = F.normalize((1 - share) * prefixes[rows] + share * others, dim=-1)
        return prefixes

    return transform


def save_selector(selector: SentenceSelector, folder: Path) -> Path:
    """Saves atomically and returns the file."""
    return save_module(selector, folder / SELECTION_FILE)


def read_selector(folder: Path) -> SentenceSelector:
    """Loads a selector. Raises ContractError if the file is not one."""
    path = folder / SELECTION_FILE
    try:
        values = read_weights(path)
        width, dimension = values["sentence.down.weight"].shape
        selector = SentenceSelector(dimension, width)
        selector.load_state_dict(values)
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise ContractError(f"{path} is not a sentence selector ({error}). Get the checkpoint again.") from error
    return selector.eval().requires_grad_(False)
