"""From the ids of a batch of prompts to their vectors after every step: prefill, refinement, pooling, and what the
contract makes of the instructions' own vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedder.backbone import Backbone
from embedder.batching import BATCH_TOKENS, plan_batches
from embedder.contract import Contract, resolve_defaults
from embedder.errors import TextError
from embedder.expansion import Expander
from embedder.hyper_projection import InstructionProjection
from embedder.instruction_vectors import InstructionVectors, VectorTransform, identity
from embedder.lru import LRUCache
from embedder.pooling import PROMPT_POOLINGS, pool_prefixes, step_distances
from embedder.prefill_start import start_prefill
from embedder.prompts import INSTRUCTION_END, Frame, split_instructions
from embedder.refine import Reader, RefinedStates, StepObserver, refine_states
from embedder.sentence_selection import SelectedBatch, SentenceSelector, select_sentences

Ids = tuple[int, ...]  # of the tokens of a prompt

_PLAIN_TEXTS = 64  # of a batch that is read without an instruction beforehand
_REMEMBERED = 4096  # of these texts, most of them sentences


class BatchReader:
    """A loaded model for batches that fit into memory. Safe to use from several threads."""

    def __init__(
        self,
        backbone: Backbone,
        contract: Contract,
        frame: Frame,
        *,
        dimension: int,
        padding_side: str = "right",
        projection: InstructionProjection | None = None,
        expander: Expander | None = None,
        selector: SentenceSelector | None = None,
    ) -> None:
        """frame: what stands around every prompt. dimension: how many of a vector's first ones are kept."""
        self._backbone = backbone
        self._contract = contract
        self._frame = frame
        self._dimension = dimension
        self._padding_side = padding_side
        self._instructions = InstructionVectors(contract, projection)
        self._expander = expander
        self._selector = selector
        self._plain: LRUCache[Ids, Tensor] = LRUCache(_REMEMBERED)

    @torch.inference_mode()
    def read(
        self,
        prompts: Sequence[Ids],
        steps: int,
        *,
        logit_bias: Tensor | None = None,
        on_step: StepObserver | None = None,
        tolerance: float | None = None,
        between_parts: Callable[[], None] | None = None,
    ) -> Tensor:
        """z_1..z_K (B, K, dimension), fp32, L2-normalised; K alone where the model takes no steps, fewer where by
        `tolerance` all have converged before."""
        texts, transform = self._prepare(prompts, steps, between_parts)
        self._check_positions(texts, steps)

        def pooled(states: RefinedStates) -> Tensor:
            return first_dimensions(transform(self._pool(states, steps)), self._dimension)

        states = self._refine(
            texts,
            steps,
            logit_bias=logit_bias,
            on_step=on_step,
            stop=None if tolerance is None else lambda states: _have_converged(pooled(states), tolerance),
            between_parts=between_parts,
        )
        return pooled(states)

    @torch.inference_mode()
    def sentences_read(self, prompt: Ids) -> list[bool]:
        """Of the sentences that are marked in a prompt; empty where the model reads all texts whole."""
        return [] if self._selector is None else self._select(self._selector, [prompt]).is_read[0]

    def _prepare(
        self, prompts: Sequence[Ids], steps: int, between_parts: Callable[[], None] | None
    ) -> tuple[Sequence[Ids], VectorTransform]:
        """The prompts as the model reads them, and what their instructions do to the vectors."""
        if self._selector is not None:
            if not any(INSTRUCTION_END in ids for ids in prompts):
                return prompts, identity
            selected = self._select(self._selector, prompts, between_parts)
            return selected.prompts, selected.transform
        if not self._contract.reads_instructions_apart:
            return prompts, identity
        instructions, texts = split_instructions(prompts)
        if self._expander is not None:
            texts = self._expander.expand(instructions, texts, between_tokens=between_parts)
        return texts, self._instructions.transform_for(instructions, steps, self._read_instruction)

    def _select(
        self, selector: SentenceSelector, prompts: Sequence[Ids], between_parts: Callable[[], None] | None = None
    ) -> SelectedBatch:
        def own(ids: Ids) -> Tensor:
            return self._instructions.own(ids, 0, self._read_instruction)[-1]

        read = partial(self._read_plainly, between_parts=between_parts)
        return select_sentences(selector, self._frame, prompts, own=own, read=read)

    def _read_plainly(self, texts: Sequence[Ids], between_parts: Callable[[], None] | None) -> Tensor:
        """Vectors (N, D) of the base model, which are remembered: a passage comes again under other instructions."""
        different = dict.fromkeys(texts)
        known = {ids: vector for ids in different if (vector := self._plain.get(ids)) is not None}
        new = [ids for ids in different if ids not in known]
        for rows in plan_batches([len(ids) for ids in new], batch_size=_PLAIN_TEXTS, max_tokens=BATCH_TOKENS):
            batch = [new[row] for row in rows]
            vectors = self._pool(self._refine(batch, 0, between_parts=between_parts), 0)[:, -1]
            # Copies: a row of the batch would keep all of it in memory as long as it is remembered.
            read = {ids: vector.clone() for ids, vector in zip(batch, vectors, strict=True)}
            self._plain.keep(read)
            known |= read
        return torch.stack([known[ids] for ids in texts])

    def _check_positions(self, prompts: Sequence[Ids], steps: int) -> None:
        longest = max(len(ids) for ids in prompts)
        if longest + steps > self._backbone.max_positions:
            raise TextError(
                f"{longest} prompt tokens and {steps} steps exceed the model's {self._backbone.max_positions} "
                "positions. Take fewer steps or a shorter text."
            )

    def _read_instruction(self, ids: Ids, steps: int) -> Tensor:
        """Its own vectors (K, D), L2-normalised, as those of any text without an instruction."""
        steps = resolve_defaults(self._contract, "query", "", steps)[1]
        return self._pool(self._refine([ids], steps), steps)[0]

    def _pool(self, states: RefinedStates, steps: int) -> Tensor:
        """(B, K, D) of the contract's dimensions."""
        pooling = self._contract.pooling
        if self._base_at(steps) is not None:
            pooling = self._contract.plain_pooling or pooling
        return first_dimensions(pool_prefixes(states, pooling), self._contract.dimension)

    def _base_at(self, steps: int) -> Backbone | None:
        """The base model, which reads alone where no steps are taken; None where the model itself reads."""
        return self._backbone.base if steps == 0 else None

    def _refine(
        self,
        prompts: Sequence[Ids],
        steps: int,
        *,
        logit_bias: Tensor | None = None,
        on_step: StepObserver | None = None,
        stop: Callable[[RefinedStates], bool] | None = None,
        between_parts: Callable[[], None] | None = None,
    ) -> RefinedStates:
        backbone = self._base_at(steps) or self._backbone
        steps = 0 if self._contract.pooling in PROMPT_POOLINGS else steps
        return refine_states(
            self._prefill(backbone, prompts, steps, between_parts),
            steps=steps,
            temperature=self._contract.temperature,
            logit_bias=logit_bias,
            on_step=on_step,
            stop=stop,
        )

    def _prefill(
        self, backbone: Backbone, prompts: Sequence[Ids], steps: int, between_parts: Callable[[], None] | None
    ) -> Reader:
        pooling, frame, side = self._contract.pooling, self._frame, self._padding_side
        return start_prefill(
            backbone, prompts, steps=steps, pooling=pooling, frame=frame, padding_side=side, between_parts=between_parts
        )


def first_dimensions(prefixes: Tensor, count: int) -> Tensor:
    """L2-normalised anew where some are left out."""
    return prefixes if prefixes.shape[-1] == count else normalize(prefixes[..., :count], dim=-1)


def _have_converged(prefixes: Tensor, tolerance: float) -> bool:
    return bool((step_distances(prefixes) <= tolerance).any(dim=1).all())
