"""The training run: warm up the head, then contrastive refinement; checkpoints survive a kill at any moment."""

from __future__ import annotations

import json
import logging
import math
import random
from collections import deque
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from embedder.backbone import Backbone, load_backbone, load_causal_model, locate_model, lora_config, take_apart
from embedder.batching import pad
from embedder.contract import Contract, hash_files, sha256_of
from embedder.encoder import Encoder
from embedder.evaluation.measures import validate_briefly
from embedder.heads import SoftHead
from embedder.pooling import PROMPT_POOLINGS
from embedder.prompts import PromptTokenizer, load_tokenizer
from embedder.refine import read_prompt
from embedder.templates import TEMPLATES
from embedder.training.config import TrainConfig
from embedder.training.data import TrainingData, read_training_data
from embedder.training.lora import folded_lora
from embedder.training.objective import Objective
from embedder.training.publish import publish
from embedder.training.sampling import BatchSampler
from embedder.training.words import WordIndex

logger = logging.getLogger(__name__)
HEAD_FILE = "head.safetensors"
_MIN_TEXT_TOKENS = 8  # training prompts are short; the longest instructions may take nearly all of them


class Trainer:
    """One run in one folder. `run()` starts it or goes on from its last checkpoint.

    start_from: the folder of an earlier run whose weights this one begins with (a further stage).
    head_from: a head that an earlier run with the same data and soft vocabulary has warmed up.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        data: Path,
        out: Path,
        validation: Path | None = None,
        start_from: Path | None = None,
        head_from: Path | None = None,
    ) -> None:
        torch.manual_seed(config.seed)
        self._config = config
        self._out = out
        self._validation = validation
        self._start_from = start_from
        self._head_from = head_from
        self._base = locate_model(config.base)
        self._rows = read_training_data(data, skip_tasks=frozenset(config.skip_tasks))
        self._sampler = BatchSampler(self._rows, config.mixture, seed=config.seed)
        self._tokenizer = load_tokenizer(self._base)
        self._prompts, long_prompts = (
            PromptTokenizer(
                self._tokenizer,
                TEMPLATES[config.template],
                max_length=length,
                max_instruction=length - _MIN_TEXT_TOKENS,
            )
            for length in (config.train_length, config.long_train_length)
        )
        logging.getLogger("embedder.prompts").setLevel(logging.ERROR)  # training cuts on purpose
        sample = [*sample_texts(self._rows, 40_000, seed=config.seed), *label_names(self._rows)]
        self._words = WordIndex(self._tokenizer, sample, size=config.soft_vocabulary)
        self._model = self._build_model()
        self._student = take_apart(self._model, attention=config.attention)
        self._objective = Objective(
            self._student, self._build_teacher(), self._prompts, long_prompts, self._words, config
        )
        self._optimiser = torch.optim.AdamW(self._parameter_groups(), weight_decay=0.01)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimiser, self._learning_rate_factor)

    def run(self) -> Path:
        """Trains to the end and publishes adapter, contract and config. Returns the folder that holds them."""
        self._out.mkdir(parents=True, exist_ok=True)
        start = self._restore()
        if start == 0 and self._start_from is not None:
            self._load_weights(torch.load(self._start_from / "checkpoint.pt", weights_only=True)["trainable"])
        elif start == 0 and self._student.soft_head is not None and self._config.pooling not in PROMPT_POOLINGS:
            self._prepare_head(self._student.soft_head)
        recent: deque[float] = deque(maxlen=50)
        end = min(self._config.optimiser_steps, self._config.stop_after or self._config.optimiser_steps)
        with tqdm(total=end, initial=start, unit="step", desc=self._config.name) as bar:
            for step in range(start, end):
                recent.append(self._train_step(step))
                bar.set_postfix(loss=f"{sum(recent) / len(recent):.3f}")
                bar.update()
                done = step + 1
                if done % self._config.checkpoint_every == 0 or done == end:
                    self._save(done)
                if self._validation and done % self._config.validate_every == 0:
                    self._validate(done, self._validation)
        return publish(self._model, self._contract(), self._config, self._out / "adapter")

    def _train_step(self, step: int) -> float:
        batch = self._sampler.batch(step)
        self._optimiser.zero_grad(set_to_none=True)
        with folded_lora(self._model):
            terms = self._objective(batch)
        terms.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._trainable(), self._config.max_gradient_norm)
        if not torch.isfinite(norm):
            raise RuntimeError(
                f"Step {step} ({batch.kind}, {batch.task}, seed {self._config.seed}): the gradient is not finite."
            )
        self._optimiser.step()
        self._schedule.step()
        self._log(
            {
                "step": step,
                "kind": batch.kind,
                "task": batch.task,
                "texts": len(batch.queries) + len(batch.documents),
                "loss": float(terms.total.detach()),
                "stepwise": terms.stepwise,
                "distillation": terms.distillation,
                "grounding": terms.grounding,
                "repetition": terms.repetition,
                # How many of the K-1 transitions got worse, which is where the regulariser acts.
                "worse": sum(b > a for a, b in zip(terms.stepwise, terms.stepwise[1:], strict=False)),
            }
        )
        return float(terms.total.detach())

    def _build_model(self) -> PeftModel:
        model = load_causal_model(
            self._base, with_soft_head=self._config.head == "soft_head", pieces=self._words.pieces
        )
        config = self._config
        peft_config = lora_config(model, rank=config.lora_rank, alpha=config.lora_alpha, dropout=config.lora_dropout)
        # eval: the base's own dropout stays off; LoRA's is switched on by its config when it is above 0.
        return get_peft_model(model, peft_config).train(config.lora_dropout > 0)

    def _build_teacher(self) -> Backbone | None:
        if not self._config.distillation_weight:
            return None
        return load_backbone(
            self._base,
            attention=self._config.attention,
            with_soft_head=self._config.head == "soft_head",
            adapter=None,
            device="cpu",
            dtype="float32",
        )

    def _trainable(self) -> list[Tensor]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def _parameter_groups(self) -> list[dict]:
        head = [p for name, p in self._model.named_parameters() if p.requires_grad and "soft_head" in name]
        lora = [p for name, p in self._model.named_parameters() if p.requires_grad and "soft_head" not in name]
        groups = [{"params": lora, "lr": self._config.learning_rate}]
        return [*groups, {"params": head, "lr": self._config.head_learning_rate}] if head else groups

    def _learning_rate_factor(self, step: int) -> float:
        """Linear warm-up, then cosine down to a tenth."""
        warm = max(1, round(self._config.warmup * self._config.optimiser_steps))
        if step < warm:
            return (step + 1) / warm
        share = (step - warm) / max(1, self._config.optimiser_steps - warm)
        return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))

    def _prepare_head(self, head: SoftHead) -> None:
        """Takes the head that an earlier run has warmed up, or warms it up."""
        if self._head_from is not None:
            head.load_state_dict(load_file(self._head_from))
        elif self._config.head_warmup_texts:
            self._warm_up_head(head)

    def warm_up(self) -> None:
        """Warms up the head alone and leaves it in HEAD_FILE for other runs."""
        head = self._student.soft_head
        if head is None:
            raise ValueError(f"{self._config.name}: head is {self._config.head!r}; only a soft_head is warmed up.")
        self._out.mkdir(parents=True, exist_ok=True)
        self._warm_up_head(head)
        save_file(head.state_dict(), self._out / HEAD_FILE)

    def _warm_up_head(self, head: SoftHead) -> None:
        """Teaches the head alone to name a text's words from its prompt state; from scratch it barely moves later."""
        texts = sample_texts(self._rows, self._config.head_warmup_texts, seed=self._config.seed + 1)
        states = self._last_states(texts)
        optimiser = torch.optim.Adam(head.parameters(), lr=1e-3)
        rng = random.Random(self._config.seed)
        size = min(256, len(texts))
        for epoch in range(self._config.head_warmup_epochs):
            order = rng.sample(range(len(texts)), len(texts))
            starts = range(0, len(order) - size + 1, size)
            for start in tqdm(starts, desc=f"Head warm-up {epoch + 1}/{self._config.head_warmup_epochs}", unit="batch"):
                rows = order[start : start + size]
                bags = self._words.bags([[(texts[row], 1.0)] for row in rows])
                logs = F.log_softmax(head(states[rows], self._student.soft_weight), dim=-1)
                loss = -(bags.weights * logs[bags.rows, bags.ids]).sum() / size
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
            self._log({"head_warmup_epoch": epoch, "loss": float(loss.detach())})

    @torch.no_grad()
    def _last_states(self, texts: list[str]) -> Tensor:
        """h'_0 of every text (n, D)."""
        out = torch.empty(len(texts), self._student.hidden_size)
        ids = [each.ids for each in self._prompts.encode(texts, "")]
        order = sorted(range(len(texts)), key=lambda row: len(ids[row]))
        for start in tqdm(range(0, len(order), 64), desc="States for the head", unit="batch"):
            rows = order[start : start + 64]
            prompt = pad([ids[row] for row in rows], device=self._student.device)
            out[rows] = read_prompt(self._student, prompt, self._student.new_cache())[0]
        return out

    def _contract(self) -> Contract:
        config = self._config
        return Contract(
            name=config.name,
            base=config.base,
            base_revision=None,
            base_files=hash_files(self._base) | {"tokenizer.json": sha256_of(self._base / "tokenizer.json")},
            adapter_files={},
            template=config.template,
            attention=config.attention,
            pooling=config.pooling,
            head=config.head,
            temperature=1.0,
            max_length=config.max_length,
            dimension=self._student.hidden_size,
            default_query_steps=config.query_steps,
            default_document_steps=config.document_steps,
        )

    def _validate(self, step: int, folder: Path) -> None:
        scores = validate_briefly(Encoder(self._student, self._tokenizer, self._contract()), folder)
        self._log({"step": step, "validation": scores})
        logger.info("Step %d: %s", step, scores)

    def _save(self, step: int) -> None:
        """Writes beside and renames, so that a kill never leaves half a checkpoint."""
        state = {
            "step": step,
            "trainable": {name: p.detach() for name, p in self._model.named_parameters() if p.requires_grad},
            "optimiser": self._optimiser.state_dict(),
            "schedule": self._schedule.state_dict(),
            "rng": torch.get_rng_state(),
        }
        temporary = self._out / "checkpoint.pt.tmp"
        torch.save(state, temporary)
        temporary.replace(self._out / "checkpoint.pt")

    def _restore(self) -> int:
        """The step to go on with. Raises ValueError when the folder belongs to another config."""
        saved = self._out / "config.yaml"
        if saved.is_file() and saved.read_text(encoding="utf-8") != self._config.to_yaml():
            raise ValueError(
                f"{self._out} holds a run with another config. Give another --out, or the config it began with."
            )
        saved.write_text(self._config.to_yaml(), encoding="utf-8")
        path = self._out / "checkpoint.pt"
        if not path.is_file():
            return 0
        state = torch.load(path, weights_only=True)
        self._load_weights(state["trainable"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["rng"])
        return int(state["step"])

    @torch.no_grad()
    def _load_weights(self, weights: dict[str, Tensor]) -> None:
        named = dict(self._model.named_parameters())
        for name, value in weights.items():
            named[name].copy_(value)

    def _log(self, row: dict) -> None:
        with (self._out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def sample_texts(data: TrainingData, count: int, *, seed: int) -> list[str]:
    """Texts from every task, spread evenly, without repeats."""
    rng = random.Random(seed)
    pools = [[text for row in rows for text in (row.query, *row.positives)] for rows in data.pairs.values()]
    pools += [[text for texts in aspect.texts.values() for text in texts] for aspect in data.aspects]
    share = max(1, math.ceil(count / len(pools)))
    chosen = {text: None for pool in pools for text in rng.sample(pool, min(share, len(pool))) if text.strip()}
    texts = list(chosen)
    rng.shuffle(texts)
    return texts[:count]


def label_names(data: TrainingData) -> list[str]:
    return sorted({label for aspect in data.aspects for label in aspect.texts})
