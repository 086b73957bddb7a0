"""How much one request, one batch and the queue may hold, and how long things may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Of some the settings GIRCSE_EMBEDDER_* give others."""

    max_body_mb: float = 16.0
    max_inputs: int = 2048
    max_request_tokens: int = 300_000
    batch_tokens: int = 8192
    batch_texts: int = 64
    batch_s: float = 0.2  # documents are batched so that a query which comes meanwhile waits about so long
    small_inputs: int = 8  # documents of a request that is let into the lane of queries
    small_tokens: int = 1024
    query_inputs: int = 256  # texts that may wait in the lane of queries
    # Queries are refused that for other queries are expected to take longer than this, and 1.8 times a lone one.
    query_wait_s: float = 0.05
    document_inputs: int = 16_384
    document_tokens: int = 2_000_000
    document_wait_s: float = 120.0
    # What was let in is expected in time; where that was wrong it may take a little longer, and is not computed then.
    query_deadline_s: float = 10.0
    document_deadline_s: float = 300.0
    compute_s: float = 120.0  # one batch: a model that takes longer is taken for stuck
    ready_s: float = 1.5
    drain_s: float = 10.0
    slow_client_s: float = 30.0  # for the body of a request to arrive
    cache_mb: float = 32.0

    @property
    def max_body_bytes(self) -> int:
        return int(self.max_body_mb * 1_000_000)
