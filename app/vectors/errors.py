"""Translates Qdrant's error responses to errors of the application."""

from __future__ import annotations

import json

from qdrant_client.http.exceptions import UnexpectedResponse

from app.errors import (
    ConflictError,
    EngineFaultError,
    InputError,
    NoAnswerError,
    NotFoundError,
    VectorIndexUnavailableError,
    full_disk_reason,
)

_FULL = "No space left on device"


def unavailable(what: str) -> VectorIndexUnavailableError:
    return VectorIndexUnavailableError(
        f"The vector index {what}. Check that Qdrant runs at GIRCSE_QDRANT_URL; without that setting, see edge.log."
    )


def unanswered(reason: str) -> NoAnswerError:
    return NoAnswerError(str(unavailable(f"does not answer: {reason}")))


def missing(index: str) -> NotFoundError:
    return NotFoundError(
        f"The vector index has no collection {index!r}: its data was removed or belongs to another GIRCSE_HOME. Put "
        "the data back, or run `gircse doctor --rebuild`, which builds the index again from the stored documents."
    )


def translated(error: UnexpectedResponse, index: str) -> Exception:
    status = error.status_code or 0
    body = error.content.decode("utf-8", "replace")[:500]
    if status == 404:
        return missing(index)
    if status in (401, 403):
        return unavailable(f"refuses the key in GIRCSE_QDRANT_API_KEY ({status}: {body})")
    if status == 409:
        return ConflictError(f"The vector index already has this name: {body}")
    if 400 <= status < 500:
        return InputError(f"The vector index refuses a request about collection {index!r} ({status}): {body}")
    if status == 500 and _FULL in body:
        return VectorIndexUnavailableError(full_disk_reason("the vector index"))
    if status == 500:
        return EngineFaultError(
            f"The vector index fails on the collection {index!r}: {_reason_in(body)}. If this persists, run "
            "`gircse doctor`, which checks the stored data for damage."
        )
    return unavailable(f"fails with {status}: {body}")


def _reason_in(body: str) -> str:
    """The engine's error message in a response body; the whole body if it has another format."""
    try:
        reason = str(json.loads(body)["status"]["error"])
    except (ValueError, KeyError, TypeError):
        reason = body
    return reason.removeprefix("Service internal error: ").removeprefix("Service runtime error: ").strip()
