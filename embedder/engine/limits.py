"""How much one request, one batch and the queue may hold, and how long things may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Defaults; the settings GIRCSE_EMBEDDER_* override some."""

    max_body_mb: float = 16.0
    max_inputs: int = 2048
    max_request_tokens: int = 300_000
    batch_tokens: int = 8192
    batch_texts: int = 32
    # While queries come, a batch of documents is sized to take about this long: not every model lets them in between.
    batch_s: float = 0.2
    small_inputs: int = 8  # a request of at most so many documents counts as a query
    small_tokens: int = 1024
    query_inputs: int = 256  # texts that may wait among the queries
    # A query is refused if it is expected to wait longer than this for other queries, and 1.8 times a lone one.
    query_wait_s: float = 0.05
    document_inputs: int = 16_384
    document_tokens: int = 2_000_000
    document_wait_s: float = 120.0
    # Admitted texts are expected in time; after this deadline a text is dropped without being computed.
    query_deadline_s: float = 10.0
    document_deadline_s: float = 300.0
    compute_s: float = 120.0  # one batch: a model that takes longer counts as stuck
    ready_s: float = 1.5
    drain_s: float = 10.0
    slow_client_s: float = 30.0  # for the body of a request to arrive
    cache_mb: float = 32.0

    @property
    def max_body_bytes(self) -> int:
        return int(self.max_body_mb * 1_000_000)
