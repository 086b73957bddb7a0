"""The parts of the benchmark of large collections that its figures rest on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.types.documents import ScoredPoint
from research.benchmarks.search_scale import recall
from research.benchmarks.search_scale_report import Row, report
from research.benchmarks.serving_memory import Memory
from research.benchmarks.spread_vectors import fit_spread, nearest_rows, neighbour_cosines, unit_rows


@pytest.fixture(scope="module")
def real() -> np.ndarray:
    """Clusters of their own shape each, as texts about one thing are."""
    random = np.random.default_rng(0)
    rows = [
        random.standard_normal(16) * 2 + random.standard_normal((50, 4)) @ random.standard_normal((4, 16))
        for _ in range(12)
    ]
    return unit_rows(np.concatenate(rows))


def test_nearest_rows_are_those_of_a_full_comparison(real: np.ndarray) -> None:
    cosines, places = nearest_rows(real[:20], real, 5)
    full = real[:20] @ real.T
    assert cosines == pytest.approx(-np.sort(-full, axis=1)[:, :5], abs=1e-6)
    assert np.take_along_axis(full, places, axis=1) == pytest.approx(cosines)


def test_drawn_vectors_lie_as_near_to_each_other_as_real_ones(real: np.ndarray) -> None:
    spread = fit_spread(real)
    drawn = spread.draw(len(real), seed=1)
    assert np.linalg.norm(drawn, axis=1) == pytest.approx(1, abs=1e-5)
    assert neighbour_cosines(drawn).mean() == pytest.approx(neighbour_cosines(real).mean(), abs=0.02)
    assert not set(map(tuple, drawn.tolist())) & set(map(tuple, real.tolist())), "copies are no new texts"


def test_a_seed_draws_the_same_vectors_whatever_their_number(real: np.ndarray) -> None:
    spread = fit_spread(real)
    assert np.array_equal(spread.draw(10, seed=1), spread.draw(2500, seed=1)[:10])
    assert not np.array_equal(spread.draw(10, seed=1), spread.draw(10, seed=2))


def test_recall_counts_what_is_as_good_as_the_last_of_the_best() -> None:
    def hits(*scores: float) -> list[ScoredPoint]:
        return [ScoredPoint(str(score), score, {}) for score in scores]

    assert recall([hits(0.9, 0.8)], [hits(0.9, 0.8)]) == 1
    assert recall([hits(0.9, 0.7)], [hits(0.9, 0.8)]) == 0.5
    assert recall([hits(0.9, 0.8), hits()], [hits(0.9, 0.8), hits(0.5, 0.4)]) == 0.5


def test_a_report_keeps_the_sizes_of_other_runs_and_replaces_its_own(tmp_path: Path) -> None:
    def row(points: int, p95_ms: float, engine: str = "embedded") -> Row:
        return Row(
            corpus="synthetic",
            engine=engine,
            points=points,
            search="exact",
            filter="",
            queries=10,
            p50_ms=1,
            p95_ms=p95_ms,
            p99_ms=9,
            batch_ms=1,
            recall=1,
            memory=Memory(1, 2) if engine == "embedded" else None,
            disk_mb=3 if engine == "embedded" else None,
            load_s=4,
        )

    report([row(1000, 5)], "first", tmp_path)
    report([row(1000, 6), row(10, 2), row(1000, 7, "server, 3 nodes")], "second", tmp_path)
    written = json.loads((tmp_path / "search-scale.json").read_text())
    assert [(each["points"], each["p95_ms"]) for each in written["rows"]] == [(10, 2), (1000, 6), (1000, 7)]
    assert written["commands"] == ["first", "second"]
    assert "| embedded | synthetic | 1,000 |" in (tmp_path / "search-scale.md").read_text()
    report([row(10, 3, "server, 3 nodes")], "third", tmp_path)  # what has no memory is read again
    [line] = [
        each for each in (tmp_path / "search-scale.md").read_text().splitlines() if "nodes | synthetic | 10 " in each
    ]
    assert line.endswith("| 1.0000 |  |  |  |  |")
    assert (tmp_path / "search-scale.png").stat().st_size > 1000
