"""Why a request gets no vectors. Each knows its HTTP status; both shapes of errors are written from it.

RefusedError
├── InvalidRequestError      the request cannot be used                                422
├── TooLargeError            more texts, tokens or bytes than one request may have     413
├── UnknownModelError        another model is served here                              404
├── UnauthorisedError        no key, or another one                                    401
├── OverloadedError          too much waits already; come back later                   429
├── NotServingError          draining, dead, or the wait was too long                  503
└── ComputationError         the model failed at this very text                        500
    └── NotAVectorError      it gave a vector that is not finite, or zero
"""

from __future__ import annotations

from embedder.errors import EmbedderError


class RefusedError(EmbedderError):
    status = 500
    kind = "server_error"  # OpenAI's `type`
    code: str | None = None

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.retry_after_s = retry_after_s


class InvalidRequestError(RefusedError):
    status = 422
    kind = "invalid_request_error"


class TooLargeError(RefusedError):
    status = 413
    kind = "invalid_request_error"
    code = "request_too_large"


class UnknownModelError(RefusedError):
    status = 404
    kind = "invalid_request_error"
    code = "model_not_found"


class UnauthorisedError(RefusedError):
    status = 401
    kind = "invalid_request_error"
    code = "invalid_api_key"


class OverloadedError(RefusedError):
    status = 429
    kind = "rate_limit_error"
    code = "overloaded"


class NotServingError(RefusedError):
    status = 503
    kind = "server_error"
    code = "not_serving"


class ComputationError(RefusedError):
    code = "computation_failed"


class NotAVectorError(ComputationError):
    code = "not_a_vector"


_KINDS = (InvalidRequestError, TooLargeError, UnknownModelError, UnauthorisedError, OverloadedError, NotServingError)


def refusal_of_status(status: int, message: str, *, code: str | None, retry_after_s: float | None) -> RefusedError:
    """What another server has refused. That it wants another key is no fault of our client."""
    kinds: list[type[RefusedError]] = [each for each in _KINDS if each.status == status]
    kinds += [each for each in (NotAVectorError, ComputationError) if each.code == code]
    if not kinds or kinds[0] is UnauthorisedError:
        return NotServingError(f"The embedding server answers {status}: {message}", retry_after_s=retry_after_s or 5)
    return kinds[0](message, retry_after_s=retry_after_s)
