"""One batch to one loss: embeds both sides through the KV cache and adds up the terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedder.backbone import Backbone
from embedder.batching import pad, split_by_length
from embedder.pooling import pool_prefixes
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


class MeanSoftToken:
    """Observes soft tokens and keeps, with gradient, their mean over the steps and how much each repeats."""

    def __init__(self) -> None:
        self._total: Tensor | None = None
        self._repeated: Tensor | None = None
        self._count = 0

    def __call__(self, step: int, soft_token: Tensor) -> None:
        if self._total is None:
            self._total, self._repeated = soft_token, soft_token.new_zeros(len(soft_token))
        else:
            self._repeated = self._repeated + torch.minimum(soft_token, self._total.detach()).sum(dim=-1)
            self._total = self._total + soft_token
        self._count = step

    def repetition(self) -> Tensor:
        """Mean share (B,) of s_k that earlier steps have already said, k = 2..K (the coverage of See et al. 2017)."""
        if self._repeated is None:
            raise RuntimeError("No step has been observed.")
        return self._repeated / max(1, self._count - 1)

    def mean(self) -> Tensor:
        if self._total is None:
            raise RuntimeError("No step has been observed.")
        return self._total / self._count


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

    def __call__(self, batch: Batch) -> Terms:
        config = self._config
        prompts = self._long_prompts if batch.long else self._prompts
        queries, query_tokens, query_repeats = self._embed(prompts, batch.queries, batch.query_instruction, batch.steps)
        documents, document_tokens, document_repeats = self._embed(
            prompts, batch.documents, batch.document_instruction, batch.steps
        )
        allowed = torch.from_numpy(batch.allowed)
        stepwise = stepwise_info_nce(queries, documents, temperature=config.temperature, allowed=allowed)
        total = icr_loss(
            stepwise,
            reduction=config.reduction,
            regulariser_weight=config.regulariser_weight,
            margin=config.regulariser_margin,
            rising=config.rising,
        )
        distilled = self._distil(batch, queries, documents)
        grounded = self._ground(batch, query_tokens, document_tokens)
        repeated = torch.cat([query_repeats, document_repeats]).mean()
        total = total + config.distillation_weight * distilled + config.grounding_weight * grounded
        total = total + config.coverage_weight * repeated
        return Terms(
            total,
            stepwise.detach().tolist(),
            float(distilled.detach()),
            float(grounded.detach()),
            float(repeated.detach()),
        )

    def _embed(
        self, prompts: PromptTokenizer, texts: Sequence[str], instruction: str, steps: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """z_1..z_K (B, K, D), the mean soft token (B, V) and its repetition (B,)."""
        ids = [each.ids for each in prompts.encode(texts, instruction)]
        groups = split_by_length([len(each) for each in ids])
        parts = []
        for rows in groups:
            observer = MeanSoftToken()
            prompt = pad([ids[row] for row in rows], device=self._student.device)
            states = refine_states(self._student, prompt, steps=steps, observe=observer)
            prefixes = pool_prefixes(states.generated, states.prompt_mean, self._config.pooling)
            parts.append((prefixes, observer.mean(), observer.repetition()))
        order = torch.tensor([row for rows in groups for row in rows], device=self._student.device).argsort()
        prefixes, tokens, repeats = (torch.cat(each)[order] for each in zip(*parts, strict=True))
        return prefixes, tokens, repeats

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

    def _ground(self, batch: Batch, query_tokens: Tensor, document_tokens: Tensor) -> Tensor:
        if not self._config.grounding_weight:
            return query_tokens.new_zeros(())
        hint_share = _HINT_SHARE if batch.query_instruction and batch.kind != "similarity" else 0.3
        query_bags = self._words.bags(
            [
                [(query, 1 - hint_share), *((hint, hint_share / len(hints)) for hint in hints)]
                for query, hints in zip(batch.queries, batch.hints, strict=True)
            ]
        )
        terms = [grounding(query_tokens, query_bags.rows, query_bags.ids, query_bags.weights)]
        if not batch.document_instruction:
            bags = self._words.bags([[(text, 1.0)] for text in batch.documents])
            terms.append(grounding(document_tokens, bags.rows, bags.ids, bags.weights))
        return torch.stack(terms).mean()
