"""A run's checkpoint on disk: everything needed to resume a killed run exactly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from embedder.errors import DataError
from embedder.training.gradcache import RandomState

CHECKPOINT_FILE = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The state of a run. Batches are a pure function of (seed, step), so these two are the sampler's state."""

    step: int  # the next step
    seed: int
    data: str  # fingerprint of the training files
    processes: int  # each draws its own batches
    trainable: Mapping[str, Tensor]
    optimiser: Mapping
    schedule: Mapping


def save_checkpoint(folder: Path, checkpoint: TrainingState) -> None:
    """Writes atomically, so that a kill never leaves half a checkpoint; includes the random state."""
    numbers = RandomState()
    state = {name: getattr(checkpoint, name) for name in TrainingState.__slots__}
    state["random"] = {"torch": numbers.cpu, "cuda": list(numbers.cuda), "python": random.getstate()}
    temporary = folder / f"{CHECKPOINT_FILE}.tmp"
    torch.save(state, temporary)
    temporary.replace(folder / CHECKPOINT_FILE)


def load_checkpoint(folder: Path, *, seed: int, data: str, processes: int) -> TrainingState | None:
    """The run's last checkpoint; restores the random state. None if there is none yet.

    Raises DataError for other training files, another seed or another number of processes: the run could not continue
    exactly.
    """
    path = folder / CHECKPOINT_FILE
    if not path.is_file():
        return None
    state = torch.load(path, weights_only=True, map_location="cpu")
    if missing := sorted({*TrainingState.__slots__, "random"} - set(state)):
        raise DataError(f"{path} lacks {missing}: another version wrote it. Give another --out.")
    numbers = state.pop("random")
    checkpoint = TrainingState(**state)
    for name, saved, found in (
        ("seed", checkpoint.seed, seed),
        ("training data", checkpoint.data, data),
        ("number of processes", checkpoint.processes, processes),
    ):
        if saved != found:
            raise DataError(
                f"{path} was written with another {name} ({saved}, now {found}): batches would differ from "
                "the original run. Restore the original setting, or give another --out."
            )
    torch.set_rng_state(numbers["torch"])
    if len(numbers["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(numbers["cuda"])
    version, internal, gauss = numbers["python"]
    random.setstate((version, tuple(internal), gauss))
    return checkpoint


def load_weights(folder: Path) -> Mapping[str, Tensor]:
    """The trained weights of another run, for a stage that starts from them."""
    path = folder / CHECKPOINT_FILE
    if not path.is_file():
        raise DataError(f"{path} is missing: {folder} is not the folder of a run with a checkpoint.")
    return torch.load(path, weights_only=True, map_location="cpu")["trainable"]
