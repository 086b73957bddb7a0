"""LaSER: a reading that sees more than the query supervises the soft tokens (Jin et al. 2026, section 3.4-3.5).

The same weights encode the query with additional knowledge, such as its label, and rank the batch's documents. The loss
pulls the ranking by the query's soft tokens towards that ranking, for the whole vector and step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

OUTPUT_TEMPERATURE = 0.02
STEP_TEMPERATURE = 0.05


@dataclass(frozen=True, slots=True)
class PrivilegedReading:
    """States of a batch's queries read with their hints, all L2-normalised."""

    rows: Tensor  # (n,) rows of the queries that have one
    steps: Tensor  # h^E of Eq 12: states after a share i/K of the additional tokens (n, K, D)

    @property
    def final(self) -> Tensor:
        """v* of Eq 7, the state after all tokens (n, D)."""
        return self.steps[:, -1]


def privileged_texts(
    queries: Sequence[str], hints: Sequence[Sequence[str]], documents: Sequence[str]
) -> list[str | None]:
    """Queries with their hints; None if every hint is one of the documents, because it would give away the answer."""
    known = set(documents)
    usable = ([hint for hint in each if hint not in known] for each in hints)
    return [f"{query}\n{', '.join(each)}" if each else None for query, each in zip(queries, usable, strict=True)]


def step_places(query_length: int, whole_length: int, *, steps: int) -> list[int]:
    """Token positions of h^E_1..h^E_K: after j_i = ⌊i·M/K⌋ of the M tokens that follow the query (Eq 11)."""
    added = whole_length - query_length
    return [query_length - 1 + added * step // steps for step in range(1, steps + 1)]


def privileged_terms(
    reading: PrivilegedReading, prefixes: Tensor, generated: Tensor, documents: Tensor
) -> tuple[Tensor, Tensor]:
    """The two divergences, of the whole vector (Eq 9-10) and of the steps (Eq 12); both are 0 if the readings agree.

    prefixes, generated: z_1..z_K and g_1..g_K of the queries that have a reading (n, K, D). documents: their final
    vectors (M, D). The privileged side is only a teacher: it gets no gradient here.
    """
    whole = divergence(reading.final, prefixes[:, -1], documents, temperature=OUTPUT_TEMPERATURE)
    steps = divergence(reading.steps.flatten(0, 1), generated.flatten(0, 1), documents, temperature=STEP_TEMPERATURE)
    return whole, steps


def divergence(teacher: Tensor, student: Tensor, documents: Tensor, *, temperature: float) -> Tensor:
    """KL(p^E, p^L) of the rankings of documents (M, D), averaged over the rows of teacher and student (n, D)."""
    taught = (teacher.detach() @ documents.detach().T / temperature).log_softmax(dim=-1)
    scores = (student @ documents.T / temperature).log_softmax(dim=-1)
    return F.kl_div(scores, taught, reduction="batchmean", log_target=True)


def gather_states(states: Tensor, places: Sequence[Sequence[int]]) -> Tensor:
    """L2-normalised states (n, K, D) at each row's `places`, from (n, N, D)."""
    at = torch.tensor(places, device=states.device)
    return F.normalize(states.float().gather(1, at[:, :, None].expand(-1, -1, states.shape[-1])), dim=-1)
