"""Models that some contracts have beside their own."""

from __future__ import annotations

from dataclasses import dataclass

from embedder.contract import Contract
from embedder.errors import ContractError
from embedder.expansion import TextGenerator
from embedder.hyper_projection import InstructionProjection


@dataclass(frozen=True, slots=True)
class AuxiliaryModels:
    """projection: of vectors, by instructions (Hyper-CL). generator: of what texts are embedded with (two-stage)."""

    projection: InstructionProjection | None = None
    generator: TextGenerator | None = None

    def check(self, contract: Contract) -> None:
        """Raises ContractError unless they are those that the contract names."""
        if bool(contract.projection_files) != (self.projection is not None):
            raise ContractError(f"Model {contract.name!r}: a projection goes with a contract that has its files.")
        if self.projection is not None and self.projection.shape.dimension != contract.dimension:
            raise ContractError(
                f"Model {contract.name!r}: its projection is of {self.projection.shape.dimension} dimensions, but "
                f"vectors have {contract.dimension}."
            )
        if bool(contract.generator) != (self.generator is not None):
            raise ContractError(f"Model {contract.name!r}: a generator goes with a contract that names it.")


NO_AUXILIARY_MODELS = AuxiliaryModels()
