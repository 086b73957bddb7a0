"""What must be known of a model to use it, wherever it runs. A plain value, without torch."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_MODEL = "gircse-small"
# So that what an earlier default filled can be told by name: fingerprints of the shipped models.
SHIPPED_MODELS = {
    "bfd348f6b4e5072bb9e7a8ef3dff5a74": "gircse-mini",
    "d0998c503adda07e21a1555bf4751882": "gircse-base",
    "6243f5eba1579a4098d8e2988285e204": "gircse-small",
    "129e606cde86a552cc7bd13613d011fc": "gircse-270m",
}


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
    language: str | None = None  # the only one that the model reads, by its English name; None: several, or unknown
    similarity: str = "cosine"  # `max_sim`: a document has a vector for every step, of which the most alike counts

    def vectors_per_document(self, steps: int) -> int:
        """Of documents that are embedded with so many steps."""
        return steps if self.similarity == "max_sim" else 1
