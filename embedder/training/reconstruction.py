"""Anchor embedding, stage I: a text's vector must suffice to generate its counterpart (Su et al. 2025, section 3.2).

Of Algorithm 1, EBQ2D generates a document from the vector of its query, and EBD2Q a query from that of its document,
both with the model's own head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from embedder.model.backbone import Backbone
from embedder.model.prefill import PaddedPrefill, on_device, pad, split_by_length
from embedder.model.refine import PROMPT_POOLINGS, pool_states, refine_states
from embedder.text.prompts import PromptTokenizer
from embedder.training.config import TrainConfig
from embedder.training.lora import folded_lora
from embedder.training.model import refuse_gradient_checkpointing
from embedder.training.objective import Terms
from embedder.training.sampling import Batch

_LOGITS_AT_ONCE = 64 * 1024**2  # entries: 256 MB in fp32


@dataclass(frozen=True, slots=True)
class Predictions:
    """Positions at which tokens are predicted, without pads."""

    states: Tensor  # (n, D), with gradient
    tokens: Tensor  # target tokens (n,)
    rows: Tensor  # row of their text (n,)


class Reconstruction:
    """The objective of a run, instead of the contrastive one.

    The vectors come from the run's prompts and pooling, before normalisation (Eq 1 is a state of the last layer), and
    are fed as input embeddings. The target is the bare text, truncated to the training length. L_Q2D and L_D2Q are
    means over a step's tokens, where Eq 3-4 have sums: so α weighs only the directions, not the lengths of documents
    and queries.
    """

    def __init__(
        self,
        student: Backbone,
        prompts: PromptTokenizer,
        long_prompts: PromptTokenizer,
        config: TrainConfig,
        *,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        refuse_gradient_checkpointing(student.model)
        self._student = student
        # A body with bidirectional prompts would see the tokens that it must predict.
        self._decoder = replace(student, attention="causal")
        self._prompts = prompts
        self._long_prompts = long_prompts
        self._config = config
        self._autocast = autocast

    def backward(self, batches: Sequence[Batch]) -> Terms:
        """Adds the gradient to the parameters. All batches count as one: nothing is compared within them.

        Uses only the positive of each query; hard negatives are not its counterpart.
        """
        queries = [(batch.query_instruction, batch.queries, batch.long) for batch in batches]
        documents = [
            (batch.document_instruction, batch.documents[: len(batch.queries)], batch.long) for batch in batches
        ]
        steps = 0 if self._config.pooling in PROMPT_POOLINGS else batches[0].steps
        with folded_lora(self._student.model):
            vectors = self._embed([*queries, *documents], steps)
            predictions = self._decode(vectors, self._bare_ids([*documents, *queries]))
        is_document = predictions.rows < len(vectors) // 2
        weights = torch.stack([is_document, ~is_document]).float()
        weights = weights / weights.sum(dim=1, keepdim=True)  # (2, n): mean per direction
        alpha = self._config.reconstruction_alpha
        losses = self._backward(predictions, alpha * weights[0] + (1 - alpha) * weights[1])
        to_document, to_query = (weights @ losses).tolist()
        total = alpha * to_document + (1 - alpha) * to_query
        return Terms(losses.new_tensor(total), [total], 0.0, 0.0, 0.0, 0.0, reconstruction=(to_document, to_query))

    def _embed(self, parts: Sequence[tuple[str, Sequence[str], bool]], steps: int) -> Tensor:
        """Embeds the texts of all parts, in order: vectors (B, D), not normalised.

        parts: instruction, texts, and whether to use the longer training length.
        """
        ids = [
            each.ids
            for instruction, texts, long in parts
            for each in self._prompts_of(long=long).encode(texts, instruction)
        ]
        groups = split_by_length([len(each) for each in ids])
        vectors = []
        for rows in groups:
            prompt = pad([ids[row] for row in rows], device=self._student.device)
            with self._autocast():
                states = refine_states(PaddedPrefill(self._student, prompt), steps=steps)
            vectors.append(pool_states(states, self._config.pooling)[:, -1])
        order = torch.tensor([row for rows in groups for row in rows]).argsort()
        return torch.cat(vectors)[on_device(order, self._student.device)]

    def _decode(self, vectors: Tensor, texts: Sequence[Sequence[int]]) -> Predictions:
        """Runs causally over [e, d_1..d_{m-1}] of each vector and text, to predict d_1..d_m."""
        decoder, device = self._decoder, vectors.device
        found = []
        for group in split_by_length([len(each) for each in texts]):
            target = pad([texts[row] for row in group], device=device)
            rows = on_device(torch.tensor(group), device)
            tokens = decoder.embed(target.ids[:, :-1])
            inputs = torch.cat([vectors[rows, None].to(tokens.dtype), tokens], dim=1)  # (b, m, D)
            positions = torch.arange(inputs.shape[1], device=device).expand(inputs.shape[:2])
            with self._autocast():
                states = decoder.forward(inputs, mask=target.mask, positions=positions, cache=decoder.new_cache())
            places = target.mask
            found.append((states[places], target.ids[places], rows[:, None].expand(places.shape)[places]))
        return Predictions(*(torch.cat(each) for each in zip(*found, strict=True)))

    def _backward(self, predictions: Predictions, weights: Tensor) -> Tensor:
        """Adds the gradient of Σ weights · losses; returns the cross-entropy of each token (n,), detached.

        Computes logits for some tokens at a time: for a whole batch and Gemma's 262,144 entries they would take
        gigabytes.
        """
        states = predictions.states.detach().requires_grad_()
        size = max(1, _LOGITS_AT_ONCE // len(self._decoder.weight))
        losses = []
        parts = (states.split(size), predictions.tokens.split(size), weights.split(size))
        for some, tokens, weight in zip(*parts, strict=True):
            with self._autocast():
                logits = self._decoder.logits(some)
            loss = cross_entropy(logits.float(), tokens, reduction="none")
            (loss @ weight).backward()
            losses.append(loss.detach())
        predictions.states.backward(states.grad)
        return torch.cat(losses)

    def _bare_ids(self, parts: Sequence[tuple[str, Sequence[str], bool]]) -> list[list[int]]:
        """Token ids without instruction and template, truncated like prompts."""
        return [
            each.ids[: self._prompts_of(long=long).max_length]
            for _, texts, long in parts
            for each in self._prompts.vocabulary.encode_batch(texts, add_special_tokens=False)
        ]

    def _prompts_of(self, *, long: bool) -> PromptTokenizer:
        return self._long_prompts if long else self._prompts
