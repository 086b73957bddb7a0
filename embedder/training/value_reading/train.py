"""A run of the value reader: resumable, with a curve of unseen aspects."""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path

import torch
from torch import Tensor

from embedder.backbone import locate_model
from embedder.prompts import load_tokenizer
from embedder.training.progress import RunLog
from embedder.training.state import Checkpoint, load_checkpoint, load_weights, save_checkpoint
from embedder.training.value_reading.config import ARCHITECTURES, ReadingConfig, write_reading_config
from embedder.training.value_reading.measures import HALVES, Outcomes, names_of_aspects
from embedder.training.value_reading.objective import (
    Losses,
    gold_mask,
    likeness_loss,
    naming_loss,
    plain_loss,
    rising_mean,
)
from embedder.training.value_reading.readers import PlainReader, TrainedReader
from embedder.training.value_reading.sampling import Group, GroupSampler
from embedder.training.value_reading.states import StateMemory
from embedder.training.value_reading.tasks import fingerprint_of_data, read_aspects, read_reading_data
from embedder.value_reader import PlainEncoder

logger = logging.getLogger(__name__)
_LOG_EVERY = 20  # steps
_PLAIN_SCALE = 20.0
_INNER = "names, inner aspects"


class ReadingTrainer:
    """One run in one folder; begins, or goes on from its last checkpoint."""

    def __init__(
        self,
        config: ReadingConfig,
        *,
        data: Path,
        out: Path,
        unseen: Path | None = None,
        start_from: Path | None = None,
    ) -> None:
        """unseen: a file of aspects that are only measured; start_from: the folder of a run to begin with."""
        torch.manual_seed(config.seed)
        self._config, self._out = config, out
        out.mkdir(parents=True, exist_ok=True)
        write_reading_config(out, config)
        self._log = RunLog(out)
        skipped = frozenset(config.skip_tasks)
        self._fingerprint = fingerprint_of_data(data, skip_tasks=skipped)
        rows = read_reading_data(data, skip_tasks=skipped, seed=config.seed)
        self._inner = rows.inner
        self._unseen = read_aspects(unseen) if unseen is not None else []
        self._sampler = GroupSampler(
            rows, config.weights, size=config.group_size, groups=config.groups, seed=config.seed
        )
        base = locate_model(config.base)
        encoder = PlainEncoder(base)
        self.model = ARCHITECTURES[config.architecture](encoder, upper=config.upper)
        for layer in self.model.trained:
            layer.dropout = config.dropout
        if start_from is not None:
            self.model.load_state_dict(load_weights(start_from))
        tokenizer = load_tokenizer(base)
        self._plain = PlainReader(encoder, tokenizer, keep=self.model.keep)
        self._memory = StateMemory(
            encoder,
            tokenizer,
            keep=self.model.keep,
            max_tokens=config.max_tokens,
            capacity=config.memory_tokens,
        )
        self._optimiser = torch.optim.AdamW(self._parameter_groups(), weight_decay=config.weight_decay)
        self._step = 0
        self._texts = 0
        self._saved = time.monotonic()
        self._best = 0.0
        self._worse = 0  # validations since the best one
        self.stopped = False  # set from outside: ends the run after the step at hand

    def run(self, *, until: int | None = None) -> None:
        """Trains until `until` texts were seen, by default to the end or the stop rule, and saves."""
        self._restore()
        end = min(until or self._config.texts, self._config.texts)
        recent: list[dict] = []
        while self._texts < end and self._worse < self._config.patience and not self.stopped:
            before = self._texts
            recent.append(self._train_step())
            if before // self._config.validate_every < self._texts // self._config.validate_every:
                self._validate()
                self.save()
            if self._step % _LOG_EVERY == 0:
                self._log.add(self._row(recent))
                recent = []
            if time.monotonic() - self._saved > self._config.checkpoint_seconds:
                self.save()
        self.save()

    def save(self) -> None:
        checkpoint = Checkpoint(
            step=self._step,
            seed=self._config.seed,
            data=self._fingerprint,
            processes=1,
            trainable={name: tensor.detach() for name, tensor in self.model.state_dict().items()},
            optimiser=self._optimiser.state_dict(),
            schedule={"texts": self._texts, "best": self._best, "worse": self._worse},
        )
        save_checkpoint(self._out, checkpoint)
        self._saved = time.monotonic()

    def _restore(self) -> None:
        checkpoint = load_checkpoint(self._out, seed=self._config.seed, data=self._fingerprint, processes=1)
        if checkpoint is not None:
            self.model.load_state_dict(checkpoint.trainable)
            self._optimiser.load_state_dict(dict(checkpoint.optimiser))
            self._step, self._texts = checkpoint.step, checkpoint.schedule["texts"]
            self._best, self._worse = checkpoint.schedule["best"], checkpoint.schedule["worse"]

    def _validate(self) -> None:
        """Names of aspects that are never trained on: the curve of the run, and what its stop rule looks at."""
        found = Outcomes()
        self.model.eval()
        with torch.inference_mode():
            reader = TrainedReader(self.model, self._plain, names_beside=True, steps=self._config.steps)
            names_of_aspects(reader, self._inner, found, _INNER)
            names_of_aspects(reader, self._unseen, found, "names, unseen aspects")
        self.model.train()
        scores = {measure: [round(found.mean(measure, half), 2) for half in HALVES] for measure in found.measures()}
        figure = sum(scores[_INNER]) / len(HALVES) if self._inner else 0.0
        self._worse = 0 if figure > self._best else self._worse + 1
        self._best = max(self._best, figure)
        self._log.add({"texts_seen": self._texts, "halves": HALVES, "validation": scores})

    def _parameter_groups(self) -> list[dict]:
        own = {"relations", "log_scale", "share", "soft_place"}
        named = dict(self.model.named_parameters())
        own &= named.keys()
        return [
            {"params": [named[name] for name in named if name not in own], "rate": self._config.learning_rate},
            {"params": [named[name] for name in sorted(own)], "rate": self._config.relation_rate, "weight_decay": 0.0},
        ]

    def _train_step(self) -> dict:
        started = time.process_time()
        for group in self._optimiser.param_groups:
            group["lr"] = group["rate"] * self._factor()
        groups = self._sampler.batch(self._step)
        self._memory.read([text for group in groups for text in (*group.texts, *group.names, group.instruction)])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            losses = [self._losses(group) for group in groups]
        torch.stack([self._total(each) for each in losses]).mean().backward()
        self._memory.forget()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._config.max_gradient_norm)
        if not torch.isfinite(norm):
            raise RuntimeError(f"Step {self._step}, seed {self._config.seed}: the gradient is not finite.")
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self._step += 1
        self._texts += sum(len(group.texts) for group in groups)
        rows = [each.row(group.kind) for group, each in zip(groups, losses, strict=True)]
        return {"groups": rows, "seconds": time.process_time() - started}

    def _factor(self) -> float:
        """Of the learning rate by texts seen: linear warm-up, constant, linear to zero over the last share."""
        done = self._texts / self._config.texts
        warm = (self._texts + 1) / (self._config.warmup_texts + 1)
        cool = (1 - done) / self._config.cool_down if self._config.cool_down else 1.0
        return min(1.0, warm, cool)

    def _total(self, losses: Losses) -> Tensor:
        weighted = (
            (losses.names, 1.0),
            (losses.alike, self._config.likeness_weight),
            (losses.plain, self._config.plain_weight),
        )
        return torch.stack([weight * loss for loss, weight in weighted if loss is not None]).sum()

    def _losses(self, group: Group) -> Losses:
        config, model = self._config, self.model
        texts, names = self._memory.states(group.texts), self._memory.states(group.names)
        instruction = self._memory.states([group.instruction])[0]
        beside = random.Random(f"{self._step}:{group.task}:{config.seed}").random() < config.names_beside_share
        lens = model.read_lens(instruction, names, names_beside=beside and group.kind != "choices")
        readings = model.read(texts, lens, steps=config.steps if group.names else 0).float()
        vectors = readings[-1]
        if lens.names is None:
            return Losses(plain=plain_loss(vectors, self._memory.plain(group.texts)))
        gold = gold_mask(group.gold, len(group.names))
        with torch.autocast("cpu", enabled=False):
            scores = [model.scores(each, lens.names.float()) for each in readings]
        loss = config.own_names_weight * rising_mean([naming_loss(each, gold) for each in scores], config.rising)
        if config.plain_names_weight:
            with torch.autocast("cpu", enabled=False):
                plain_scores = _PLAIN_SCALE * vectors @ self._memory.plain(group.names).T
            loss = loss + config.plain_names_weight * naming_loss(plain_scores, gold)
        alike = None
        if config.likeness_weight and group.kind != "choices":
            with torch.autocast("cpu", enabled=False):
                alike = likeness_loss(vectors, gold, temperature=config.likeness_temperature)
        hits = float(gold.gather(1, scores[-1].detach().argmax(1)[:, None]).float().mean())
        return Losses(names=loss, alike=alike, hits=hits)

    def _row(self, recent: list[dict]) -> dict:
        """Means over the last steps, per kind of group."""
        found: dict[str, dict[str, list[float]]] = {}
        for step in recent:
            for row in step["groups"]:
                for name in ("hits", "names", "alike", "plain"):
                    if row.get(name) is not None:
                        found.setdefault(row["kind"], {}).setdefault(name, []).append(row[name])
        means = {
            kind: {name: round(sum(values) / len(values), 4) for name, values in each.items()}
            for kind, each in found.items()
        }
        seconds = sum(step["seconds"] for step in recent)
        return {"step": self._step, "texts_seen": self._texts, "seconds": round(seconds, 2), "kinds": means}
