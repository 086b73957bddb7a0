"""The short form of the chaos suite; `make chaos` runs the long one over many seeds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from chaos_run import ChaosSettings, run_seed
from qdrant_servers import QdrantServer, lone_qdrant

__all__ = ["lone_qdrant"]  # a fixture

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.timeout(900),  # for machines that are busy with other things
]

SEED = 1


@pytest.mark.parametrize(("documents", "kills"), [(8, 2), pytest.param(40, 6, marks=pytest.mark.long)])
def test_kills_and_broken_connections_change_nothing(model: Path, tmp_path: Path, documents: int, kills: int) -> None:
    print(f"seed {SEED}")
    outcome = run_seed(SEED, ChaosSettings(str(model), documents=documents, kills=kills), tmp_path / "runs")
    assert outcome.differences == ()
    assert sum(outcome.kills.values()) == kills
    assert outcome.chunks > 2 * outcome.documents >= 1.5 * documents


@pytest.mark.server
@pytest.mark.parametrize("seed", range(1, 5))
def test_they_change_nothing_on_a_server(model: Path, tmp_path: Path, lone_qdrant: QdrantServer, seed: int) -> None:
    settings = ChaosSettings(str(model), documents=40, kills=6, engine="server")
    outcome = run_seed(seed, settings, tmp_path / "runs", server=lone_qdrant)
    assert outcome.differences == ()
    assert sum(outcome.kills.values()) == 6
