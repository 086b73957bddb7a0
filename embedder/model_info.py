"""Model facts that a client needs, wherever the model runs. A plain value, without torch."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_MODEL = "gircse-small"
# Fingerprints of the shipped models, to recognise by name data that an earlier default filled.
SHIPPED_MODELS = {
    "bfd348f6b4e5072bb9e7a8ef3dff5a74": "gircse-mini",
    "d0998c503adda07e21a1555bf4751882": "gircse-base",
    "6243f5eba1579a4098d8e2988285e204": "gircse-small",
    "129e606cde86a552cc7bd13613d011fc": "gircse-270m",
}
# Shipped models with a distribution of their own, because they need further packages, and what pip installs for them.
MODEL_PACKAGES = {"gircse-base": "gircse-base", "gircse-270m": "gircse-embedder[gemma]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """Facts about a model. `card` is its model card in Markdown, or None."""

    name: str
    fingerprint: str  # vectors of different fingerprints must not be compared
    dimension: int
    max_length: int  # tokens of a prompt; longer texts are cut
    max_steps: int
    default_query_instruction: str
    default_query_steps: int
    default_document_instruction: str
    default_document_steps: int
    min_steps: int = 1  # 0 if the base model can embed by itself, without instruction and refinement
    card: str | None = None
    # the only language that the model reads, by its English name; None: several, or unknown
    language: str | None = None
    # least cosines of a fair and of a strong match, query and passage both under an instruction at one step; None: they
    # mean different things under different instructions, or were not measured
    match_cosines: tuple[float, float] | None = None
    similarity: str = "cosine"  # `max_sim`: a document has one vector per step, and the most similar one counts

    def vectors_per_document(self, steps: int) -> int:
        """How many vectors a document gets at this number of steps."""
        return steps if self.similarity == "max_sim" else 1
