"""Proposed values for an instruction, with their sources."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_INSTRUCTION_CHARACTERS = 2_000


class ProposalSource(StrEnum):
    """Sources of proposals in display order; lenses and the bank are ranked together."""

    LENS = "lens"  # saved and built-in lenses
    BANK = "bank"  # built-in aspects
    METADATA = "metadata"  # of the collection's documents
    TEXTS = "texts"  # the model's soft tokens for texts of the collection


@dataclass(frozen=True, slots=True)
class ValueProposal:
    """Proposed values. `name`: of the lens, aspect or metadata key; empty for TEXTS.

    `fitting`: how many of the `texts` sampled texts fit one of the values. `similarity`: cosine of the instruction with
    the nearest wordings; None for TEXTS.
    """

    values: tuple[str, ...]
    source: ProposalSource
    name: str
    similarity: float | None
    fitting: int
    texts: int
