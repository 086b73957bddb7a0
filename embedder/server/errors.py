"""Errors that only a server raises, and the mapping of another server's responses to our errors."""

from __future__ import annotations

from embedder.engine.errors import (
    ComputationError,
    InvalidRequestError,
    NotAVectorError,
    NotServingError,
    OverloadedError,
    RefusedError,
    TooLargeError,
)


class UnknownModelError(RefusedError):
    status = 404
    code = "model_not_found"


class UnauthorisedError(RefusedError):
    status = 401
    code = "invalid_api_key"


class UnknownPathError(RefusedError):
    status = 404
    code = "unknown_url"


class WrongMethodError(RefusedError):
    status = 405
    code = "method_not_supported"


_KINDS = (InvalidRequestError, TooLargeError, UnknownModelError, UnauthorisedError, OverloadedError, NotServingError)


def refusal_of_status(status: int, message: str, *, code: str | None, retry_after_s: float | None) -> RefusedError:
    """Maps another server's response to our error. A wrong key becomes NotServingError: it is not our client's
    fault."""
    kinds: list[type[RefusedError]] = [each for each in _KINDS if each.status == status]
    kinds += [each for each in (NotAVectorError, ComputationError) if each.code == code]
    if not kinds or kinds[0] is UnauthorisedError:
        return NotServingError(f"The embedding server answers {status}: {message}", retry_after_s=retry_after_s or 5)
    return kinds[0](message, retry_after_s=retry_after_s)
