"""POST /api/v1/lenses/proposals: values that a lens could tell apart."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from app.api.schemas import Answer, Posted
from app.collections.library import DEFAULT_COLLECTION
from app.ports.services import Proposals
from app.search.value_proposals import MAX_INSTRUCTION_CHARACTERS
from app.types.proposals import ProposalSource, ValueProposal


class ProposalQuestion(Posted):
    instruction: str = Field(
        min_length=1, max_length=MAX_INSTRUCTION_CHARACTERS, examples=["Which continent is it about?"]
    )
    collection: str = Field(default=DEFAULT_COLLECTION, examples=["sample"])


class ProposalAnswer(Answer):
    values: list[str] = Field(description="As a search or a lens takes them: `name` or `name = synonym, synonym`.")
    source: ProposalSource = Field(
        description="lens: saved ones and those of the product. bank: aspects that come with it. metadata: of the "
        "collection's documents. texts: the model's soft tokens on texts of the collection."
    )
    name: str = Field(description="Of the lens, the aspect or the metadata key; empty for texts.")
    similarity: float | None = Field(
        description="Cosine of the instruction and the wordings nearest to it; null for texts."
    )
    fitting: int = Field(description="How many of the texts fit one of the values.")
    texts: int = Field(description="How many texts of the collection were looked at.")


class ProposalsAnswer(Answer):
    proposals: list[ProposalAnswer] = Field(description="At most three, best first.")


def proposal_routes(proposals: Proposals) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/lenses", tags=["lenses"])

    @routes.post("/proposals", response_model=ProposalsAnswer)
    def propose_values(question: ProposalQuestion) -> dict[str, tuple[ValueProposal, ...]]:
        """Values that an instruction could tell apart in a collection, and where they come from.

        The first call of a process embeds the bank of aspects, which takes seconds.
        """
        return {"proposals": proposals.propose(question.instruction, question.collection)}

    return routes
