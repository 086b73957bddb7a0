"""Readers that are measured alike: plain MiniLM and a trained value reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from tokenizers import Tokenizer
from torch import Tensor

from embedder.backbone import locate_model
from embedder.encoder import Encoder
from embedder.prompts import load_tokenizer
from embedder.training.value_reading.states import batches_of, tokenise
from embedder.value_reader import PlainEncoder, ValueReader

_MAX_TOKENS = 256
_BATCH = 64
_PLAIN_SCALE = 10.0  # 1 / τ of value distributions of plain vectors


class Reader(Protocol):
    def plain(self, texts: Sequence[str]) -> Tensor:
        """Without an instruction: (B, D), L2-normalised."""
        ...

    def vectors(self, texts: Sequence[str], instruction: str) -> Tensor:
        """Under an instruction: (B, D), L2-normalised."""
        ...

    def scores(self, texts: Sequence[str], instruction: str, names: Sequence[str]) -> Tensor:
        """Logits of the named values: (B, M)."""
        ...


class EncoderReader:
    """A model as it is served. A text is told by its vector under the instruction beside plain names, and by its plain
    vector beside names under the instruction, which is what `label_names` and `name_queries` train."""

    def __init__(self, encoder: Encoder, *, steps: int) -> None:
        self._encoder, self._steps = encoder, steps
        self._plain_steps = 0 if encoder.contract.min_steps == 0 else steps
        self._known: dict[str, Tensor] = {}

    def plain(self, texts: Sequence[str]) -> Tensor:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            vectors = torch.from_numpy(self._encoder.encode_documents(new, instruction="", steps=self._plain_steps))
            self._known |= zip(new, vectors, strict=True)
        return torch.stack([self._known[text] for text in texts])

    def vectors(self, texts: Sequence[str], instruction: str) -> Tensor:
        return torch.from_numpy(self._encoder.encode_queries(texts, instruction=instruction, steps=self._steps))

    def scores(self, texts: Sequence[str], instruction: str, names: Sequence[str]) -> Tensor:
        by_text = self.vectors(texts, instruction) @ self.plain(names).T
        by_name = self.plain(texts) @ self.vectors(names, instruction).T
        return _PLAIN_SCALE * (by_text + by_name)


class PlainReader:
    """MiniLM without any instruction. Keeps what it has read."""

    def __init__(self, encoder: PlainEncoder, tokenizer: Tokenizer, *, keep: int) -> None:
        self.encoder, self._tokenizer, self.keep = encoder, tokenizer, keep
        self._known: dict[str, tuple[Tensor, Tensor]] = {}
        tokenizer.no_truncation()
        tokenizer.no_padding()

    def plain(self, texts: Sequence[str]) -> Tensor:
        self._read(texts)
        return torch.stack([self._known[text][1] for text in texts])

    def states(self, texts: Sequence[str]) -> list[Tensor]:
        self._read(texts)
        return [self._known[text][0].float() for text in texts]

    def vectors(self, texts: Sequence[str], instruction: str) -> Tensor:
        return self.plain(texts)

    def scores(self, texts: Sequence[str], instruction: str, names: Sequence[str]) -> Tensor:
        return _PLAIN_SCALE * self.plain(texts) @ self.plain(names).T

    def save(self, path: Path) -> None:
        """Keeps what was read for the next measurement."""
        temporary = path.with_suffix(".tmp")
        torch.save(self._known, temporary)
        temporary.replace(path)

    def load(self, path: Path) -> None:
        if path.is_file():
            self._known = torch.load(path, weights_only=True)

    def _read(self, texts: Sequence[str]) -> None:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        ids = tokenise(self._tokenizer, missing, max_tokens=_MAX_TOKENS)
        for batch in batches_of([len(each) for each in ids]):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                states, vectors = self.encoder([ids[place] for place in batch], keep=self.keep)
            for place, row, vector in zip(batch, states, vectors, strict=True):
                self._known[missing[place]] = (row.to(torch.bfloat16).clone(), vector.float())


class TrainedReader:
    """A value reader.

    names_beside: whether its texts look at the names that are asked for; steps: refinement steps where there are names.
    """

    def __init__(self, model: ValueReader, plain: PlainReader, *, names_beside: bool, steps: int = 0) -> None:
        self._model, self._plain = model.eval(), plain
        self._names_beside, self._steps = names_beside, steps

    def plain(self, texts: Sequence[str]) -> Tensor:
        return self._plain.plain(texts)

    @torch.inference_mode()
    def vectors(self, texts: Sequence[str], instruction: str) -> Tensor:
        return self._read(texts, instruction, ())[0]

    @torch.inference_mode()
    def scores(self, texts: Sequence[str], instruction: str, names: Sequence[str]) -> Tensor:
        vectors, names_read = self._read(texts, instruction, names)
        return self._model.scores(vectors, names_read)

    def _read(self, texts: Sequence[str], instruction: str, names: Sequence[str]) -> tuple[Tensor, Tensor]:
        lens = self._model.read_lens(
            self._plain.states([instruction])[0], self._plain.states(names), names_beside=self._names_beside
        )
        states = self._plain.states(texts)
        out = torch.empty(len(texts), states[0].shape[1])
        order = sorted(range(len(texts)), key=lambda place: -len(states[place]))
        for start in range(0, len(order), _BATCH):
            places = order[start : start + _BATCH]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                read = self._model.read([states[place] for place in places], lens, steps=self._steps if names else 0)
            out[places] = read[-1].float()
        return out, out if lens.names is None else lens.names


def load_plain_reader(base: str, *, keep: int) -> PlainReader:
    folder = locate_model(base)
    return PlainReader(PlainEncoder(folder), load_tokenizer(folder), keep=keep)
