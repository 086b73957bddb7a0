"""Lens indexes of a collection over HTTP: build, list with progress and cost, delete, export as CSV."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from app.api.search_schemas import LensIndexAnswer, NewLensIndex
from app.collections.value_tables import CsvValueTables
from app.ports.services import LensIndexes
from app.search.judgements import MAX_NAME_CHARACTERS
from app.search.value_syntax import MAX_PHRASE_CHARACTERS
from app.types.lens_indexes import LensIndexStatus

TABLE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "A row per chunk."}
}

LensName = Annotated[str, Query(max_length=MAX_NAME_CHARACTERS)]


def lens_index_routes(lens_indexes: LensIndexes, value_tables: CsvValueTables) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/collections/{name}/lens-indexes", tags=["lenses"])

    @routes.get("", response_model=list[LensIndexAnswer])
    def list_lens_indexes(name: str) -> list[LensIndexStatus]:
        """Lists lens indexes: lenses whose value is stored for every chunk. Shows progress and cost."""
        return lens_indexes.status(name)

    @routes.post("", status_code=202, response_model=LensIndexAnswer)
    def build_lens_index(name: str, new: NewLensIndex) -> LensIndexStatus:
        """Queues a lens index for the worker. An existing one is rebuilt with the present values of its lens."""
        return lens_indexes.build(name, new.lens)

    @routes.delete("", status_code=204)
    def delete_lens_index(name: str, lens: LensName) -> None:
        """Deletes a lens index. Searches with this lens classify their candidates at query time again."""
        lens_indexes.delete(name, lens)

    @routes.get("/table", response_class=StreamingResponse, responses=TABLE)
    def table_by_value(
        name: str,
        lens: LensName,
        value: Annotated[
            str | None, Query(max_length=MAX_PHRASE_CHARACTERS, description="Only chunks with this value.")
        ] = None,
    ) -> StreamingResponse:
        """Every chunk with its value under an indexed lens, as CSV in no particular order.

        Cells are escaped so that a spreadsheet never runs one as a formula.
        """
        content = value_tables.csv(name, lens, value=value)
        headers = {"content-disposition": 'attachment; filename="values.csv"'}
        return StreamingResponse(content, media_type="text/csv; charset=utf-8", headers=headers)

    return routes
