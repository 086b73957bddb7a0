"""Errors of the Edge server, with the HTTP status of a Qdrant server."""

from __future__ import annotations


class RefusedRequestError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def unknown_collection(name: str) -> RefusedRequestError:
    return RefusedRequestError(404, f"Not found: Collection `{name}` doesn't exist!")


def unsupported(what: str) -> RefusedRequestError:
    return RefusedRequestError(
        501,
        f"The embedded engine does not support {what}. Use a Qdrant server instead: set GIRCSE_QDRANT_URL.",
    )
