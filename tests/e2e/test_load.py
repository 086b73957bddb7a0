"""A short form of `python -m benchmarks.load`: all processes, access control, PostgreSQL where it is installed."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from forked import start_forked

from benchmarks.load.__main__ import run_load
from benchmarks.load.application import service_application
from benchmarks.load.report import Kind, Load, failures_of, render

sys.path.append(str(Path(__file__).parents[1] / "chaos"))

from chaos_model import tiny_model


@pytest.mark.skipif(sys.platform == "win32", reason="starts a PostgreSQL as POSIX does")
@pytest.mark.skipif(importlib.util.find_spec("locust") is None, reason="locust is not installed: pip install locust")
@pytest.mark.timeout(600)  # for machines that are busy with other things
@pytest.mark.xdist_group("service under load")
@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.long)])
def test_a_mixed_load_is_served_and_nothing_is_lost(tmp_path: Path, seconds: int) -> None:
    model = str(tiny_model(tmp_path / "tiny"))
    with service_application(tmp_path, model=model, start_program=start_forked) as application:
        load = run_load(application, seconds=seconds, users=8, rows=50)
    assert not load.faults, "\n".join(load.faults)
    assert {"search", "search, hybrid", "add text", "add file", "delete", "embeddings"} <= set(load.kinds), load.kinds
    assert load.kept
    assert load.deleted
    assert load.memory_mb.keys() >= {"web", "worker", "embedder", "edge"}
    assert "| search, words |" in render(load)
    assert Load.of_json(json.loads(json.dumps(load.to_json()))) == load


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
