"""Lenses and judgements over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.api.paging import PAGE_HEADERS, Offset, Page, note_page
from app.api.schemas import JudgementAnswer, LensAnswer, NewJudgement, NewLens
from app.errors import NotFoundError
from app.ports.catalog import Catalog
from app.search.judgements import new_judgement, new_lens
from app.search.lenses import delete_lens, find_lens, lenses_of
from app.types.documents import Judgement, Lens


def lens_routes(catalog: Catalog) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/lenses", tags=["lenses"])

    @routes.get("", response_model=list[LensAnswer], responses=PAGE_HEADERS)
    def list_lenses(page: Page) -> list[Lens]:
        """Lists saved lenses, then the built-in ones."""
        return page.of(lenses_of(catalog))

    @routes.post("", response_model=LensAnswer)
    def save_lens(new: NewLens) -> Lens:
        """Saves a lens (an instruction under a name). Replaces a saved lens of the same name."""
        lens = new_lens(
            new.name,
            new.query_instruction,
            document_instruction=new.document_instruction,
            note=new.note,
            values=new.values,
        )
        catalog.save_lens(lens)
        return lens

    @routes.get("/{name:path}", response_model=LensAnswer)
    def show_lens(name: str) -> Lens:
        """A saved or built-in lens by its name."""
        return find_lens(catalog, name)

    @routes.delete("/{name:path}", status_code=204)
    def remove_lens(name: str) -> None:
        """Deletes a saved lens. Built-in lenses cannot be deleted."""
        delete_lens(catalog, name)

    return routes


def judgement_routes(catalog: Catalog) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/judgements", tags=["judgements"])

    @routes.get("", response_model=list[JudgementAnswer], responses=PAGE_HEADERS)
    def list_judgements(
        request: Request,
        response: Response,
        collection: str,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
        offset: Offset = 0,
    ) -> list[Judgement]:
        """Lists judgements of documents of a collection, by people and imports."""
        known = catalog.collection(collection)
        found = catalog.judgements(known.name, limit=limit, offset=offset)
        total = sum(each.judgement_count for each in catalog.judgement_sources(known.name))
        note_page(request, response, total=total, offset=offset, count=len(found))
        return found

    @routes.post("", response_model=JudgementAnswer)
    def save_judgement(new: NewJudgement) -> Judgement:
        """Saves how well a document answers a query. Replaces your earlier judgement."""
        judgement = new_judgement(new.document_id, query=new.query, instruction=new.instruction, grade=new.grade)
        return catalog.save_judgement(judgement)

    @routes.delete("", status_code=204)
    def delete_judgement(document_id: str, query: str, instruction: str = "") -> None:
        """Deletes your judgement of a document for a query and an instruction."""
        judgement = new_judgement(document_id, query=query, instruction=instruction, grade=0, is_stored=True)
        if not catalog.delete_judgement(judgement):
            raise NotFoundError(f"The document {document_id!r} was not judged for this query and instruction.")

    return routes
