"""The programs that measure speed: what they say of the numbers, and what they do with wrong arguments."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from embedder.checkpoint import DEFAULT_MODEL
from research.benchmarks import __main__ as bench
from research.benchmarks import hold_back, speed_report
from research.benchmarks.encode import SLOW_S, in_turn, load, ratio_of, through_transformers
from research.benchmarks.encode_peers import ours, with_dynamic_cache, without_cache
from research.benchmarks.query_latency import weight_bytes


def test_rivals_take_turns_in_an_order_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    found = in_turn({name: lambda name=name: called.append(name) for name in "abc"}, rounds=3, device="cpu")
    assert "".join(called) == "abc" + "abc" + "cba" + "abc"
    assert [len(each) for each in found.values()] == [3, 3, 3]
    times = iter([SLOW_S + 1, 0.5, *range(1, 9)])
    monkeypatch.setattr("research.benchmarks.encode.timed", lambda work, device: next(times))
    assert in_turn({"slow": str, "fast": str}, rounds=2, device="cpu") == {"slow": [SLOW_S + 1], "fast": [1, 2]}


def test_the_plain_ways_to_write_the_method_give_our_vectors() -> None:
    options = argparse.Namespace(model=DEFAULT_MODEL, dtype="float32", device="cpu")
    model, _ = load(options)
    plain = through_transformers(model, DEFAULT_MODEL, dtype="float32", device="cpu")
    texts = ["A ferry.", "A text that is a little longer than the other one.", "A ferry and a boat. " * 60]
    expected = ours(model, texts, 3)()
    np.testing.assert_allclose(with_dynamic_cache(plain, texts, 3)(), expected, atol=1e-4)
    np.testing.assert_allclose(without_cache(plain, texts, 3)(), expected, atol=1e-4)


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    assert ratio_of([2, 4, 30], [1, 2, 3]) == 2
    assert ratio_of([10], [1, 2, 3]) == 5


def test_weights_are_counted_as_often_as_they_are_read() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base_model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.LayerNorm(8))
            self.embedding = nn.Embedding(100, 8)

        def get_input_embeddings(self) -> nn.Embedding:
            return self.embedding

    model = Model().to(torch.bfloat16)
    assert weight_bytes(model, 3, "bfloat16") == 2 * (4 * 64 + 3 * 2 * 800)
    assert weight_bytes(model, 3, "int8") == 4 * 64 + 3 * 2 * 800


@pytest.fixture
def results(tmp_path: Path) -> Path:
    seconds = {"ours, K=0": [0.1, 0.2, 0.3], "ours, K=20": [0.2, 0.4, 0.6], "no cache, K=20": [12.0]}
    rows = [{"tokens": tokens, "batch": batch, "seconds": seconds} for tokens in (16, 64) for batch in (1, 64)]
    write(tmp_path / "encode.json", rows=rows)
    times = {"p50": 10.0, "p95": 20.0, "p99": 30.0}
    query = {"dtype": "int8", "steps": 5, "points": 100, "floor_ms": 4.0, "profile": {"attention": 0.25}}
    write(
        tmp_path / "query-latency.json",
        rows=[{**query, **dict.fromkeys(("embed", "index", "total", "explain"), times)}],
    )
    return tmp_path


def write(path: Path, **content: object) -> None:
    path.write_text(json.dumps({"machine": "a machine", "command": "-m x", **content}), encoding="utf-8")


def test_the_report_tells_medians_spread_and_ratios(results: Path) -> None:
    speed_report.write_report(results)
    page = (results / "speed.md").read_text(encoding="utf-8")
    assert "| ours, K=20 | 400 (200 to 600), ×2.00 | 400 (200 to 600), ×2.00 |" in page
    assert "| no cache, K=20 | 12000, ×60.00 | 12000, ×60.00 |" in page
    assert "| int8 | 5 | 10.0 | 20.0 | 30.0 | 10.0 | 10.0 | 20.0 | 4.0 | 2.50 | 10 |" in page
    for name in ("encode", "query-latency"):
        assert (results / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"({name}.png)" in page


def test_a_page_has_all_processors_with_each_peer_beside_us(results: Path) -> None:
    peer = {"sentence-transformers, float32": [0.4, 0.4, 0.4], "ours, K=0": [0.1, 0.2, 0.3]}
    write(results / "encode.json", rows=[{"tokens": 128, "batch": 64, "seconds": peer}], machine="one machine")
    (results / "avx2").mkdir()
    slower = {name: [2 * each for each in seconds] for name, seconds in peer.items()}
    slower["ours, K=0"] = [0.6, 0.6, 0.6]
    write(results / "avx2" / "encode.json", rows=[{"tokens": 128, "batch": 64, "seconds": slower}], machine="another")
    speed_report.write_processors(results)
    first, second = (results / "processors.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert first.startswith("one machine")
    assert "| ours, K=0 | 200.0 ms, ×0.50 |" in first
    assert second.startswith("another")
    assert "| ours, K=0 | 600.0 ms, ×0.75 |" in second


def test_parts_are_told_to_take_the_processor_for_a_lesser_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os, sys; open(sys.argv[1], 'w').write(os.environ.get('ATEN_CPU_CAPABILITY', 'its own'))"
    (tmp_path / "probe.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    monkeypatch.setattr(bench, "commands_of", lambda options: {"probe": ["probe", str(options.into / "said")]})
    for more in ([], ["--as-if", "avx2"]):
        monkeypatch.setattr("sys.argv", ["research.benchmarks", "--into", str(tmp_path / "out"), *more])
        bench.main()
    assert (tmp_path / "out" / "said").read_text() == "its own"
    assert (tmp_path / "out" / "avx2" / "said").read_text() == "avx2"


def test_a_folder_without_results_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make bench"):
        speed_report.write_report(tmp_path)


def test_a_part_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["research.benchmarks", "--only", "sppeed"])
    with pytest.raises(SystemExit):
        bench.main()
    assert "sppeed" in capsys.readouterr().err


def test_every_part_is_a_program_that_knows_its_arguments(tmp_path: Path) -> None:
    for quick in (True, False):
        options = argparse.Namespace(into=tmp_path, data=tmp_path, quick=quick)
        for module, *arguments in bench.commands_of(options).values():
            source = Path(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
            flags = [each for each in arguments if each.startswith("--")]
            assert all(f'"{flag}"' in source for flag in flags), (module, flags)


def test_queries_beside_documents_are_told_from_those_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold_back, "DOCUMENTS_A_CALL", 4)
    out = tmp_path / "held.json"
    hold_back.main(["--queries", "2", "--every", "0.3", "--rounds", "1", "--steps", "1", "--out", str(out)])
    (row,) = json.loads(out.read_text())["rounds"]
    assert [len(row[way]["queries"]) for way in ("alone", "unasked", "beside")] == [2, 0, 2]
    assert row["alone"]["documents"] == 0  # nothing was at work beside them
    assert min(row[way]["documents"] for way in ("unasked", "beside")) > 0
    table = capsys.readouterr().out
    assert f"{1000 * np.median(row['beside']['queries']):.1f}" in table


def test_a_table_says_how_much_longer_a_query_takes_beside_documents() -> None:
    alone, beside = (hold_back.Measured([each / 1000] * 4, 7.0) for each in (12.0, 20.5))
    assert "| 1 | 12.0, 12.0 | 20.5, 20.5 | 8.5 | 7 | 7 |" in hold_back.report(
        [{"alone": alone, "unasked": alone, "beside": beside}]
    )
