"""Indexing a collection anew, over HTTP: start it, or go on with it; see how far it is; take it back."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.schemas import CollectionAnswer, NewReindex, ReindexAnswer
from app.ports.catalog import Catalog
from app.ports.services import Reindexing
from app.types.documents import CountedCollection
from app.types.upkeep import ContractChange, ReindexStatus


def reindex_routes(catalog: Catalog, reindexing: Reindexing) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/collections/{name}", tags=["collections"])

    @routes.post("/reindex", status_code=202, response_model=ReindexAnswer)
    def start_reindex(name: str, new: NewReindex) -> ReindexStatus:
        """Builds an index beside the live one, which answers until the switch; goes on with one that is half built."""
        change = ContractChange(
            new.document_instruction,
            new.document_steps,
            new.chunk_tokens,
            new.chunk_overlap,
            new.chunk_context,
            new.chunk_structure,
        )
        return reindexing.start(name, change, restart=new.restart)

    @routes.get("/reindex", response_model=ReindexAnswer)
    def show_reindex(name: str) -> ReindexStatus:
        """How far indexing anew is, and whether there is an index to go back to."""
        return reindexing.status(name)

    @routes.post("/rollback", response_model=CollectionAnswer)
    def roll_back(name: str) -> CountedCollection:
        """Back to the index before the last switch; again: forth."""
        return catalog.counted_collection(reindexing.roll_back(name).name)

    return routes
