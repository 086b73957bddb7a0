"""Pagination of lists: the body is a plain array; headers have the total (X-Total-Count) and the next page (Link)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request, Response

Value = TypeVar("Value")

MAX_OFFSET = 2**31

Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of results.")]
Offset = Annotated[int, Query(ge=0, lt=MAX_OFFSET, description="Number of results to skip.")]

PAGE_HEADERS: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "X-Total-Count": {"schema": {"type": "integer"}, "description": "Number of results on all pages."},
            "Link": {"schema": {"type": "string"}, "description": 'The next page, with rel="next" (RFC 8288).'},
        }
    }
}


class ListPage:
    """The requested page of a list that is completely in memory."""

    def __init__(self, request: Request, response: Response, limit: Limit = 1000, offset: Offset = 0) -> None:
        self._request = request
        self._response = response
        self._limit = limit
        self._offset = offset

    def of(self, values: Sequence[Value]) -> list[Value]:
        page = list(values[self._offset : self._offset + self._limit])
        note_page(self._request, self._response, total=len(values), offset=self._offset, count=len(page))
        return page


Page = Annotated[ListPage, Depends()]


def note_page(request: Request, response: Response, *, total: int, offset: int, count: int) -> None:
    """Set the paging headers for a page of `count` results from `offset` on, out of `total`."""
    response.headers["X-Total-Count"] = str(total)
    following = offset + count
    if count > 0 and following < min(total, MAX_OFFSET):
        url = request.url.include_query_params(offset=following)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
