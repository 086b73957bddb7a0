"""Models that some contracts have beside their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from embedder.errors import ContractError
from embedder.extensions.expansion import TextGenerator
from embedder.extensions.hyper_projection import InstructionProjection
from embedder.extensions.sentence_selection import SentenceSelector
from embedder.model.contract import Contract


@dataclass(frozen=True, slots=True)
class AuxiliaryModels:
    """projection: of vectors, by instructions (Hyper-CL). generator: of what texts are embedded with (two-stage).
    selector: of the sentences that are read under an instruction."""

    projection: InstructionProjection | None = None
    generator: TextGenerator | None = None
    selector: SentenceSelector | None = None

    def of(self, contract: Contract) -> Self:
        """For another contract over the same weights, which may read texts whole."""
        return self if contract.selection_files else replace(self, selector=None)

    def check(self, contract: Contract) -> None:
        """Raises ContractError unless they are those that the contract names."""
        for name, part, files in (
            ("projection", self.projection, contract.projection_files),
            ("selector", self.selector, contract.selection_files),
        ):
            if bool(files) != (part is not None):
                raise ContractError(f"Model {contract.name!r}: a {name} goes with a contract that has its files.")
            if part is not None and part.dimension != contract.dimension:
                raise ContractError(
                    f"Model {contract.name!r}: its {name} is of {part.dimension} dimensions, but vectors have "
                    f"{contract.dimension}."
                )
        if bool(contract.generator) != (self.generator is not None):
            raise ContractError(f"Model {contract.name!r}: a generator goes with a contract that names it.")


NO_AUXILIARY_MODELS = AuxiliaryModels()
