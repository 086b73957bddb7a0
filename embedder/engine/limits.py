"""Limits on the size of a request, a batch and the queue, and on times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults; the settings GIRCSE_EMBEDDER_* override some."""

    max_body_mb: float = 16.0
    max_inputs: int = 2048
    max_request_tokens: int = 300_000
    batch_tokens: int = 8192
    batch_texts: int = 32
    # While queries come, a batch of documents should take about this long: not every model can pause for queries.
    batch_s: float = 0.2
    small_inputs: int = 8  # a request of at most this many documents counts as a query
    small_tokens: int = 1024
    query_inputs: int = 256  # most texts waiting in the query queue
    # Refuse a query if its expected wait exceeds both this and 1.8 times the time of a query alone.
    query_wait_s: float = 0.05
    document_inputs: int = 16_384
    document_tokens: int = 2_000_000
    document_wait_s: float = 120.0
    # A text still waiting after this is dropped without being computed.
    query_deadline_s: float = 10.0
    document_deadline_s: float = 300.0
    compute_s: float = 120.0  # for one batch; after this the model counts as stuck
    ready_s: float = 1.5
    drain_s: float = 10.0
    slow_client_s: float = 30.0  # for the body of a request to arrive
    cache_mb: float = 32.0

    @property
    def max_body_bytes(self) -> int:
        return int(self.max_body_mb * 1_000_000)
