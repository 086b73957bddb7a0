"""Everything that decides what a training run does, read from one YAML file and saved beside the weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import yaml

from embedder.training.data import DataError
from embedder.training.sampling import Mixture

# The two published variants of the objective (method, "Training"); anything may be overridden.
PRESETS = {
    "paper": {
        "reduction": "sum",
        "regulariser_weight": 1.0,
        "lora_rank": 64,
        "lora_alpha": 32,
        "lora_dropout": 0.0,
        "warmup": 0.1,
    },
    "released": {
        "reduction": "mean",
        "regulariser_weight": 1.0,
        "lora_rank": 16,
        "lora_alpha": 64,
        "lora_dropout": 0.1,
        "warmup": 0.03,
    },
}


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Learning rates are per optimiser step; lengths are prompt tokens; `warmup` is a share of all steps."""

    name: str
    base: str
    optimiser_steps: int  # length of the learning-rate schedule
    mixture: Mixture
    attention: str = "causal"
    pooling: str = "mean"
    template: str = "official"
    head: str = "lm_head"
    soft_vocabulary: int | None = None  # pieces of a soft head: the most frequent word-like ones; None takes them all
    stop_after: int | None = None  # steps really taken, where a stage ends before its schedule does
    seed: int = 1
    temperature: float = 0.02  # τ of Eq 7
    reduction: str = "mean"
    regulariser_weight: float = 1.0  # λ
    regulariser_margin: float = 0.0
    rising: float = 0.0
    supervise: str = "every"  # `last`: the contrastive loss of z_K alone, without stepwise supervision
    distillation_weight: float = 0.0
    free_document_share: float = 0.5  # of the distillation weight, on documents whose queries carry an instruction
    grounding_weight: float = 0.0
    coverage_weight: float = 0.0  # against soft tokens that say again what earlier steps said
    lora_rank: int = 64
    lora_alpha: int = 64
    lora_dropout: float = 0.0
    learning_rate: float = 1e-5
    head_learning_rate: float = 1e-3
    warmup: float = 0.03
    max_gradient_norm: float = 1.0
    train_length: int = 72
    long_train_length: int = 128  # of the pair batches that are drawn as long ones
    max_length: int = 256
    head_warmup_texts: int = 0
    head_warmup_epochs: int = 4
    query_steps: int = 20
    document_steps: int = 5
    checkpoint_every: int = 100
    validate_every: int = 200
    skip_tasks: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.supervise not in ("every", "last"):
            raise ValueError(f"supervise is {self.supervise!r}, but must be 'every' or 'last'.")

    def to_yaml(self) -> str:
        plain = asdict(self)
        plain["mixture"]["steps"] = list(self.mixture.steps)
        plain["skip_tasks"] = list(self.skip_tasks)
        return yaml.safe_dump(plain, sort_keys=False)


def read_config(path: Path) -> TrainConfig:
    """Raises DataError that names the wrong key."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise DataError(f"{path} is not a mapping of settings.")
    return parse_config(data, source=str(path))


def parse_config(data: dict, *, source: str) -> TrainConfig:
    """Raises DataError that names `source` and the wrong key."""
    data = dict(data)
    preset = data.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise DataError(f"{source}: preset is {preset!r}; there are {', '.join(PRESETS)}.")
    data = {**PRESETS.get(preset, {}), **data}
    if unknown := sorted(set(data) - {each.name for each in fields(TrainConfig)}):
        raise DataError(f"{source}: unknown settings {unknown}.")
    try:
        mixture = dict(data.pop("mixture"))
        if "steps" in mixture:
            mixture["steps"] = tuple(mixture["steps"])
        data["skip_tasks"] = tuple(data.get("skip_tasks", ()))
        return TrainConfig(mixture=Mixture(**mixture), **data)
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(f"{source}: {error}.") from error
