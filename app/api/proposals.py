"""POST /api/v1/lenses/proposals: values that a lens could tell apart."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.search_schemas import ProposalQuestion, ProposalsAnswer
from app.ports.services import Proposals
from app.types.proposals import ValueProposal


def proposal_routes(proposals: Proposals) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/lenses", tags=["lenses"])

    @routes.post("/proposals", response_model=ProposalsAnswer)
    def propose_values(question: ProposalQuestion) -> dict[str, tuple[ValueProposal, ...]]:
        """Values that an instruction could tell apart in a collection, and where they come from.

        The first call of a process embeds the bank of aspects, which takes seconds.
        """
        return {"proposals": proposals.propose(question.instruction, question.collection)}

    return routes
