"""What the Edge server refuses, with the HTTP status that a Qdrant server would answer with."""

from __future__ import annotations


class RefusedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def unknown_collection(name: str) -> RefusedError:
    return RefusedError(404, f"Not found: Collection `{name}` doesn't exist!")


def unsupported(what: str) -> RefusedError:
    return RefusedError(
        501,
        f"The embedded engine does not serve {what}. Start a Qdrant server and set GIRCSE_QDRANT_URL to use it.",
    )
