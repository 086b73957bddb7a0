"""Values that are proposed for an instruction, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_INSTRUCTION_CHARACTERS = 2_000


class ProposalSource(StrEnum):
    """In the order in which they are shown; lenses and the bank are one source."""

    LENS = "lens"  # saved ones, and those that come with the product
    BANK = "bank"  # aspects that come with the product
    METADATA = "metadata"  # of the collection's documents
    TEXTS = "texts"  # the model's soft tokens on texts of the collection


@dataclass(frozen=True, slots=True)
class ValueProposal:
    """`name` is that of the lens, the aspect or the metadata key; empty for TEXTS.

    `fitting` of the `texts` of the collection that were looked at fit one of the values. `similarity` is the cosine of
    the instruction and the wordings nearest to it; None for TEXTS.
    """

    values: tuple[str, ...]
    source: ProposalSource
    name: str
    similarity: float | None
    fitting: int
    texts: int
