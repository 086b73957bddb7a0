"""Computes the loss of a batch: embeds both sides through the KV cache and sums the terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedder.errors import DataError
from embedder.model.backbone import Backbone
from embedder.model.prefill import PaddedPrefill, on_device, pad, padded_prefill, split_by_length
from embedder.model.refine import PROMPT_POOLINGS, pool_prefixes, refine_states
from embedder.text.prompts import PromptTokenizer
from embedder.training.config import TrainConfig
from embedder.training.embedded import Embedded, MeanSoftToken
from embedder.training.gradcache import backward_in_chunks
from embedder.training.instruction_negatives import instruction_negative_loss
from embedder.training.lora import folded_lora
from embedder.training.losses import (
    distillation,
    grounding,
    icr_loss,
    info_nce,
    stepwise_info_nce,
    stepwise_scores,
    truncations,
    unlike_positive,
)
from embedder.training.model import refuse_gradient_checkpointing
from embedder.training.privileged import (
    PrivilegedReading,
    gather_states,
    privileged_terms,
    privileged_texts,
    step_places,
)
from embedder.training.sampling import Batch
from embedder.training.words import Bags, WordIndex

# Shares of a query's word bag: hints (label names, the positive) and its own words; without hints only its own words.
_HINT_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a loss, for the log; `stepwise` is L_1..L_K."""

    total: Tensor
    stepwise: list[float]
    distillation: float
    grounding: float
    repetition: float
    privileged: float  # both divergences of LaSER, unweighted
    instruction_negatives: float = 0.0  # mean over steps, unweighted
    reconstruction: tuple[float, ...] = ()  # L_Q2D and L_D2Q, for that objective


@dataclass(slots=True)
class Side:
    """The queries or documents of a batch, and the targets of their losses."""

    texts: Sequence[str]
    instruction: str
    teacher_vectors: Tensor | None  # the teacher's embeddings (B, D), if a term needs them
    needs_teacher: bool
    is_base: bool  # uses the teacher's vectors
    is_plain: bool  # keeps the teacher's geometry
    bags: Bags | None  # target words of the soft tokens
    grounding_share: float  # share in the batch's grounding term


class Objective:
    """Everything constant across batches: student, teacher, tokenizer, words, config.

    autocast: active only in the model's forward passes; every loss is computed in float32.
    """

    def __init__(
        self,
        student: Backbone,
        teacher: Backbone | None,
        prompts: PromptTokenizer,
        long_prompts: PromptTokenizer,
        words: WordIndex,
        config: TrainConfig,
        *,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        refuse_gradient_checkpointing(student.model)
        if any(size >= student.hidden_size for size in config.matryoshka):
            raise DataError(
                f"matryoshka is {list(config.matryoshka)}, but must be below the {student.hidden_size} dimensions of "
                "the whole vector, which is always trained."
            )
        self._student = student
        self._teacher = teacher
        self._prompts = prompts
        self._long_prompts = long_prompts
        self._words = words
        self._config = config
        self._autocast = autocast
        self._watches_tokens = bool(config.grounding_weight or config.coverage_weight)
        # weights of the terms per text: grounding, repetition
        self._own_weights = torch.tensor([config.grounding_weight, config.coverage_weight], device=student.device)

    def __call__(self, batches: Sequence[Batch]) -> Terms:
        """Computes the loss of all batches in one graph. They take the same steps; each loss is within its batch, and
        they are averaged.

        With `plain_documents`, documents without an instruction have the base's vectors, as stored for search. So
        training moves queries towards documents and not documents towards queries.
        """
        sides = self._sides(batches)
        steps = self._steps_of(batches[0])
        prompts = [
            (side.instruction, side.texts, batch.long)
            for batch, pair in zip(batches, sides, strict=True)
            for side in pair
            if not side.is_base
        ]
        with folded_lora(self._student.model):
            whole = self._embed(prompts, steps)
        embedded = iter(whole.split([len(texts) for _, texts, _ in prompts]))
        found = []
        for batch, pair in zip(batches, sides, strict=True):
            parts = [self._embedding_of_base(side, steps) if side.is_base else next(embedded) for side in pair]
            own = sum((self._own(batch, *each) for each in zip(pair, (0, 0), parts, strict=True)), torch.zeros(()))
            privileged, divergences = self._privileged(batch, parts[0], parts[1], steps)
            rows = torch.cat([part.prefixes for part in parts])
            poisoned = self._poisoned(batch, parts[0], parts[1], steps)
            found.append((*self._joint(batch, pair, rows), own, privileged, divergences, poisoned))
        joint, stepwise, distilled, own, privileged, divergences, poisoned = (
            torch.stack(each).mean(0) for each in zip(*found, strict=True)
        )
        total = joint + own @ self._own_weights + privileged + self._config.instruction_negative_weight * poisoned
        return _terms(total, stepwise, distilled, own, divergences, poisoned)

    def backward(self, batches: Sequence[Batch]) -> Terms:
        """Adds the batches' gradient to the parameters. A single batch runs in chunks of at most `chunk_size` texts, if
        set."""
        size = self._config.chunk_size
        if size is None:
            terms = self(batches)
            terms.total.backward()
            return terms
        (batch,) = batches
        (sides,) = self._sides(batches)
        seen: list[tuple[Tensor, Tensor]] = []

        def joint_loss(rows: Tensor) -> Tensor:
            joint, stepwise, distilled = self._joint(batch, sides, rows)
            seen.append((stepwise, distilled))
            return joint

        chunks = [
            partial(self._chunk, batch, side, start, start + size)
            for side in sides
            for start in range(0, len(side.texts), size)
        ]
        joint, own = backward_in_chunks(chunks, joint_loss, own_weights=self._own_weights)
        return _terms(joint + own @ self._own_weights, *seen[0], own, own.new_zeros(()), own.new_zeros(()))

    def _sides(self, batches: Sequence[Batch]) -> list[tuple[Side, Side]]:
        """Queries and documents of every batch, in one pass, with the teacher's vectors of batches that need them."""
        pairs = [self._sides_of(batch) for batch in batches]
        for long in (False, True):
            waiting = [side for batch, pair in zip(batches, pairs, strict=True) for side in pair if batch.long is long]
            waiting = [side for side in waiting if side.needs_teacher]
            if waiting:
                vectors = self.teacher_vectors([text for side in waiting for text in side.texts], long=long)
                for side, part in zip(waiting, vectors.split([len(side.texts) for side in waiting]), strict=True):
                    side.teacher_vectors = part
        return pairs

    def _sides_of(self, batch: Batch) -> tuple[Side, Side]:
        config = self._config
        # Retrieval queries stay near the documents, and texts compared for similarity stay in place.
        similar = batch.kind == "similarity" or (config.plain_documents and batch.kind == "pairs")
        bags = self._bags(batch)
        guided = config.false_negative_margin is not None and batch.kind in ("pairs", "similarity")
        sides = []
        for texts, instruction, bag in (
            (batch.queries, batch.query_instruction, bags[0]),
            (batch.documents, batch.document_instruction, bags[1]),
        ):
            is_base = config.plain_documents and texts is batch.documents and not instruction
            # Plain texts, and texts under a pure similarity instruction, keep the base's geometry.
            is_plain = bool(config.distillation_weight) and (not instruction or similar) and not is_base
            is_plain = is_plain and batch.kind != "label_names"
            share = 0.0 if bag is None else 1 / sum(each is not None for each in bags)
            needs_teacher = is_plain or guided or is_base
            sides.append(Side(texts, instruction, None, needs_teacher, is_base, is_plain, bag, share))
        return sides[0], sides[1]

    def _chunk(self, batch: Batch, side: Side, start: int, stop: int) -> tuple[Tensor, Tensor]:
        with folded_lora(self._student.model):
            part = [(side.instruction, side.texts[start:stop], batch.long)]
            embedded = self._embed(part, self._steps_of(batch))
        return embedded.prefixes, self._own(batch, side, start, embedded)

    def _joint(self, batch: Batch, sides: tuple[Side, Side], rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss on the embeddings of queries, then documents (Q + M, K, D); its L_1..L_K and distillation term."""
        config = self._config
        queries, documents = sides
        allowed = on_device(torch.from_numpy(batch.allowed), rows.device)
        if (
            config.false_negative_margin is not None
            and queries.teacher_vectors is not None
            and documents.teacher_vectors is not None
        ):
            allowed = allowed & unlike_positive(
                queries.teacher_vectors, documents.teacher_vectors, margin=config.false_negative_margin
            )
        losses = []
        for cut in truncations(rows, config.matryoshka):
            query_prefixes, document_prefixes = cut[: len(queries.texts)], cut[len(queries.texts) :]
            scores = stepwise_scores(query_prefixes, document_prefixes, similarity=config.similarity)
            stepwise = info_nce(scores, temperature=config.temperature, allowed=allowed)
            if batch.kind == "name_queries":  # a text must also distinguish the names
                back = info_nce(scores.transpose(1, 2), temperature=config.temperature, allowed=allowed.T)
                stepwise = (stepwise + back) / 2
            losses.append(
                icr_loss(
                    stepwise if config.supervise == "every" else stepwise[-1:],
                    reduction=config.reduction,
                    regulariser_weight=config.regulariser_weight,
                    margin=config.regulariser_margin,
                    rising=config.rising,
                )
            )
        distilled = self._distil(batch, sides, rows)
        return torch.stack(losses).mean() + config.distillation_weight * distilled, stepwise, distilled

    def _own(self, batch: Batch, side: Side, start: int, embedded: Embedded) -> Tensor:
        """The contribution of these rows, from `start`, to the batch's mean grounding and repetition (2,)."""
        grounded = embedded.repetition.new_zeros(())
        if side.bags is not None and side.bags.row_count:
            whole = start == 0 and len(embedded.repetition) == len(side.texts)
            part = side.bags if whole else side.bags.between(start, start + len(embedded.repetition))
            share = side.grounding_share * part.row_count / side.bags.row_count
            grounded = share * grounding(embedded.mean_token, part.rows, part.ids, part.weights, texts=part.row_count)
        return torch.stack([grounded, embedded.repetition.sum() / (len(batch.queries) + len(batch.documents))])

    def _steps_of(self, batch: Batch) -> int:
        return 0 if self._config.pooling in PROMPT_POOLINGS else batch.steps

    def _embedding_of_base(self, side: Side, steps: int) -> Embedded:
        """The base's vectors of a side, the same for every step; without soft tokens."""
        assert side.teacher_vectors is not None
        none = side.teacher_vectors.new_zeros(len(side.texts))
        prefixes = side.teacher_vectors[:, None].expand(-1, max(steps, 1), -1)
        return Embedded(prefixes, prefixes[:, :steps], none[:, None], none)

    def _embed(self, parts: Sequence[tuple[str, Sequence[str], bool]], steps: int) -> Embedded:
        """Embeds the texts of all parts in one batch: a step over few rows would leave the processor idle.

        parts: instruction, texts, and whether to use the longer training length.
        """
        ids = [
            each.ids
            for instruction, texts, long in parts
            for each in (self._long_prompts if long else self._prompts).encode(texts, instruction)
        ]
        groups = split_by_length([len(each) for each in ids])
        embedded = []
        for rows in groups:
            observer = MeanSoftToken(len(rows), self._student.soft_weight)
            with self._autocast():
                states = refine_states(
                    self._prefill([ids[row] for row in rows]),
                    steps=steps,
                    on_step=observer if self._watches_tokens else None,
                )
            pooled = pool_prefixes(states, self._config.pooling), normalize(states.generated, dim=-1)
            embedded.append((*pooled, observer.mean(), observer.repetition()))
        order = torch.tensor([row for rows in groups for row in rows]).argsort()
        order = on_device(order, self._student.device)
        return Embedded(*(torch.cat(each)[order] for each in zip(*embedded, strict=True)))

    def _prefill(self, prompts: Sequence[Sequence[int]]) -> PaddedPrefill:
        return padded_prefill(self._student, prompts, pooling=self._config.pooling, frame=self._prompts.frame)

    def _privileged(self, batch: Batch, queries: Embedded, documents: Embedded, steps: int) -> tuple[Tensor, Tensor]:
        """LaSER's term of a batch's loss (Eq 13), and the sum of its two divergences."""
        config = self._config
        reading = self._read_privileged(batch, steps) if config.privileged_weight else None
        if reading is None:
            return queries.prefixes.new_zeros(()), queries.prefixes.new_zeros(())
        found, rows = documents.prefixes[:, -1], reading.rows
        whole, by_step = privileged_terms(reading, queries.prefixes[rows], queries.generated[rows], found)
        # Document i is the positive of query i, so documents of queries without a reading move to the end.
        others = torch.ones(len(found), dtype=torch.bool, device=rows.device).index_fill(0, rows, value=False)
        order = torch.cat([rows, others.nonzero()[:, 0]])
        allowed = on_device(torch.from_numpy(batch.allowed), rows.device)[rows][:, order]
        contrast = stepwise_info_nce(
            reading.final[:, None], found[order][:, None], temperature=config.temperature, allowed=allowed
        )
        added = contrast[0] + config.privileged_weight * whole + config.privileged_step_weight * by_step
        return added, whole + by_step

    def _poisoned(self, batch: Batch, queries: Embedded, documents: Embedded, steps: int) -> Tensor:
        """The loss of queries under an instruction that makes their document irrelevant; 0 if the batch has none."""
        if not self._config.instruction_negative_weight or not batch.other_instruction:
            return queries.prefixes.new_zeros(())
        with folded_lora(self._student.model):
            poisoned = self._embed([(batch.other_instruction, batch.queries, batch.long)], steps)
        count = len(batch.queries)
        return instruction_negative_loss(
            queries.prefixes,
            poisoned.prefixes,
            documents.prefixes[:count],
            temperature=self._config.temperature,
            allowed=on_device(torch.from_numpy(batch.allowed[:, :count]), self._student.device),
        ).mean()

    def _read_privileged(self, batch: Batch, steps: int) -> PrivilegedReading | None:
        """Encodes queries with their hints in one pass; None if there are none."""
        texts = privileged_texts(batch.queries, batch.hints, batch.documents)
        rows = [at for at, text in enumerate(texts) if text is not None]
        if not rows:
            return None
        prompts = self._long_prompts if batch.long else self._prompts
        alone = prompts.encode([batch.queries[at] for at in rows], batch.query_instruction)
        whole = prompts.encode([text for text in texts if text is not None], batch.query_instruction)
        places = [
            step_places(min(len(query.ids), len(each.ids)), len(each.ids), steps=steps)
            for query, each in zip(alone, whole, strict=True)
        ]
        with self._autocast(), folded_lora(self._student.model):
            states = self._prefill([each.ids for each in whole]).read_states()
        # Right padding, so that a token's position is its column.
        return PrivilegedReading(torch.tensor(rows, device=states.device), gather_states(states, places))

    def _distil(self, batch: Batch, sides: tuple[Side, Side], rows: Tensor) -> Tensor:
        embedded = rows.split([len(side.texts) for side in sides])
        terms = [
            distillation(prefixes, side.teacher_vectors)
            for side, prefixes in zip(sides, embedded, strict=True)
            if side.is_plain and side.teacher_vectors is not None
        ]
        if not terms:
            return rows.new_zeros(())
        # documents of queries with an instruction may move further
        weight = 1.0 if batch.kind in ("pairs", "similarity") else self._config.free_document_share
        return weight * torch.stack(terms).mean()

    @torch.no_grad()
    def teacher_vectors(self, texts: Sequence[str], *, long: bool = False) -> Tensor:
        """The base model's embedding of the bare texts: the mean of its prompt states (B, D)."""
        if self._teacher is None:
            raise ValueError("There is no teacher; set distillation_weight above 0, or false_negative_margin.")
        ids = [each.ids for each in (self._long_prompts if long else self._prompts).encode(texts, "")]
        out = torch.empty(len(ids), self._teacher.hidden_size, device=self._teacher.device)
        size = self._config.chunk_size or len(ids)
        for group in split_by_length([len(each) for each in ids]):
            for rows in (group[start : start + size] for start in range(0, len(group), size)):
                prompt = pad([ids[row] for row in rows], device=self._teacher.device)
                out[rows] = PaddedPrefill(self._teacher, prompt).read()[1]
        return normalize(out, dim=-1)

    def _bags(self, batch: Batch) -> tuple[Bags | None, Bags | None]:
        """Word bags of queries and of documents; documents under an instruction have none."""
        if not self._config.grounding_weight:
            return None, None
        pieces = self._words.pieces if self._student.soft_ids is None else None
        hint_share = _HINT_SHARE if batch.query_instruction and batch.kind != "similarity" else 0.3
        queries = self._words.bags(
            [
                [(query, 1 - hint_share), *((hint, hint_share / len(hints)) for hint in hints)]
                for query, hints in zip(batch.queries, batch.hints, strict=True)
            ]
        ).to(self._student.device, pieces)
        if batch.document_instruction or self._config.plain_documents:
            return queries, None
        return queries, self._words.bags([[(text, 1.0)] for text in batch.documents]).to(self._student.device, pieces)


def _terms(
    total: Tensor, stepwise: Tensor, distilled: Tensor, own: Tensor, privileged: Tensor, poisoned: Tensor
) -> Terms:
    grounded, repeated = own.detach().tolist()
    alone, privileged_loss, other = (float(each.detach()) for each in (distilled, privileged, poisoned))
    return Terms(total, stepwise.detach().tolist(), alone, grounded, repeated, privileged_loss, other)
