"""What must be known of a model to use it, wherever it runs. A plain value, without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """`card` is the model's own description in Markdown, where it brings one."""

    name: str
    fingerprint: str  # vectors of different ones must not be compared
    dimension: int
    max_length: int  # tokens of a prompt; what is longer is cut
    max_steps: int
    default_query_instruction: str
    default_query_steps: int
    default_document_instruction: str
    default_document_steps: int
    min_steps: int = 1  # 0 where the base model has a vector of its own, without instruction and refinement
    card: str | None = None
