"""One batch to one loss: embeds both sides through the KV cache and adds up the terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedder.backbone import Backbone
from embedder.batching import pad, split_by_length
from embedder.pooling import PROMPT_POOLINGS, pool_prefixes
from embedder.prompts import PromptTokenizer
from embedder.refine import read_prompt, refine_states
from embedder.training.config import TrainConfig
from embedder.training.losses import distillation, grounding, icr_loss, stepwise_info_nce
from embedder.training.sampling import Batch
from embedder.training.words import WordIndex

# Shares of a query's word bag: hints (label names, the positive) against its own words; without hints all is own.
_HINT_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Terms:
    """The parts of a loss, for the log; `stepwise` is L_1..L_K."""

    total: Tensor
    stepwise: list[float]
    distillation: float
    grounding: float
    repetition: float


@dataclass(frozen=True, slots=True)
class Embedded:
    """One side of a batch, with gradient."""

    prefixes: Tensor  # z_1..z_K (B, K, D)
    mean_token: Tensor  # (B, n) over the soft vocabulary; zeros where nobody looks at it
    repetition: Tensor  # (B,)


class MeanSoftToken:
    """Observes soft tokens and keeps, with gradient, their mean over the steps and how much each repeats."""

    def __init__(self, rows: int, soft_weight: Tensor) -> None:
        self._total = soft_weight.new_zeros(rows, len(soft_weight), dtype=torch.float32)
        self._repeated = soft_weight.new_zeros(rows, dtype=torch.float32)
        self._count = 0

    def __call__(self, step: int, soft_token: Tensor) -> None:
        if step > 1:
            self._repeated = self._repeated + torch.minimum(soft_token, self._total.detach()).sum(dim=-1)
        self._total = self._total + soft_token
        self._count = step

    def repetition(self) -> Tensor:
        """Mean share (B,) of s_k that earlier steps have already said, k = 2..K (the coverage of See et al. 2017)."""
        return self._repeated / max(1, self._count - 1)

    def mean(self) -> Tensor:
        return self._total / max(1, self._count)


class Objective:
    """Holds what does not change from batch to batch: student, teacher, tokenizer, words, config."""

    def __init__(
        self,
        student: Backbone,
        teacher: Backbone | None,
        prompts: PromptTokenizer,
        long_prompts: PromptTokenizer,
        words: WordIndex,
        config: TrainConfig,
    ) -> None:
        self._student = student
        self._teacher = teacher
        self._prompts = prompts
        self._long_prompts = long_prompts
        self._words = words
        self._config = config
        self._watches_tokens = bool(config.grounding_weight or config.coverage_weight)

    def __call__(self, batch: Batch) -> Terms:
        config = self._config
        prompts = self._long_prompts if batch.long else self._prompts
        queries = self._embed(prompts, batch.queries, batch.query_instruction, batch.steps)
        documents = self._embed(prompts, batch.documents, batch.document_instruction, batch.steps)
        allowed = torch.from_numpy(batch.allowed)
        stepwise = stepwise_info_nce(
            queries.prefixes, documents.prefixes, temperature=config.temperature, allowed=allowed
        )
        total = icr_loss(
            stepwise if config.supervise == "every" else stepwise[-1:],
            reduction=config.reduction,
            regulariser_weight=config.regulariser_weight,
            margin=config.regulariser_margin,
            rising=config.rising,
        )
        distilled = self._distil(batch, queries.prefixes, documents.prefixes)
        grounded = self._ground(batch, queries, documents)
        repeated = torch.cat([queries.repetition, documents.repetition]).mean()
        total = total + config.distillation_weight * distilled + config.grounding_weight * grounded
        total = total + config.coverage_weight * repeated
        return Terms(
            total,
            stepwise.detach().tolist(),
            float(distilled.detach()),
            float(grounded.detach()),
            float(repeated.detach()),
        )

    def _embed(self, prompts: PromptTokenizer, texts: Sequence[str], instruction: str, steps: int) -> Embedded:
        ids = [each.ids for each in prompts.encode(texts, instruction)]
        groups = split_by_length([len(each) for each in ids])
        parts = []
        for rows in groups:
            observer = MeanSoftToken(len(rows), self._student.soft_weight)
            prompt = pad([ids[row] for row in rows], device=self._student.device)
            states = refine_states(
                self._student,
                prompt,
                steps=0 if self._config.pooling in PROMPT_POOLINGS else steps,
                observe=observer if self._watches_tokens else None,
            )
            parts.append((pool_prefixes(states, self._config.pooling), observer.mean(), observer.repetition()))
        order = torch.tensor([row for rows in groups for row in rows], device=self._student.device).argsort()
        return Embedded(*(torch.cat(each)[order] for each in zip(*parts, strict=True)))

    def _distil(self, batch: Batch, queries: Tensor, documents: Tensor) -> Tensor:
        """Plain texts, and those whose instruction asks for similarity alone, keep the base's geometry."""
        plain_queries = not batch.query_instruction or batch.kind == "similarity"
        plain_documents = not batch.document_instruction or batch.kind == "similarity"
        if self._teacher is None or not (plain_queries or plain_documents) or batch.kind == "label_names":
            return queries.new_zeros(())
        terms = []
        if plain_queries:
            terms.append(distillation(queries, self.teach(batch.queries, long=batch.long)))
        if plain_documents:
            terms.append(distillation(documents, self.teach(batch.documents, long=batch.long)))
        # Documents of instructed queries may move further.
        weight = 1.0 if batch.kind in ("pairs", "similarity") else self._config.free_document_share
        return weight * torch.stack(terms).mean()

    @torch.no_grad()
    def teach(self, texts: Sequence[str], *, long: bool = False) -> Tensor:
        """The base model's own embedding of the bare texts: the mean of its prompt states (B, D)."""
        if self._teacher is None:
            raise ValueError("There is no teacher; set distillation_weight above 0.")
        ids = [each.ids for each in (self._long_prompts if long else self._prompts).encode(texts, "")]
        out = torch.empty(len(ids), self._teacher.hidden_size, device=self._teacher.device)
        for rows in split_by_length([len(each) for each in ids]):
            prompt = pad([ids[row] for row in rows], device=self._teacher.device)
            out[rows] = read_prompt(self._teacher, prompt, self._teacher.new_cache())[1]
        return normalize(out, dim=-1)

    def _ground(self, batch: Batch, queries: Embedded, documents: Embedded) -> Tensor:
        if not self._config.grounding_weight:
            return queries.prefixes.new_zeros(())
        hint_share = _HINT_SHARE if batch.query_instruction and batch.kind != "similarity" else 0.3
        query_bags = self._words.bags(
            [
                [(query, 1 - hint_share), *((hint, hint_share / len(hints)) for hint in hints)]
                for query, hints in zip(batch.queries, batch.hints, strict=True)
            ]
        )
        terms = [grounding(queries.mean_token, query_bags.rows, query_bags.ids, query_bags.weights)]
        if not batch.document_instruction:
            bags = self._words.bags([[(text, 1.0)] for text in batch.documents])
            terms.append(grounding(documents.mean_token, bags.rows, bags.ids, bags.weights))
        return torch.stack(terms).mean()
