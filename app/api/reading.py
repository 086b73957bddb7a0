"""Contents of documents over HTTP: text in windows, original files, and counts by metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse

from app.access.authorized_services import AuthorizedServices
from app.api.events import wants
from app.api.schemas import FacetsAnswer, TextAnswer
from app.errors import InputError, UnknownDocumentError
from app.types.documents import Document, FacetValue, PageStart
from app.types.search import MAX_FILTERS

PDF, BYTES = "application/pdf", "application/octet-stream"
DEFAULT_WINDOW = 10_000

# Untrusted files must not run as a page of this server. The sandbox does not break Chromium's PDF viewer.
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_GONE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>This document was deleted</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 15vh auto; max-width: 34rem; padding: 0 1rem; }
</style></head><body><h1>This document was deleted</h1>
<p>The document of this link no longer exists, or you do not have access to it.</p>
<p><a href="/">Search</a> the present documents, or add it again on the page <a href="/documents">Documents</a>.</p>
</body></html>"""
_FILE = {"schema": {"type": "string", "format": "binary"}}
CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {PDF: _FILE, "text/plain": _FILE, BYTES: _FILE}, "description": "The file."}
}


@dataclass(frozen=True, slots=True)
class TextStretch:
    """Characters [start, end) of a text of `total` characters, with the page starts among them."""

    text: str
    start: int
    end: int
    total: int
    page_starts: list[PageStart]


@dataclass(frozen=True, slots=True)
class Facets:
    collection: str
    facets: dict[str, list[FacetValue]]


def reading_routes(services: AuthorizedServices) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["documents"])

    @routes.get("/documents/{document_id}/text", response_model=TextAnswer)
    def read_text(
        document_id: str,
        start: Annotated[int, Query(ge=0, lt=2**31)] = 0,
        end: Annotated[int | None, Query(ge=0, lt=2**31, description="At most `start` + 50,000.")] = None,
    ) -> TextStretch:
        """The extracted text of a document from character `start` to `end`."""
        document = services.catalog.document(document_id)
        window = services.library.text_window(document, start, start + DEFAULT_WINDOW if end is None else end)
        pages = services.catalog.page_starts(document_id, start=window.start, end=window.end)
        return TextStretch(window.text, window.start, window.end, window.total, pages)

    @routes.get("/documents/{document_id}/content", response_class=FileResponse, responses=CONTENT)
    def read_content(document_id: str, request: Request) -> Response:
        """The original file: a PDF is displayed, other types are downloaded."""
        try:
            document = services.catalog.document(document_id)
        except UnknownDocumentError:
            if wants(request, "text/html"):  # a browser that followed a link
                return HTMLResponse(_GONE, 404)
            raise
        return _file_response(document, services)

    @routes.get("/facets", response_model=FacetsAnswer, tags=["search"])
    def count_by_metadata(
        collection: str,
        filters: Annotated[list[str], Query(alias="filter", description="KEY=VALUE; may be repeated.")] = [],  # noqa: B006
    ) -> Facets:
        """Counts documents by metadata key and value. Filters narrow the documents, as in a search."""
        return Facets(collection, services.catalog.facets(collection, _parse_filters(filters)))

    return routes


def _file_response(document: Document, services: AuthorizedServices) -> Response:
    is_pdf = document.media_type == PDF
    return FileResponse(
        services.library.original_file(document),
        media_type=PDF if is_pdf else "text/plain" if document.media_type.startswith("text/") else BYTES,
        filename=file_name(document),
        content_disposition_type="inline" if is_pdf else "attachment",
        headers=_HEADERS,
    )


def file_name(document: Document) -> str:
    """The name for the download, at most 150 characters: characters that are special in a file system become `_`."""
    name = "".join(char if char.isprintable() and char not in '\\/:*?"<>|' else "_" for char in document.name)
    return name.strip(". ")[:150] or "document"


def _parse_filters(filters: list[str]) -> dict[str, str]:
    if len(filters) > MAX_FILTERS:
        raise InputError(f"At most {MAX_FILTERS} filters can be given, not {len(filters)}.")
    parsed: dict[str, str] = {}
    for text in filters:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f"The filter {text[:80]!r} must be KEY=VALUE.")
        parsed[key] = value
    return parsed
