"""Values that are proposed for an instruction, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProposalSource(StrEnum):
    """In the order in which sources are asked."""

    BANK = "bank"  # aspects that come with the product
    METADATA = "metadata"  # of the collection's documents
    TEXTS = "texts"  # the model's soft tokens on texts of the collection


@dataclass(frozen=True, slots=True)
class ValueProposal:
    """`name` is that of the aspect or of the metadata key; empty for TEXTS.

    `fitting` of the `texts` of the collection that were looked at fit one of the values. `similarity` is the cosine of
    the instruction and what the source was found by; None for TEXTS.
    """

    values: tuple[str, ...]
    source: ProposalSource
    name: str
    similarity: float | None
    fitting: int
    texts: int
