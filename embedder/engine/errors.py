"""Errors of the engine. `status` and `code` go into the HTTP response.

RefusedError
├── InvalidRequestError      the request is invalid                                    422
├── TooLargeError            more texts, tokens or bytes than one request may have     413
├── OverloadedError          the queue is full; retry later                            429
├── NotServingError          draining, dead, or the wait was too long                  503
└── ComputationError         the model failed on this text                             500
    └── NotAVectorError      its vector is not finite, or zero
"""

from __future__ import annotations

from embedder.errors import EmbedderError


class RefusedError(EmbedderError):
    status = 500
    code: str | None = None

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.retry_after_s = retry_after_s


class InvalidRequestError(RefusedError):
    status = 422


class TooLargeError(RefusedError):
    status = 413
    code = "request_too_large"


class OverloadedError(RefusedError):
    status = 429
    code = "overloaded"


class NotServingError(RefusedError):
    status = 503
    code = "not_serving"


class ComputationError(RefusedError):
    code = "computation_failed"


class NotAVectorError(ComputationError):
    code = "not_a_vector"
