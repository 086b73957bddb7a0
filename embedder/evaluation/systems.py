"""Systems of the field as choices over one loaded model: template, attention and pooling, and what is subtracted.

None of them is trained here; a model's own adapter, where it has one, is read by all of them alike. Models that were
trained as one of them stand beside them as they are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from embedder.backbone import Backbone
from embedder.checkpoint import Checkpoint, load_encoder
from embedder.contract import Contract
from embedder.encoder import Encoder
from embedder.errors import ContractError
from embedder.evaluation.outcomes import Steps
from embedder.pooling import PROMPT_POOLINGS


@dataclass(frozen=True, slots=True)
class System:
    """None: as the model's contract has it. subtracted: how much of the instruction's own vector is taken away."""

    name: str
    source: str
    template: str | None = None
    attention: str | None = None
    pooling: str | None = None
    temperature: float | None = None
    subtracted: float = 0.0
    has_all_steps: bool = False  # a vector for every step, of which the most alike counts

    def contract_of(self, contract: Contract) -> Contract:
        """Of a model that is this system: it can be served, and its fingerprint is another."""
        return replace(
            contract,
            golden=(),
            plain_pooling=None,
            default_query_steps=max(1, contract.default_query_steps),
            default_document_steps=max(1, contract.default_document_steps),
            template=self.template or contract.template,
            attention=self.attention or contract.attention,
            pooling=self.pooling or contract.pooling,
            similarity="cosine" if self.pooling in PROMPT_POOLINGS else contract.similarity,
            temperature=self.temperature or contract.temperature,
            context_encoder=None if self.template else contract.context_encoder,
        )


_HARD = 1e-4  # at which a soft token is one word alone

SYSTEMS = {
    system.name: system
    for system in (
        System("GIRCSE", "soft tokens, as the model's contract has them"),
        System("Causal-EOS", "GIRCSE, section 4.1", attention="causal", pooling="prompt_last"),
        System("Causal-Avg", "GIRCSE, section 4.1", attention="causal", pooling="prompt_mean"),
        System("Bidirectional-Avg", "GIRCSE, section 4.1", attention="prefix", pooling="prompt_mean"),
        System("SGPT", "Muennighoff 2022", attention="causal", pooling="prompt_weighted_mean"),
        System("Echo", "Springer et al. 2024", template="echo", attention="causal", pooling="prompt_copy_mean"),
        System("PromptEOL", "Jiang et al. 2023", template="prompt_eol", attention="causal", pooling="prompt_last"),
        System("Hard tokens", "InBedder, Peng et al. 2024", temperature=_HARD),
        System("Best step", "max-sim over steps, as DEBATER, Ji et al. 2025", has_all_steps=True),
        System("GIRCSE - 0.5 instruction", "as CASE", subtracted=0.5),
        System("GIRCSE - 1.0 instruction", "as CASE", subtracted=1.0),
    )
}


def choose_systems(names: Sequence[str]) -> list[System]:
    """By their names; `all` stands for every one. Raises ContractError that names the known ones."""
    if "all" in names:
        return list(SYSTEMS.values())
    if unknown := sorted(set(names) - set(SYSTEMS)):
        raise ContractError(f"There is no system {unknown[0]!r}; there are all, {', '.join(SYSTEMS)}.")
    return [SYSTEMS[name] for name in names]


@dataclass(slots=True)
class Cost:
    """Processor time, which other programs on the machine change less than time on the clock."""

    texts: int = 0
    seconds: float = 0.0

    def added_to(self, kept: dict[str, float] | None) -> dict[str, float]:
        """With what a results file holds already; from then on counts anew."""
        before = kept or {"texts": 0, "seconds": 0.0}
        total = {"texts": before["texts"] + self.texts, "seconds": round(before["seconds"] + self.seconds, 4)}
        self.texts, self.seconds = 0, 0.0
        return total


class SystemEmbedder:
    """A system over a model, for tasks. Those that generate take `steps` on both sides."""

    has_steps = False

    def __init__(self, system: System, encoder: Encoder, *, steps: int, batch_size: int = 32) -> None:
        self.name = system.name
        self.encoder = encoder
        self._subtracted = system.subtracted
        self.has_all_steps = system.has_all_steps or encoder.contract.has_max_sim
        self.cost = Cost()
        self._steps = steps
        self._batch_size = batch_size

    @property
    def fingerprint(self) -> str:
        return self.encoder.fingerprint

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]:
        start = time.process_time()
        found = self._encode(texts, instruction)
        if instruction and self._subtracted:
            found = without_instruction(found, self._encode([instruction], ""), self._subtracted)
        self.cost.texts += len(texts)
        self.cost.seconds += time.process_time() - start
        return {None: found}

    def _encode(self, texts: Sequence[str], instruction: str) -> np.ndarray:
        if self.has_all_steps:  # (n, K, D)
            return self.encoder.encode_prefixes(
                texts, instruction=instruction, steps=self._steps, batch_size=self._batch_size
            )
        return self.encoder.encode_queries(
            texts, instruction=instruction, steps=self._steps, batch_size=self._batch_size
        )


def without_instruction(vectors: np.ndarray, instruction: np.ndarray, share: float) -> np.ndarray:
    """z(instruction + text) - share · z(instruction), L2-normalised: (n, D) and (1, D) to (n, D), or at every step."""
    left = vectors - share * instruction
    return left / np.linalg.norm(left, axis=-1, keepdims=True).clip(1e-12)


def open_systems(
    systems: Sequence[System], checkpoint: Checkpoint, parts: tuple[Backbone, Tokenizer], *, steps: int
) -> list[SystemEmbedder]:
    """All over the same weights."""
    backbone, tokenizer = parts
    embedders = []
    for system in systems:
        contract = system.contract_of(checkpoint.contract)
        context = backbone.context if contract.context_encoder else None
        body = replace(backbone, attention=contract.attention, context=context)
        if backbone.decoder is not None:
            sight = backbone.decoder.with_sight(both_ways=contract.attention == "prefix")
            body = replace(body, decoder=sight)
        embedders.append(SystemEmbedder(system, Encoder(body, tokenizer, contract), steps=steps))
    return embedders


def open_trained(
    folders: Sequence[Path],
    *,
    device: str,
    steps: Sequence[int],
    dtype: str | None = None,
    best_step: bool = False,
) -> list[SystemEmbedder]:
    """Models that were trained as a system, as their contracts say; those that generate, at each of `steps`, and with
    `best_step` also by the most alike of them.

    Raises ContractError where two have one name.
    """
    embedders = []
    for folder in folders:
        encoder = load_encoder(str(folder), device=device, dtype=dtype)
        generates = encoder.contract.pooling not in PROMPT_POOLINGS
        for count in steps if generates else steps[:1]:
            told = f", K = {count}" if generates and len(steps) > 1 else ""
            system = System(f"{encoder.name}, trained{told}", "as its contract has it")
            embedders.append(SystemEmbedder(system, encoder, steps=count))
        if best_step and generates and not encoder.contract.has_max_sim:
            system = System(f"{encoder.name}, trained, best step of {max(steps)}", "max-sim", has_all_steps=True)
            embedders.append(SystemEmbedder(system, encoder, steps=max(steps)))
    names = [each.name for each in embedders]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ContractError(f"Two of the trained models are called {twice[0]!r}. Give one of them another name.")
    return embedders
