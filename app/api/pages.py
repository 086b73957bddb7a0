"""Rendered pages of documents over HTTP: page images, and words with positions and a marked passage."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from app.access.authorized_services import AuthorizedServices
from app.api.base_schemas import ResponseBody
from app.types.pages import IMAGE_WIDTHS, PageView

JPEG = "image/jpeg"
IMAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {JPEG: {"schema": {"type": "string", "format": "binary"}}}, "description": "The image."},
}
_DIGITS = 5  # decimals of a coordinate: about a hundredth of a pixel
PageNumber = Annotated[int, Path(ge=1, lt=2**31, description="Counts from 1.")]
Character = Annotated[int, Query(ge=0, lt=2**31)]


class WordAnswer(ResponseBody):
    """A word. Coordinates are fractions (0 to 1) of the page's width and height, from the upper left corner."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    is_marked: bool


class PageAnswer(ResponseBody):
    page: int
    pages: int
    width: float
    height: float
    words: list[WordAnswer]


def page_routes(services: AuthorizedServices) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["documents"])

    @routes.get("/documents/{document_id}/pages/{page}")
    def read_page(document_id: str, page: PageNumber, start: Character = 0, end: Character = 0) -> PageAnswer:
        """The words of a page of a PDF or image, with positions.

        Words within the characters [`start`, `end`) of the document's text are marked.
        """
        document = services.catalog.document(document_id)
        return _answer(services.pages.page(document, page, start=start, end=end))

    @routes.get("/documents/{document_id}/pages/{page}/image", response_class=Response, responses=IMAGE)
    def read_page_image(
        document_id: str,
        page: PageNumber,
        request: Request,
        width: Annotated[
            int, Query(ge=1, le=IMAGE_WIDTHS[-1], description=f"Width in pixels, rounded up to one of {IMAGE_WIDTHS}.")
        ] = 960,
    ) -> Response:
        """A page of a PDF or image, rendered as JPEG."""
        document = services.catalog.document(document_id)
        # Browsers must revalidate at every use: a cached page would outlive the permission to see it.
        headers = {"ETag": f'"{document.content_hash}-{page}-{width}"', "Cache-Control": "private, no-cache"}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(services.pages.image(document, page, width=width), media_type=JPEG, headers=headers)

    return routes


def _answer(page: PageView) -> PageAnswer:
    marked = set(page.marked)
    words = [
        WordAnswer(
            text=word.text,
            left=round(word.left, _DIGITS),
            top=round(word.top, _DIGITS),
            right=round(word.right, _DIGITS),
            bottom=round(word.bottom, _DIGITS),
            is_marked=number in marked,
        )
        for number, word in enumerate(page.words)
    ]
    return PageAnswer(page=page.number, pages=page.count, width=page.width, height=page.height, words=words)
