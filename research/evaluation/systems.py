"""Systems of the field as choices over one loaded model: what a contract says of template, attention, pooling, and of
how vectors are compared.

None of them is trained here; a model's own adapter, where it has one, is read by all of them alike. Models that were
trained as one of them stand beside them as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from embedder.checkpoint import Checkpoint, find_checkpoint, load_auxiliary_models, load_encoder
from embedder.encoder import Encoder
from embedder.errors import ContractError
from embedder.evaluation.outcomes import Steps
from embedder.extensions.auxiliary_models import AuxiliaryModels
from embedder.model.backbone import Backbone
from embedder.model.contract import Contract
from embedder.model.refine import PROMPT_POOLINGS


@dataclass(frozen=True, slots=True)
class System:
    """None: as the model's contract has it."""

    name: str
    source: str
    template: str | None = None
    attention: str | None = None
    pooling: str | None = None
    temperature: float | None = None
    similarity: str | None = None
    subtracted_instruction: float = 0.0
    dimensions: int | None = None  # how many of a vector's first ones are kept (Kusupati et al. 2022)

    @property
    def generates(self) -> bool:
        """Whatever the model does by itself."""
        return self.pooling is not None and self.pooling not in PROMPT_POOLINGS

    def contract_of(self, contract: Contract) -> Contract:
        """Of a model that is this system, which can be served.

        Raises ContractError where that model cannot be: an encoder without a head has no states but its prompt's.
        """
        taken = replace(
            contract,
            golden=(),
            dimension=contract.dimension if self.dimensions is None else self.dimensions,
            subtracted_instruction=self.subtracted_instruction or contract.subtracted_instruction,
            # Of whole vectors alone, and beside no other use of the instruction.
            selection_files={} if self.dimensions or self.subtracted_instruction else contract.selection_files,
        )
        if not (self.template or self.attention or self.pooling or self.temperature or self.similarity):
            return taken
        pooling = self.pooling or contract.pooling
        return replace(
            taken,
            plain_pooling=None,  # its vectors would be other ones than those of this system
            selection_files={},
            default_query_steps=max(1, contract.default_query_steps),
            default_document_steps=max(1, contract.default_document_steps),
            template=self.template or contract.template,
            attention=self.attention or contract.attention,
            pooling=pooling,
            similarity="cosine" if pooling in PROMPT_POOLINGS else self.similarity or contract.similarity,
            temperature=self.temperature or contract.temperature,
            context_encoder=None if self.template else contract.context_encoder,
        )

    def contract_over(self, trained: Contract) -> Contract:
        """As `contract_of`; a model's own where nothing of it changes, golden vectors and all."""
        return trained if replace(self, name="", source="") == System("", "") else self.contract_of(trained)


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
        # What reads a prompt and was trained to generate nothing, made to generate all the same.
        System("Soft tokens, last", "GIRCSE, section 5.1", attention="causal", pooling="last"),
        System("Soft tokens, mean", "GIRCSE, section 5.1", attention="causal", pooling="mean"),
        System("Hard tokens", "InBedder, Peng et al. 2024", temperature=_HARD),
        System("Best step", "max-sim over steps, as DEBATER, Ji et al. 2025", similarity="max_sim"),
        System("GIRCSE - 0.5 instruction", "as CASE", subtracted_instruction=0.5),
        System("GIRCSE - 1.0 instruction", "as CASE", subtracted_instruction=1.0),
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

    def __init__(
        self,
        name: str,
        model: Encoder | Callable[[], Encoder],
        *,
        steps: int,
        fingerprint: str | None = None,
        batch_size: int = 32,
    ) -> None:
        """model: an encoder of the system's contract, or what opens it when it is first asked; then `fingerprint` says
        what it will be."""
        self.name = name
        self.cost = Cost()
        self._model = model
        self._fingerprint = fingerprint
        self._steps = steps
        self._batch_size = batch_size

    @property
    def encoder(self) -> Encoder:
        return self._model if isinstance(self._model, Encoder) else self._model()

    @property
    def fingerprint(self) -> str:
        return self._fingerprint or self.encoder.fingerprint

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]:
        encoder = self.encoder  # to open it is no cost of these texts
        start = time.process_time()
        has_all_steps = encoder.contract.has_max_sim
        encode = encoder.encode_prefixes if has_all_steps else encoder.encode_queries  # (n, K, D), (n, D)
        found = encode(texts, instruction=instruction, steps=self._steps, batch_size=self._batch_size)
        self.cost.texts += len(texts)
        self.cost.seconds += time.process_time() - start
        return {None: found}


def open_systems(
    systems: Sequence[System],
    checkpoint: Checkpoint,
    parts: tuple[Backbone, Tokenizer],
    *,
    steps: int,
    auxiliary: AuxiliaryModels | None = None,
) -> list[SystemEmbedder]:
    """All over the same weights. auxiliary: those of the checkpoint, where they are loaded already."""
    said = checkpoint.contract
    auxiliary = auxiliary or load_auxiliary_models(checkpoint, *parts)
    steps = min(steps, said.most_steps or steps)
    return [
        SystemEmbedder(each.name, _encoder_of(each.contract_of(said), parts, auxiliary), steps=steps)
        for each in systems
    ]


def _encoder_of(
    contract: Contract,
    parts: tuple[Backbone, Tokenizer],
    auxiliary: AuxiliaryModels,
) -> Encoder:
    backbone, tokenizer = parts
    context = backbone.context if contract.context_encoder else None
    body = replace(backbone, attention=contract.attention, context=context)
    if backbone.decoder is not None:
        sight = backbone.decoder.with_attention(is_bidirectional=contract.attention == "prefix")
        body = replace(body, decoder=sight)
    return Encoder(body, tokenizer, contract, auxiliary=auxiliary.of(contract))


def open_trained(
    folders: Sequence[Path],
    *,
    device: str,
    steps: Sequence[int],
    dtype: str | None = None,
    systems: Sequence[System] = (),
    dimensions: Sequence[int] = (),
) -> list[SystemEmbedder]:
    """Models that were trained as a system, as their contracts say; those that generate, at each of `steps`, and at the
    most of them under each of `systems`. Of `systems`, those that generate have a row at each of `steps` over models
    that do not by themselves, but have a head. dimensions: rows by so many of a vector's first ones. One is in memory
    at a time, since many stand in a table.

    Raises ContractError where two have one name.
    """

    @lru_cache(maxsize=1)
    def load(folder: Path) -> Encoder:
        return load_encoder(str(folder), device=device, dtype=dtype)

    @lru_cache(maxsize=1)
    def open_as(folder: Path, system: System) -> Encoder:
        whole = load(folder)
        parts = whole._backbone, whole._prompts.vocabulary
        return _encoder_of(system.contract_over(whole.contract), parts, whole.auxiliary)

    embedders = []
    for folder in folders:
        said = find_checkpoint(str(folder)).contract
        generates = said.pooling not in PROMPT_POOLINGS
        most = said.most_steps or max(steps)
        each_count = [(f"K = {count}" if len(steps) > 1 else "", count) for count in steps]
        if generates:
            rows = [(System(told, "as its contract has it"), count) for told, count in each_count]
            # Max-sim already takes the best step.
            rows += [(each, most) for each in systems if not (each.similarity == "max_sim" and said.has_max_sim)]
        else:
            rows = [(System("", "as its contract has it"), most)]
            rows += [
                (replace(each, name=", ".join(part for part in (each.name, told) if part)), count)
                for each in systems
                if each.generates and said.head != "none"
                for told, count in each_count
            ]
        rows += [(System(f"{size} dimensions", "Kusupati et al. 2022", dimensions=size), most) for size in dimensions]
        for system, count in rows:
            named = replace(system, name=", ".join(part for part in (said.name, "trained", system.name) if part))
            opened = partial(open_as, folder, named)
            embedders.append(
                SystemEmbedder(named.name, opened, steps=count, fingerprint=system.contract_over(said).fingerprint)
            )
    names = [each.name for each in embedders]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ContractError(f"Two of the trained models are called {twice[0]!r}. Give one of them another name.")
    return embedders
