"""What Qdrant's refusals mean, as errors of the application."""

from __future__ import annotations

import json

from qdrant_client.http.exceptions import UnexpectedResponse

from app.errors import (
    ConflictError,
    EngineFaultError,
    InputError,
    NotFoundError,
    VectorIndexUnavailableError,
    full_disk_reason,
)

_FULL = "No space left on device"


def unavailable(what: str) -> VectorIndexUnavailableError:
    return VectorIndexUnavailableError(
        f"The vector index {what}. Check that Qdrant runs at GIRCSE_QDRANT_URL; without that setting, see edge.log."
    )


def missing(index: str) -> NotFoundError:
    return NotFoundError(
        f"The vector index has no collection {index!r}: its data was removed or belongs to another GIRCSE_HOME. Put it "
        "back, or run `gircse doctor --rebuild`, which makes it anew from the stored documents."
    )


def translated(error: UnexpectedResponse, index: str) -> Exception:
    status = error.status_code or 0
    said = error.content.decode("utf-8", "replace")[:500]
    if status == 404:
        return missing(index)
    if status in (401, 403):
        return unavailable(f"refuses the key in GIRCSE_QDRANT_API_KEY ({status}: {said})")
    if status == 409:
        return ConflictError(f"The vector index refuses a name that is taken: {said}")
    if 400 <= status < 500:
        return InputError(f"The vector index refuses a request about collection {index!r} ({status}): {said}")
    if status == 500 and _FULL in said:
        return VectorIndexUnavailableError(full_disk_reason("the vector index"))
    if status == 500:
        return EngineFaultError(
            f"The vector index fails on the collection {index!r}: {_told(said)}. If it goes on, `gircse doctor` says "
            "whether what is stored is damaged."
        )
    return unavailable(f"fails with {status}: {said}")


def _told(body: str) -> str:
    """The engine's own words."""
    try:
        said = str(json.loads(body)["status"]["error"])
    except (ValueError, KeyError, TypeError):
        said = body
    return said.removeprefix("Service internal error: ").removeprefix("Service runtime error: ").strip()
