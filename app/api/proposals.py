"""POST /api/v1/lenses/proposals: proposes values (classes) for a lens."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.search_schemas import ProposalQuestion, ProposalsAnswer
from app.ports.services import Proposals
from app.types.proposals import ValueProposal


def proposal_routes(proposals: Proposals) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/lenses", tags=["lenses"])

    @routes.post("/proposals", response_model=ProposalsAnswer)
    def propose_values(question: ProposalQuestion) -> dict[str, tuple[ValueProposal, ...]]:
        """Proposes values that an instruction could distinguish in a collection, each with its origin.

        The first call after a start takes seconds: it embeds the built-in bank of aspects.
        """
        return {"proposals": proposals.propose(question.instruction, question.collection)}

    return routes
