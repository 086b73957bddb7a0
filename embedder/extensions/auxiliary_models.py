"""Additional models that some contracts need."""

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
    """The additional models of a contract; None if it does not use them.

    - projection: projects vectors by instructions (Hyper-CL).
    - generator: generates the text that is embedded with the input (two-stage).
    - selector: selects the sentences to encode under an instruction.
    """

    projection: InstructionProjection | None = None
    generator: TextGenerator | None = None
    selector: SentenceSelector | None = None

    def of(self, contract: Contract) -> Self:
        """The parts for another contract over the same weights, which may encode whole texts."""
        return self if contract.selection_files else replace(self, selector=None)

    def check(self, contract: Contract) -> None:
        """Raises ContractError unless the parts match the contract."""
        for name, part, files in (
            ("projection", self.projection, contract.projection_files),
            ("selector", self.selector, contract.selection_files),
        ):
            if bool(files) != (part is not None):
                fault = f"the contract has files of a {name}, but none was loaded"
                if part is not None:
                    fault = f"a {name} was loaded, but the contract has no files of one"
                raise ContractError(f"Model {contract.name!r}: {fault}. Load the model by its name or folder.")
            if part is not None and part.dimension != contract.dimension:
                raise ContractError(
                    f"Model {contract.name!r}: its {name} has {part.dimension} dimensions, but vectors have "
                    f"{contract.dimension}."
                )
        if bool(contract.generator) != (self.generator is not None):
            fault = f"the contract names the generator {contract.generator!r}, but none was loaded"
            if self.generator is not None:
                fault = "a generator was loaded, but the contract names none"
            raise ContractError(f"Model {contract.name!r}: {fault}. Load the model by its name or folder.")


NO_AUXILIARY_MODELS = AuxiliaryModels()
