"""Hyper-CL (Yoo et al. 2024): the instruction's vector determines a projection of stored text vectors.

So documents are embedded under a new instruction without running the model on them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from embedder.errors import ContractError
from embedder.model.module_files import read_weights, save_module

PROJECTION_FILE = "projection.safetensors"
KINDS = ("low_rank", "film")
_FORMAT = "1"


@dataclass(frozen=True, slots=True)
class ProjectionShape:
    """Kind and size of a projection. kind: `low_rank` or `film`. dimension: of vectors. width: the rank, or FiLM's
    hidden units."""

    kind: str
    dimension: int
    width: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ContractError(f"A projection's kind is {self.kind!r}; this version knows {', '.join(KINDS)}.")
        if min(self.dimension, self.width) < 1:
            raise ContractError(
                f"A projection has dimension {self.dimension} and width {self.width}, but both must be at least 1."
            )


class InstructionProjection(nn.Module):
    """Base class: adds a correction to each vector; the correction is zero before training."""

    def __init__(self, shape: ProjectionShape) -> None:
        super().__init__()
        self.shape = shape
        # Scale to entries of about 1, the range that layer initialisation expects.
        self._scale = shape.dimension**0.5

    @property
    def dimension(self) -> int:
        return self.shape.dimension

    def forward(self, vectors: Tensor, instruction: Tensor) -> Tensor:
        """vectors (n, D) and the instruction's vector (D,), L2-normalised, to (n, D), L2-normalised."""
        return F.normalize(vectors + self._change(vectors * self._scale, instruction * self._scale), dim=-1)

    def _change(self, vectors: Tensor, instruction: Tensor) -> Tensor:
        raise NotImplementedError


class LowRankProjection(InstructionProjection):
    """Hyper-CL's low-rank hypernetwork: A(c) and B(c), each linear in the instruction c, and W = I + A Bᵀ."""

    def __init__(self, shape: ProjectionShape) -> None:
        super().__init__(shape)
        size = shape.dimension * shape.width
        self.down, self.up = nn.Linear(shape.dimension, size), nn.Linear(shape.dimension, size)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def _change(self, vectors: Tensor, instruction: Tensor) -> Tensor:
        rank = self.shape.width
        down, up = self.down(instruction).view(-1, rank), self.up(instruction).view(rank, -1)
        # (n, D) (D, r) (r, D): never forms W itself.
        return vectors @ down @ up / vectors.shape[-1]


class FilmProjection(InstructionProjection):
    """A nonlinear projection: the instruction scales and shifts the text's hidden layer (FiLM, Perez et al. 2018)."""

    def __init__(self, shape: ProjectionShape) -> None:
        super().__init__(shape)
        self.text = nn.Linear(shape.dimension, shape.width)
        self.instruction = nn.Sequential(
            nn.Linear(shape.dimension, shape.width), nn.GELU(), nn.Linear(shape.width, 2 * shape.width)
        )
        self.out = nn.Linear(shape.width, shape.dimension)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def _change(self, vectors: Tensor, instruction: Tensor) -> Tensor:
        scale, shift = self.instruction(instruction).chunk(2)
        return self.out(F.gelu(self.text(vectors) * (1 + scale) + shift))


def build_projection(shape: ProjectionShape) -> InstructionProjection:
    """An untrained projection, initialised from torch's random state."""
    return (LowRankProjection if shape.kind == "low_rank" else FilmProjection)(shape)


def save_projection(projection: InstructionProjection, folder: Path, *, fingerprint: str) -> Path:
    """Saves atomically and returns the file. fingerprint: fingerprint of the model whose vectors it projects."""
    shape = projection.shape
    metadata = {"format": _FORMAT, "kind": shape.kind, "width": str(shape.width), "model": fingerprint}
    metadata["dimension"] = str(shape.dimension)
    folder.mkdir(parents=True, exist_ok=True)
    return save_module(projection, folder / PROJECTION_FILE, metadata=metadata)


def read_projection(folder: Path) -> tuple[InstructionProjection, str]:
    """The projection and the fingerprint of its model. Raises ContractError if the file is unreadable."""
    path = folder / PROJECTION_FILE
    if not path.is_file():
        raise ContractError(f"{path} is missing. Train one: python -m research.training.hyper_projection --help.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        weights = read_weights(path)
    except SafetensorError as error:
        raise ContractError(f"{path} cannot be read ({error}). Train it again.") from error
    if metadata.get("format") != _FORMAT:
        raise ContractError(f"{path} is not a projection, or of an unknown version. Train it again.")
    try:
        shape = ProjectionShape(metadata["kind"], int(metadata["dimension"]), int(metadata["width"]))
        projection = build_projection(shape)
        projection.load_state_dict(weights)
    except (KeyError, ValueError, RuntimeError) as error:
        raise ContractError(f"{path} is incomplete: {error}. Train it again.") from error
    return projection.eval().requires_grad_(False), metadata.get("model", "")
