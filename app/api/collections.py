"""Collections over HTTP: create, show, delete; show and optimize the index of one."""

from __future__ import annotations

from fastapi import APIRouter

from app.access.authorized_services import AuthorizedServices
from app.api.idempotency import IdempotencyKey, answer_once
from app.api.paging import PAGE_HEADERS, Page
from app.api.schemas import CollectionAnswer, IndexStatusAnswer, NewCollection
from app.types.documents import CountedCollection, IndexStatus


def collection_routes(services: AuthorizedServices) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/collections", tags=["collections"])
    catalog = services.catalog

    @routes.get("", response_model=list[CollectionAnswer], responses=PAGE_HEADERS)
    def list_collections(page: Page) -> list[CountedCollection]:
        """Lists all collections with their numbers of documents and chunks."""
        return page.of(catalog.collections())

    @routes.post("", status_code=201, response_model=CollectionAnswer)
    def create_collection(new: NewCollection, key: IdempotencyKey = None) -> object:
        """Creates an empty collection. Its settings determine how documents are split and embedded."""
        return answer_once(
            services.idempotency,
            key,
            request_text=lambda: f"create_collection {new.model_dump_json()}",
            do=lambda: _create(services, new),
            shape=CollectionAnswer,
            status=201,
        )

    @routes.get("/{name}", response_model=CollectionAnswer)
    def show_collection(name: str) -> CountedCollection:
        """The settings of a collection and its numbers of documents and chunks."""
        return catalog.counted_collection(name)

    @routes.delete("/{name}", status_code=204)
    def delete_collection(name: str) -> None:
        """Deletes the collection with all its documents and vectors."""
        services.library.delete_collection(name)

    @routes.get("/{name}/index", response_model=IndexStatusAnswer)
    def show_index(name: str) -> IndexStatus:
        """The index of the collection: points, segments, and what the optimizer is doing."""
        return services.library.index_status(name)

    @routes.post("/{name}/optimize", status_code=202, response_model=IndexStatusAnswer)
    def optimize_collection(name: str) -> IndexStatus:
        """Starts optimizing the index: merges segments and drops deleted points. `GET …/index` shows the progress.

        Useful after a bulk load or many deletions. Searches and writes continue. Another request while the optimizer
        runs has no effect.
        """
        return services.library.optimize_index(name)

    return routes


def _create(services: AuthorizedServices, new: NewCollection) -> CountedCollection:
    made = services.library.create_collection(
        new.name,
        document_instruction=new.document_instruction,
        document_steps=new.document_steps,
        chunk_tokens=new.chunk_tokens,
        chunk_overlap=new.chunk_overlap,
        chunk_context=new.chunk_context,
        chunk_structure=new.chunk_structure,
    )
    return services.catalog.counted_collection(made.name)
