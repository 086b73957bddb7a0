"""What some contracts have beside their model."""

from __future__ import annotations

from dataclasses import dataclass

from embedder.contract import Contract
from embedder.errors import ContractError
from embedder.expansion import Writer
from embedder.hyper_projection import InstructionProjection


@dataclass(frozen=True, slots=True)
class Companions:
    """projection: of vectors, by instructions (Hyper-CL). writer: of what texts are embedded with (two-stage)."""

    projection: InstructionProjection | None = None
    writer: Writer | None = None

    def check(self, contract: Contract) -> None:
        """Raises ContractError unless they are those that the contract names."""
        if bool(contract.projection_files) != (self.projection is not None):
            raise ContractError(f"Model {contract.name!r}: a projection goes with a contract that has its files.")
        if bool(contract.generator) != (self.writer is not None):
            raise ContractError(f"Model {contract.name!r}: a generator goes with a contract that names it.")


NO_COMPANIONS = Companions()
