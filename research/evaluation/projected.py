"""Hyper-CL beside what it stands between: the model's vectors without an instruction, and its reading under one."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from embedder.encoder import Encoder
from embedder.errors import ContractError
from embedder.evaluation.outcomes import Steps
from embedder.evaluation.stored_vectors import StoredVectors
from embedder.extensions.hyper_projection import PROJECTION_FILE, InstructionProjection, read_projection
from embedder.model.contract import sha256_of
from research.evaluation.systems import SystemEmbedder

PLAIN, READING, HYPER_CL = "Stored vectors", "Reading", "Hyper-CL"


def load_projection(folder: Path, encoder: Encoder) -> InstructionProjection:
    """Loads the projection in `folder`. Raises ContractError if there is none or it belongs to another model."""
    projection, model = read_projection(folder)
    path = folder / PROJECTION_FILE
    if model != encoder.fingerprint:
        raise ContractError(
            f"{path} was trained for the model with fingerprint {model}, but {encoder.name} has "
            f"{encoder.fingerprint}. Use the model that it was trained with."
        )
    if projection.dimension != encoder.dimension:
        raise ContractError(f"{path} projects {projection.dimension} dimensions, but vectors have {encoder.dimension}.")
    return projection


class ProjectedEncoder:
    """Embeds texts under instructions by projecting stored vectors; the model encodes only each instruction, once."""

    def __init__(self, stored: StoredVectors, projection: InstructionProjection) -> None:
        self.stored = stored
        self._projection = projection

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], *, instruction: str) -> np.ndarray:
        """Vectors (n, D) under the instruction, L2-normalised; without one, the stored vectors unchanged."""
        plain = self.stored.of(texts)
        if not instruction:
            return plain
        instruction_vector = self.stored.of([instruction])[0]
        projected: np.ndarray = self._projection(torch.from_numpy(plain), torch.from_numpy(instruction_vector)).numpy()
        return projected


class StoredEmbedder(SystemEmbedder):
    """The same vector of a text whatever the instruction. Its cost is that of texts that were not stored."""

    def __init__(self, encoder: Encoder, stored: StoredVectors) -> None:
        super().__init__(PLAIN, encoder, steps=1)
        self._stored = stored

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]:
        start = time.process_time()
        if read := self._stored.read(texts):
            self.cost.texts += read
            self.cost.seconds += time.process_time() - start
        return {None: self._stored.of(texts)}


class ReadingEmbedder(SystemEmbedder):
    """A pass of the model for each text and instruction, as searches look at passages again; without an instruction
    the stored vector. Its cost is that of the passes."""

    def __init__(self, encoder: Encoder, stored: StoredVectors, *, steps: int) -> None:
        super().__init__(READING, encoder, steps=steps)
        self._stored = stored

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]:
        if instruction:
            return super().embed(texts, instruction=instruction, steps=steps)
        return {None: self._stored.of(texts)}


class ProjectedEmbedder(SystemEmbedder):
    """Stored vectors, projected under the instruction. Its cost is that of projections and of the instructions' own
    passes: a text was read when it was stored."""

    def __init__(self, name: str, folder: Path, encoder: Encoder, stored: StoredVectors) -> None:
        super().__init__(name, encoder, steps=1)
        self._projected = ProjectedEncoder(stored, load_projection(folder, encoder))
        self._file = sha256_of(folder / PROJECTION_FILE)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{super().fingerprint}\0{self._file}".encode()).hexdigest()[:32]

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]:
        self._projected.stored.read(texts)
        start = time.process_time()
        found = self._projected.encode(texts, instruction=instruction)
        if instruction:
            self.cost.texts += len(texts)
            self.cost.seconds += time.process_time() - start
        return {None: found}


def open_projections(folders: Sequence[Path], encoder: Encoder, *, steps: int) -> list[SystemEmbedder]:
    """Stored vectors, the model's reading after `steps`, and a row for each projection, under its folder's name.

    Raises ContractError where a projection is of another model, or two have one name.
    """
    stored = StoredVectors(encoder)
    names = [f"{HYPER_CL} ({folder.resolve().name})" for folder in folders]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ContractError(f"Two of the projections are called {twice[0]!r}. Give one of them another folder.")
    projected = [ProjectedEmbedder(name, each, encoder, stored) for name, each in zip(names, folders, strict=True)]
    return [StoredEmbedder(encoder, stored), ReadingEmbedder(encoder, stored, steps=steps), *projected]
