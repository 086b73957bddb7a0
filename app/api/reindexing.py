"""Reindexing a collection over HTTP: start or resume, show progress, roll back."""

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
        """Starts or resumes building a new index. The present index serves searches until the new one is complete."""
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
        """The progress of reindexing, and whether a previous index exists for a roll-back."""
        return reindexing.status(name)

    @routes.post("/rollback", response_model=CollectionAnswer)
    def roll_back(name: str) -> CountedCollection:
        """Switches back to the previous index. A second call switches forward again."""
        return catalog.counted_collection(reindexing.roll_back(name).name)

    return routes
