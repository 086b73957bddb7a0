"""Embeds texts under an instruction: prompts, batches, prefill, refinement and pooling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize
from tqdm.auto import tqdm

from embedder.errors import ContractError, TextError
from embedder.extensions.auxiliary_models import NO_AUXILIARY_MODELS, AuxiliaryModels
from embedder.extensions.expansion import Expander
from embedder.extensions.hyper_projection import InstructionProjection
from embedder.extensions.instruction_vectors import InstructionVectors, VectorTransform
from embedder.extensions.sentence_selection import SelectedBatch, SentenceSelector, select_sentences
from embedder.lru import LRUCache
from embedder.model.backbone import Backbone
from embedder.model.contract import Contract, resolve_defaults
from embedder.model.model_thread import on_model_thread
from embedder.model.prefill import BATCH_TOKENS, plan_batches, start_prefill
from embedder.model.refine import (
    PROMPT_POOLINGS,
    RefinedStates,
    StepObserver,
    check_tolerance,
    pool_prefixes,
    refine_states,
    step_distances,
    steps_to_convergence,
)
from embedder.model_info import ModelInfo
from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep
from embedder.text.prompts import INSTRUCTION_END, TEMPLATES, Frame, PromptIds, PromptTokenizer, split_instructions
from embedder.text.tokens import TopTokens, bias_vector, shown_word_of, word_of
from embedder.vector_cache import VectorCache

Ids = tuple[int, ...]  # token ids of one prompt

MAX_STEPS = 64
_PLAIN_TEXTS = 64  # batch size for the first pass over bare texts
_REMEMBERED = 4096  # cached bare texts, most of them sentences


class BatchEncoder:
    """Runs a loaded model on batches that fit into memory. Thread-safe."""

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
        """frame: token ids around every prompt. dimension: number of leading dimensions to keep."""
        self._backbone = backbone
        self._contract = contract
        self._frame = frame
        self._dimension = dimension
        self._padding_side = padding_side
        self._reads_instructions_apart = contract.reads_instructions_apart
        self._most_positions = backbone.max_positions
        self._instructions = InstructionVectors(contract, projection)
        self._expander = expander
        self._selector = selector
        self._plain: LRUCache[Ids, Tensor] = LRUCache(_REMEMBERED)

    @torch.inference_mode()
    def encode(
        self,
        prompts: Sequence[Ids],
        steps: int,
        *,
        logit_bias: Tensor | None = None,
        on_step: StepObserver | None = None,
        tolerance: float | None = None,
        between_parts: Callable[[], None] | None = None,
    ) -> Tensor:
        """Embeds one batch of prompts: the vectors after each step, z_1..z_K (B, K, dimension), float32, L2-normalised.

        Only z_K if the model takes no steps. Fewer than `steps` if all texts converged earlier by `tolerance`.
        """
        texts, transform = self._prepare(prompts, steps, between_parts)
        self._check_positions(texts, steps)

        def pooled(states: RefinedStates) -> Tensor:
            whole = self._pool(states, steps)
            return first_dimensions(whole if transform is None else transform(whole), self._dimension)

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
    def encoded_sentences(self, prompt: Ids) -> list[bool]:
        """For each marked sentence of a prompt, whether it is encoded. Empty if the model encodes whole texts only."""
        return [] if self._selector is None else self._select(self._selector, [prompt]).is_read[0]

    def _prepare(
        self, prompts: Sequence[Ids], steps: int, between_parts: Callable[[], None] | None
    ) -> tuple[Sequence[Ids], VectorTransform | None]:
        """The prompts to encode, and the transform to apply to their vectors (None: no transform)."""
        if self._selector is not None:
            if not any(INSTRUCTION_END in ids for ids in prompts):
                return prompts, None
            selected = self._select(self._selector, prompts, between_parts)
            return selected.prompts, selected.transform
        if not self._reads_instructions_apart:
            return prompts, None
        instructions, texts = split_instructions(prompts)
        if self._expander is not None:
            texts = self._expander.expand(instructions, texts, between_tokens=between_parts)
        return texts, self._instructions.transform_for(instructions, steps, self._encode_instruction)

    def _select(
        self, selector: SentenceSelector, prompts: Sequence[Ids], between_parts: Callable[[], None] | None = None
    ) -> SelectedBatch:
        def own(ids: Ids) -> Tensor:
            return self._instructions.own(ids, 0, self._encode_instruction)[-1]

        read = partial(self._encode_plain, between_parts=between_parts)
        return select_sentences(selector, self._frame, prompts, own=own, read=read)

    def _encode_plain(self, texts: Sequence[Ids], between_parts: Callable[[], None] | None) -> Tensor:
        """Encodes prompts without an instruction by the base model: (N, D). Cached, since passages recur under other
        instructions."""
        different = dict.fromkeys(texts)
        known = {ids: vector for ids in different if (vector := self._plain.get(ids)) is not None}
        new = [ids for ids in different if ids not in known]
        for rows in plan_batches([len(ids) for ids in new], batch_size=_PLAIN_TEXTS, max_tokens=BATCH_TOKENS):
            batch = [new[row] for row in rows]
            vectors = self._pool(self._refine(batch, 0, between_parts=between_parts), 0)[:, -1]
            # Copy: a cached row would keep the whole batch in memory.
            read = {ids: vector.clone() for ids, vector in zip(batch, vectors, strict=True)}
            self._plain.keep(read)
            known |= read
        return torch.stack([known[ids] for ids in texts])

    def _check_positions(self, prompts: Sequence[Ids], steps: int) -> None:
        longest = max(len(ids) for ids in prompts)
        if longest + steps > self._most_positions:
            raise TextError(
                f"{longest} prompt tokens and {steps} steps exceed the model's {self._most_positions} "
                "positions. Take fewer steps or a shorter text."
            )

    def _encode_instruction(self, ids: Ids, steps: int) -> Tensor:
        """Encodes the instruction like a text without an instruction: (K, D), L2-normalised."""
        steps = resolve_defaults(self._contract, "query", "", steps)[1]
        return self._pool(self._refine([ids], steps), steps)[0]

    def _pool(self, states: RefinedStates, steps: int) -> Tensor:
        """Pools the states into vectors (B, K, D), all dimensions."""
        pooling = self._contract.pooling
        if steps == 0 and self._backbone.base is not None:
            pooling = self._contract.plain_pooling or pooling
        return first_dimensions(pool_prefixes(states, pooling), self._contract.dimension)

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
        # At 0 steps only the base model runs, if there is one.
        backbone = self._backbone.base if steps == 0 and self._backbone.base is not None else self._backbone
        steps = 0 if self._contract.pooling in PROMPT_POOLINGS else steps
        return refine_states(
            start_prefill(
                backbone,
                prompts,
                steps=steps,
                pooling=self._contract.pooling,
                frame=self._frame,
                padding_side=self._padding_side,
                between_parts=between_parts,
            ),
            steps=steps,
            temperature=self._contract.temperature,
            logit_bias=logit_bias,
            on_step=on_step,
            stop=stop,
        )


def first_dimensions(prefixes: Tensor, count: int) -> Tensor:
    """The first `count` dimensions, L2-normalised again if any were cut."""
    return prefixes if prefixes.shape[-1] == count else normalize(prefixes[..., :count], dim=-1)


def _have_converged(prefixes: Tensor, tolerance: float) -> bool:
    return bool((step_distances(prefixes) <= tolerance).any(dim=1).all())


class Encoder:
    """Embeds texts with a loaded model and its contract. Thread-safe."""

    def __init__(
        self,
        backbone: Backbone,
        tokenizer: Tokenizer,
        contract: Contract,
        *,
        truncate_dim: int | None = None,
        padding_side: str = "right",
        fragments: Collection[str] = frozenset(),  # not shown as words of soft tokens
        auxiliary: AuxiliaryModels = NO_AUXILIARY_MODELS,
    ) -> None:
        if truncate_dim is not None and not 1 <= truncate_dim <= contract.dimension:
            raise TextError(f"truncate_dim is {truncate_dim}, but must be from 1 to {contract.dimension}.")
        auxiliary.check(contract)
        self._backbone = backbone
        self.auxiliary = auxiliary
        template = TEMPLATES[contract.template]
        self._prompts = PromptTokenizer(
            tokenizer,
            template,
            max_length=contract.max_length,
            instruction_apart=contract.reads_instructions_apart,
            instruction_in_prompt=auxiliary.projection is None,
            marks_sentences=auxiliary.selector is not None,
        )
        expander = None
        if auxiliary.generator is not None:
            expander = Expander(auxiliary.generator, tokenizer, template, max_length=contract.max_length)
        dimension = truncate_dim or contract.dimension
        self._batch_encoder = BatchEncoder(
            backbone,
            contract,
            self._prompts.frame,
            dimension=dimension,
            padding_side=padding_side,
            projection=auxiliary.projection,
            expander=expander,
            selector=auxiliary.selector,
        )
        # Cached: every query shows thousands of words, mostly the same.
        self._shown_word_of = cache(partial(shown_word_of, tokenizer=tokenizer, fragments=fragments))
        self.contract = contract
        self.dimension = dimension
        self._least_steps = contract.min_steps
        self._most_steps = min(contract.most_steps or MAX_STEPS, backbone.max_positions - contract.max_length)

    @property
    def name(self) -> str:
        return self.contract.name

    @property
    def fingerprint(self) -> str:
        return self.contract.fingerprint

    @property
    def max_steps(self) -> int:
        return self._most_steps

    @property
    def info(self) -> ModelInfo:
        contract = self.contract
        return ModelInfo(
            name=contract.name,
            fingerprint=contract.fingerprint,
            dimension=self.dimension,
            max_length=contract.max_length,
            min_steps=contract.min_steps,
            max_steps=self.max_steps,
            default_query_instruction=contract.default_query_instruction,
            default_query_steps=contract.default_query_steps,
            default_document_instruction=contract.default_document_instruction,
            default_document_steps=contract.default_document_steps,
            language=contract.language,
            match_cosines=contract.match_cosines,
            similarity=contract.similarity,
        )

    @property
    def device(self) -> str:
        return str(self._backbone.device)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self._backbone.weight.dtype

    def encode_queries(
        self,
        texts: Sequence[str],
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
        batch_size: int = 32,
        show_progress: bool = False,
    ) -> np.ndarray:
        """Embeds queries: (n, dimension) float32, L2-normalised.

        None means the contract's default; instruction "" means no instruction.
        """
        return self._encode(
            texts,
            *resolve_defaults(self.contract, "query", instruction, steps),
            token_bias=token_bias,
            batch_size=batch_size,
            show_progress=show_progress,
        )

    def encode_documents(
        self,
        texts: Sequence[str],
        *,
        instruction: str | None = None,
        steps: int | None = None,
        batch_size: int = 32,
        show_progress: bool = False,
    ) -> np.ndarray:
        """Embeds documents: (n, dimension) float32, L2-normalised.

        None means the contract's default; instruction "" means no instruction.
        """
        return self._encode(
            texts,
            *resolve_defaults(self.contract, "document", instruction, steps),
            token_bias=None,
            batch_size=batch_size,
            show_progress=show_progress,
        )

    def encode_in_batches(
        self,
        texts: Sequence[str],
        *,
        instruction: str | None = None,
        steps: int | None = None,
        batch_size: int = 32,
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Like `encode_documents`, but yields batches of similar length: row numbers in `texts` and vectors (b,
        dimension).

        A batch is computed only when the caller takes it.
        """
        resolved, count = resolve_defaults(self.contract, "document", instruction, steps)
        yield from self._encode_batches(texts, resolved, count, bias=None, batch_size=batch_size)

    def encode_until_converged(
        self,
        texts: Sequence[str],
        *,
        role: str = "query",
        instruction: str | None = None,
        steps: int | None = None,
        tolerance: float,
        batch_size: int = 32,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Embeds each text until it converges. Returns vectors (n, dimension) and the steps (n,) that each text took.

        A text has converged once a step moves its vector by `tolerance` (1 - cosine) or less; it takes `steps` at most.
        The vector equals that of a run with exactly so many steps.
        """
        instruction, steps = resolve_defaults(self.contract, role, instruction, steps)
        self.check_steps(steps, instruction)
        check_tolerance(tolerance)
        prompts = self._ids(texts, instruction)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        taken = np.empty(len(texts), dtype=np.int64)
        for rows in self._batches(prompts, batch_size):
            prefixes = self._prefixes([prompts[row] for row in rows], steps, None, None, tolerance=tolerance)
            counts = steps_to_convergence(torch.from_numpy(prefixes), tolerance).numpy()
            vectors[rows], taken[rows] = prefixes[np.arange(len(rows)), counts - 1], counts
        return vectors, taken

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
        tolerance: float | None = None,
        top_tokens: int = 30,
    ) -> Refinement:
        """Embeds one query and records every step in readable form.

        tolerance: stop once a step moves the vector by this much (1 - cosine) or less.
        """
        instruction, steps = resolve_defaults(self.contract, "query", instruction, steps)
        self.check_steps(steps, instruction)
        check_tolerance(tolerance)
        prompt = self._ids([text], instruction)
        recorder = self.token_recorder(top_tokens)
        prefixes = self._prefixes(prompt, steps, self._bias(token_bias), recorder, tolerance=tolerance)[0]
        return self.refinement_of(text, instruction, prefixes, recorder)

    def encode_empty(self, *, instruction: str | None = None, steps: int | None = None) -> np.ndarray:
        """The vector (dimension,) of a document without text: of its instruction and template alone."""
        instruction, steps = resolve_defaults(self.contract, "document", instruction, steps)
        self.check_steps(steps, instruction)
        (prompt,) = self._prompts.encode([""], instruction, allow_empty=True)
        return self._prefixes([prompt.ids], steps, None, None)[0, -1]

    def encode_prefixes(
        self, texts: Sequence[str], *, instruction: str = "", steps: int, batch_size: int = 32
    ) -> np.ndarray:
        """z_1..z_K of every text in one run: (n, steps, dimension) float32 (method: causality gives every prefix)."""
        if steps == 0:
            raise TextError(
                "steps must be at least 1 here; encode_documents with 0 steps gives the base model's vector."
            )
        if resolve_defaults(self.contract, "query", instruction, steps)[1] == 0:
            return self.encode_documents(texts, instruction="", steps=0, batch_size=batch_size)[:, None]
        out = np.empty((len(texts), self.check_steps(steps), self.dimension), dtype=np.float32)
        prompts = self._ids(texts, instruction)
        for rows in self._batches(prompts, batch_size):
            out[rows] = self._prefixes([prompts[row] for row in rows], steps, None, None)
        return out

    def read_prompts(self, texts: Sequence[str], instruction: str) -> list[PromptIds]:
        """Builds the prompts of texts for `refine_prompts`. Prompts under different instructions can share a batch."""
        return self._prompts.encode(texts, instruction)

    def refine_prompts(
        self,
        prompts: Sequence[Ids],
        *,
        steps: int,
        token_bias: Mapping[str, float] | None = None,
        on_step: StepObserver | None = None,
        tolerance: float | None = None,
        between_parts: Callable[[], None] | None = None,
    ) -> np.ndarray:
        """z_1..z_K (B, K, dimension) of one batch. Only z_K if the model takes no steps; fewer if all converged by
        `tolerance`.

        A row that is not finite is returned as it is and does not affect the others.

        between_parts: called every few milliseconds while a batch runs on a CPU; it may compute another batch.
        """
        bias = self._bias(token_bias)
        return self._raw_prefixes(prompts, steps, bias, on_step, tolerance=tolerance, between_parts=between_parts)

    def token_recorder(self, top_tokens: int) -> TopTokens:
        """Records the words of a batch; pass it to `refine_prompts` as `on_step`."""
        return TopTokens(top_tokens, self._backbone.soft_ids)

    def words_of(self, observed: TopTokens, row: int) -> tuple[RefinementStep, ...]:
        return observed.steps_of(row, self._shown_word_of)

    def refinement_of(
        self, text: str, instruction: str, prefixes: np.ndarray, observed: TopTokens, *, row: int = 0
    ) -> Refinement:
        """The readable result of one row: its observed steps, as many as `prefixes` (K, D) has."""
        words = self.words_of(observed, row)
        return Refinement.of_prefixes(text, instruction, prefixes, words, read_text=self.read_text(text, instruction))

    def read_text(self, text: str, instruction: str) -> str:
        """The part of a text that the model reads under an instruction; empty if it reads the whole text."""
        if self.auxiliary.selector is None or not instruction:
            return ""
        (prompt,) = self._prompts.encode([text], instruction, logs_cuts=False)
        is_read = self._batch_encoder.encoded_sentences(prompt.ids)
        if all(is_read):
            return ""
        # the prompt may be cut before the last sentences
        spans = self._prompts.marked_sentences(text, instruction)[: len(is_read)]
        return " ".join(text[start:end] for (start, end), is_kept in zip(spans, is_read, strict=True) if is_kept)

    def watch_soft_tokens(
        self,
        texts: Sequence[str],
        on_step: Callable[[Sequence[int], int, Tensor], None],
        *,
        instruction: str = "",
        steps: int,
        batch_size: int = 32,
    ) -> None:
        """Calls `on_step(rows, step, soft_token)` with row numbers in `texts` and their s_k (B, entries), float32, k
        from 1."""
        prompts = self._ids(texts, instruction)
        for rows in self._batches(prompts, batch_size):
            self._prefixes([prompts[row] for row in rows], steps, None, partial(on_step, rows))

    def soft_token_words(self) -> tuple[str, ...]:
        """The readable word of each entry of a soft token."""
        ids = self._backbone.soft_ids
        entries = range(self._backbone.weight.shape[0]) if ids is None else ids.tolist()
        return tuple(word_of(each, self._prompts.vocabulary) for each in entries)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range [start, end) of every token of the bare text, for splitters that count the model's tokens."""
        return self._prompts.token_offsets(text)

    def _encode(
        self,
        texts: Sequence[str],
        instruction: str,
        steps: int,
        *,
        token_bias: Mapping[str, float] | None,
        batch_size: int,
        show_progress: bool = False,
    ) -> np.ndarray:
        batches = self._encode_batches(texts, instruction, steps, bias=self._bias(token_bias), batch_size=batch_size)
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        with tqdm(total=len(texts), disable=not show_progress, unit="text", desc=f"Embedding at {steps} steps") as bar:
            for rows, vectors in batches:
                out[rows] = vectors
                bar.update(len(rows))
        return out

    def _encode_batches(
        self, texts: Sequence[str], instruction: str, steps: int, *, bias: Tensor | None, batch_size: int
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        if isinstance(texts, str):
            raise TextError("Give a list of texts, not one string.")
        if batch_size < 1:
            raise TextError(f"batch_size is {batch_size}, but must be at least 1.")
        self.check_steps(steps, instruction)
        rows_of: dict[Ids, list[int]] = {}  # equal prompts are computed once
        for row, ids in enumerate(self._ids(texts, instruction)):
            rows_of.setdefault(ids, []).append(row)
        different, rows = list(rows_of), list(rows_of.values())
        for batch in self._batches(different, batch_size):
            prompts = [different[each] for each in batch]
            vectors = self._prefixes(prompts, steps, bias, None)[:, -1]
            shared = [rows[each] for each in batch]
            yield [row for each in shared for row in each], np.repeat(vectors, [len(each) for each in shared], axis=0)

    def _ids(self, texts: Sequence[str], instruction: str) -> list[Ids]:
        return [each.ids for each in self._prompts.encode(texts, instruction)]

    @staticmethod
    def _batches(prompts: Sequence[Ids], batch_size: int) -> Iterator[list[int]]:
        return plan_batches([len(ids) for ids in prompts], batch_size=batch_size, max_tokens=BATCH_TOKENS)

    def _prefixes(
        self,
        prompts: Sequence[Ids],
        steps: int,
        bias: Tensor | None,
        on_step: StepObserver | None,
        *,
        tolerance: float | None = None,
    ) -> np.ndarray:
        prefixes = self._raw_prefixes(prompts, steps, bias, on_step, tolerance=tolerance)
        if not np.isfinite(prefixes).all():
            raise ContractError(f"Model {self.name!r} returned a vector with NaN or infinity. Try dtype='float32'.")
        return prefixes

    def _raw_prefixes(
        self,
        prompts: Sequence[Ids],
        steps: int,
        bias: Tensor | None,
        on_step: StepObserver | None,
        *,
        tolerance: float | None = None,
        between_parts: Callable[[], None] | None = None,
    ) -> np.ndarray:
        """z_1..z_K (B, K, dimension) of one batch; fewer if all converged earlier by `tolerance`."""
        self.check_steps(steps)
        prefixes = self._batch_encoder.encode(
            prompts, steps, logit_bias=bias, on_step=on_step, tolerance=tolerance, between_parts=between_parts
        )
        return prefixes.cpu().numpy()

    def _bias(self, token_bias: Mapping[str, float] | None) -> Tensor | None:
        if not token_bias:
            return None
        size, ids = self._backbone.weight.shape[0], self._backbone.soft_ids
        return bias_vector(token_bias, self._prompts.vocabulary, size, ids).to(self._backbone.device)

    def check_steps(self, steps: int, instruction: str = "") -> int:
        """Returns `steps`. Raises TextError if the model cannot take so many."""
        least, most = self._least_steps, self._most_steps
        if not isinstance(steps, int) or not least <= steps <= most:
            raise TextError(f"steps is {steps!r}, but must be a whole number from {least} to {most}.")
        if steps == 0 and instruction:
            raise TextError(
                "0 steps give the base model's vector, which follows no instruction. Remove the instruction."
            )
        return steps


class LibraryEncoder(Encoder):
    """An `Encoder` with a cache, for use as a library.

    - cache_mb: memory for the cache of vectors.
    - own_thread: compute in one thread per process, whichever thread calls.
    """

    def __init__(self, *parts: Any, cache_mb: float, own_thread: bool, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._cache = VectorCache(cache_mb) if cache_mb > 0 else None
        self._has_own_thread = own_thread

    def _raw_prefixes(self, *batch: Any, **options: Any) -> np.ndarray:
        compute = super()._raw_prefixes
        return on_model_thread(compute, *batch, **options) if self._has_own_thread else compute(*batch, **options)

    def _encode_batches(
        self, texts: Sequence[str], instruction: str, steps: int, *, bias: Tensor | None, batch_size: int
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        if self._cache is None or bias is not None or isinstance(texts, str):
            yield from super()._encode_batches(texts, instruction, steps, bias=bias, batch_size=batch_size)
            return
        ids = [prompt.ids for prompt in self.read_prompts(texts, instruction)]
        known = {row: vector for row, each in enumerate(ids) if (vector := self._cache.get(each, steps)) is not None}
        if known:
            yield list(known), np.stack(list(known.values()))
        new = [row for row in range(len(texts)) if row not in known]
        rest = [texts[row] for row in new]
        for rows, vectors in super()._encode_batches(rest, instruction, steps, bias=None, batch_size=batch_size):
            for row, vector in zip(rows, vectors, strict=True):
                self._cache.keep(ids[new[row]], steps, vector)
            yield [new[row] for row in rows], vectors
