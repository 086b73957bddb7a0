"""All settings of a training run, read from one YAML file and saved beside the weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import yaml

from embedder.errors import ContractError, DataError
from embedder.model.contract import SIMILARITIES, check_context
from embedder.model.refine import PROMPT_POOLINGS
from embedder.training.compute import DEVICES, PRECISIONS
from embedder.training.sampling import Batch, Mixture

CONFIG_FILE = "config.yaml"
TUNINGS = ("lora", "full", "head")
OBJECTIVES = ("contrastive", "reconstruction")
# Settings of contrastive training that reconstruction does not have.
_CONTRASTIVE_ALONE = (
    "context_encoder",
    *("distillation_weight", "grounding_weight", "coverage_weight", "privileged_weight"),
    "instruction_negative_weight",
    *("plain_documents", "false_negative_margin", "matryoshka", "chunk_size"),
)
CHECKPOINTING_REFUSED = (
    "gradient_checkpointing breaks training through the KV cache: transformers drops the cache inside "
    "checkpointed layers, so every refinement step would forget the prompt. Turn it off and set chunk_size, which "
    "bounds memory and gives the exact gradient of the whole batch"
)
_TUPLES = ("skip_tasks", "matryoshka")
# Fields that may change when a run continues: they affect where and how fast it computes, not the result.
_MAY_CHANGE = ("device", "chunk_size", "checkpoint_every", "validate_every")
# The two published variants of the objective (method, "Training"); a config may override any field.
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
    """All settings of a run.

    Learning rates are per optimiser step, lengths in prompt tokens; `warmup` is a share of all steps.
    """

    name: str
    base: str
    optimiser_steps: int  # length of the learning-rate schedule
    mixture: Mixture
    language: str | None = None  # the only language of the training data, by its English name
    attention: str = "causal"
    pooling: str = "mean"
    template: str = "official"
    head: str = "lm_head"
    # Causal2Vec: frozen encoder of the contextual token, for a template that has one
    context_encoder: str | None = None
    soft_vocabulary: int | None = None  # pieces of a soft head: the most frequent word-like ones; None: all
    content_words: bool = False  # exclude function words and pieces that only start longer words from the soft head
    stop_after: int | None = None  # stop at this step, before the end of the schedule
    seed: int = 1
    objective: str = "contrastive"  # or `reconstruction`: stage I of Anchor embedding
    reconstruction_alpha: float = 0.2  # α of Anchor's Eq 5: the share of L_Q2D
    # τ of Eq 7, or τ_1, τ_2, …; the last value applies to all later steps
    temperature: float | tuple[float, ...] = 0.02
    similarity: str = "cosine"  # `max_sim`: a query's last step against a document's best one, as in DEBATER
    reduction: str = "mean"
    regulariser_weight: float = 1.0  # λ
    regulariser_margin: float = 0.0
    rising: float = 0.0
    supervise: str = "every"  # `last`: contrastive loss of z_K only, without stepwise supervision
    distillation_weight: float = 0.0
    plain_documents: bool = False  # documents without an instruction use the base's vectors; see `Objective`
    free_document_share: float = 0.5  # share of the distillation weight for documents whose queries have an instruction
    grounding_weight: float = 0.0
    coverage_weight: float = 0.0  # penalises soft tokens that repeat earlier steps
    # λ2 of LaSER: a reading of the query with its labels teaches the query alone; e.g. 10
    privileged_weight: float = 0.0
    privileged_step_weight: float = 0.1  # λ3, of the divergence per step
    instruction_negative_weight: float = 0.0  # for queries under an instruction that makes their document irrelevant
    false_negative_margin: float | None = None  # drops candidates that the base finds nearer than positive - margin
    matryoshka: tuple[int, ...] = ()  # shorter prefixes of the vector to train too, besides the whole one
    tuning: str = "lora"  # `full`: all weights of the body; `head`: the soft head over a frozen LoRA
    lora_rank: int = 64
    lora_alpha: int = 64
    lora_dropout: float = 0.0
    learning_rate: float = 1e-5
    head_learning_rate: float = 1e-3
    warmup: float = 0.03
    max_gradient_norm: float = 1.0
    train_length: int = 72
    long_train_length: int = 128  # for pair batches drawn as long ones
    max_length: int = 256
    head_warmup_texts: int = 0
    head_warmup_epochs: int = 4
    query_steps: int = 20
    document_steps: int = 5
    checkpoint_every: int = 100
    validate_every: int = 200
    skip_tasks: tuple[str, ...] = field(default=())
    with_aspects: bool = False  # also train on the hand-written aspects of aspects.jsonl.gz
    batches_per_step: int = 1  # each of one task, embedded together; their losses are averaged
    chunk_size: int | None = None  # texts per forward pass; the gradient equals the whole batch's
    gradient_checkpointing: bool = False  # rejected: it breaks training through the KV cache
    device: str = "auto"
    precision: str = "fp32"

    def __post_init__(self) -> None:
        for name, known in (
            ("objective", OBJECTIVES),
            ("supervise", ("every", "last")),
            ("similarity", SIMILARITIES),
            ("tuning", TUNINGS),
            ("device", DEVICES),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, but must be one of {', '.join(known)}")
        if self.tuning == "head" and self.head != "soft_head":
            raise ValueError(f"tuning is 'head', which trains only a soft_head, but head is {self.head!r}")
        if self.gradient_checkpointing:
            raise ValueError(CHECKPOINTING_REFUSED)
        if self.batches_per_step < 1 or (self.batches_per_step > 1 and self.chunk_size is not None):
            raise ValueError(
                f"batches_per_step is {self.batches_per_step}, but must be at least 1, and 1 where chunk_size is set"
            )
        if self.plain_documents and (self.chunk_size is not None or not self.distillation_weight):
            raise ValueError("plain_documents needs distillation_weight above 0, and no chunk_size")
        if self.privileged_weight and (self.chunk_size is not None or self.pooling in PROMPT_POOLINGS):
            raise ValueError("privileged_weight needs a pooling over generated states, and no chunk_size")
        if self.instruction_negative_weight and self.chunk_size is not None:
            raise ValueError("instruction_negative_weight needs whole batches: remove chunk_size")
        if self.similarity == "max_sim":
            self._check_max_sim()
        check_context(self.template, self.pooling, self.context_encoder, "settings")
        if self.context_encoder and (self.tuning != "lora" or self.head == "none" or self.distillation_weight):
            raise ValueError("context_encoder needs tuning 'lora', a head, and no distillation_weight")
        if self.objective == "reconstruction":
            self._check_reconstruction()
        if self.chunk_size is not None and self.chunk_size < 1:
            raise ValueError(f"chunk_size is {self.chunk_size}, but must be at least 1, or null for whole batches")
        taus = self.temperature if isinstance(self.temperature, tuple) else (self.temperature,)
        if not taus or min(taus) <= 0:
            raise ValueError(f"temperature is {self.temperature}, but must be above 0 at every step")
        if any(size < 1 for size in self.matryoshka):
            raise ValueError(f"matryoshka is {list(self.matryoshka)}, but every dimension must be at least 1")

    def _check_max_sim(self) -> None:
        """max_sim needs a vector per step for documents; rejects settings that compare documents by their last
        vector."""
        if self.pooling in PROMPT_POOLINGS:
            raise ValueError(f"similarity is 'max_sim', but pooling {self.pooling!r} gives only one vector")
        refused = ("plain_documents", "privileged_weight", "instruction_negative_weight")
        if self.objective == "reconstruction" or any(getattr(self, name) for name in refused):
            without = ", ".join(f"no {name}" for name in refused)
            raise ValueError(f"similarity 'max_sim' needs objective 'contrastive', {without}")

    def _check_reconstruction(self) -> None:
        if self.head != "lm_head":
            raise ValueError(f"objective is 'reconstruction', which needs head: lm_head, but head is {self.head!r}")
        if unused := [name for name in _CONTRASTIVE_ALONE if getattr(self, name)]:
            raise ValueError(f"objective is 'reconstruction', which does not use {', '.join(unused)}: remove them")
        if not 0 <= self.reconstruction_alpha <= 1:
            raise ValueError(f"reconstruction_alpha is {self.reconstruction_alpha}, but must be from 0 to 1")

    def texts_of(self, batch: Batch) -> int:
        """How many texts of a batch are encoded; reconstruction skips hard negatives."""
        documents = batch.queries if self.objective == "reconstruction" else batch.documents
        return len(batch.queries) + len(documents)

    def to_yaml(self) -> str:
        plain = asdict(self)
        plain["mixture"]["steps"] = list(self.mixture.steps)
        for name in (*_TUPLES, "temperature"):
            if isinstance(plain[name], tuple):
                plain[name] = list(plain[name])
        return yaml.safe_dump(plain, sort_keys=False)


def check_room(config: TrainConfig, *, positions: int) -> None:
    """Raises DataError unless the base has enough positions for `max_length` tokens plus the steps."""
    steps = max(config.query_steps, config.document_steps, 1)
    if (most := positions - steps) < config.max_length:
        raise DataError(
            f"max_length is {config.max_length}, but {steps} of the base's {positions} positions are for steps. "
            f"Set max_length to {most} at most."
        )


def read_config(path: Path) -> TrainConfig:
    """Reads and checks a YAML config. Raises DataError with the invalid key."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise DataError(f"{path} is not a mapping of settings.")
    return parse_config(data, source=str(path))


def parse_config(data: dict, *, source: str) -> TrainConfig:
    """Parses and checks settings. Raises DataError with `source` and the invalid key."""
    data = dict(data)
    preset = data.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise DataError(f"{source}: preset is {preset!r}; the presets are {', '.join(PRESETS)}.")
    data = {**PRESETS.get(preset, {}), **data}
    if unknown := sorted(set(data) - {each.name for each in fields(TrainConfig)}):
        raise DataError(f"{source}: unknown settings {unknown}.")
    try:
        mixture = dict(data.pop("mixture"))
        if "steps" in mixture:
            mixture["steps"] = tuple(mixture["steps"])
        for name in _TUPLES:
            data[name] = tuple(data.get(name) or ())
        if isinstance(data.get("temperature"), list):
            data["temperature"] = tuple(data["temperature"])
        return TrainConfig(mixture=Mixture(**mixture), **data)
    except (TypeError, KeyError, ValueError, ContractError) as error:
        raise DataError(f"{source}: {str(error).rstrip('.')}.") from error


def check_config(folder: Path, config: TrainConfig) -> None:
    """Saves the run's config. Raises DataError if the folder has a run with another config."""
    path = folder / CONFIG_FILE
    if path.is_file():
        kept = {name: getattr(config, name) for name in _MAY_CHANGE}
        saved = replace(read_config(path), **kept)
        differing = [
            each.name for each in fields(TrainConfig) if getattr(saved, each.name) != getattr(config, each.name)
        ]
        if differing:
            raise DataError(
                f"{folder} has a run with another config; {', '.join(differing)} differ. Give another --out, or the "
                "original config."
            )
    path.write_text(config.to_yaml(), encoding="utf-8")
