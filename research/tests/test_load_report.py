"""What the load benchmark calls a failure."""

from __future__ import annotations

from research.benchmarks.load.report import Kind, failures_of


def test_a_request_that_hangs_or_fails_is_told() -> None:
    kinds = {
        "search": Kind.of([(200, 0.1), (0, 30.0), (429, 0.01), (503, 0.01)], 10),
        "delete": Kind.of([(500, 0.1), (404, 0.1)], 10),
        "read text": Kind.of([(404, 0.1)], 10),
    }
    assert failures_of(kinds) == [
        "1 of 'search' got no answer in time",
        "1 of 'delete': 500",
        "1 of 'delete': 404",
    ]
    assert (kinds["search"].p50_ms, kinds["search"].slowest_ms) == (100.0, 30_000.0)
