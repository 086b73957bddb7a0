"""The scripts that count and measure what embedding costs: they run from end to end, and their formulas are right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from embedder.model.weight_formats import BlockedLinear, has_blocks
from research.benchmarks import flops, gpu
from research.benchmarks.gpu_parts import bytes_read, until_saturated
from research.benchmarks.random_models import SHAPES, random_backbone, shape_alone


def test_eq_9_is_what_the_paper_says() -> None:
    assert flops.eq_9(512, 0) == 1
    # By hand: passes over 2, 3 and 4 tokens cost 4 + 9 + 16, one over 2 costs 4.
    assert flops.eq_9(2, 2) == pytest.approx((4 + 9 + 16) / 4)
    for tokens, found in flops.PAPER_UNCACHED.items():
        for k, tera in found.items():
            assert flops.eq_9(tokens, k) == pytest.approx(tera / flops.PAPER_ONE_PASS[tokens], rel=0.01)


def test_eq_10_is_what_the_paper_says() -> None:
    assert gpu.eq_10(512, 0) == 1
    assert gpu.eq_10(10, 10) == 4


def test_flops_of_a_step_are_those_of_its_matrices() -> None:
    decoder, weight = shape_alone("tiny")
    config = SHAPES["tiny"]
    size, feed, layers, tokens = config.hidden_size, config.intermediate_size, config.num_hidden_layers, 10
    body = layers * (2 * size**2 + 2 * size * size // 2 + 3 * size * feed)  # two key heads of four: half the columns
    one_pass = flops.flops_of(lambda: flops.read(decoder, weight, tokens))
    assert one_pass == 2 * tokens * body + layers * 4 * tokens**2 * size
    step = flops.flops_of(lambda: flops.read_and_refine(decoder, weight, tokens, 1)) - one_pass
    assert step == 2 * body + layers * 4 * (tokens + 1) * size + 4 * config.vocab_size * size
    again = flops.flops_of(lambda: flops.read_again(decoder, weight, tokens, 1)) - one_pass
    longer = flops.flops_of(lambda: flops.read(decoder, weight, tokens + 1))
    assert again == longer + 4 * config.vocab_size * size


@pytest.mark.skipif(not has_blocks(), reason="this build of torch has no oneDNN")
def test_products_in_blocks_are_counted_as_plain_ones() -> None:
    backbone = random_backbone("tiny", device="cpu", dtype=torch.float32)
    assert isinstance(backbone.decoder._layout.layers[0].qkv, BlockedLinear)
    in_blocks = flops.flops_of(lambda: flops.read_and_refine(backbone.decoder, backbone.weight, 9, 3))
    assert in_blocks == flops.flops_of(lambda: flops.read_and_refine(*shape_alone("tiny"), 9, 3))


def test_flops_are_counted_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "flops.json"
    flops.main(["--shapes", "tiny", "--tokens", "16", "--steps", "1", "2", "--without-mini", "--out", str(out)])
    [row] = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert row["one_pass"] < row["cached"]["1"] < row["cached"]["2"] < row["uncached"]["2"]
    assert "| tiny | 16 | 2 |" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_without_a_card_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        gpu.main([])
    assert ended.value.code == 2
    assert "no CUDA card" in capsys.readouterr().err


def test_the_script_for_cards_runs_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "gpu.json"
    gpu.main([
        "--device", "cpu", "--shapes", "tiny", "--tokens", "16", "--query-tokens", "8", "--most-rows", "2",
        "--rounds", "1", "--out", str(out),
    ])  # fmt: skip
    found = json.loads(out.read_text(encoding="utf-8"))
    tiny = found["shapes"]["tiny"]
    assert [row["rows"] for row in tiny["batches"]] == [1, 2]
    assert set(tiny["batches"][0]["seconds"]) == {"0", "5", "20"}
    assert set(tiny["batches"][0]["graph_seconds"]) == {"5", "20"}
    assert set(tiny["query"]["seconds"]) == {"plain", "CUDA graphs"}
    assert found["copied_bytes_per_second"] > 0
    assert "nothing else" in capsys.readouterr().out


def row_of(rows: int, seconds: dict[int, float], peaks: dict[int, int]) -> dict:
    graphed = {k: 0.9 * each for k, each in seconds.items() if k}
    sizes = {"rows": rows, "peak_bytes": peaks, "weight_bytes": 50, "eq_10": {5: 1.02, 20: 1.08}}
    return {**sizes, "seconds": seconds, "graph_seconds": graphed}


def test_aims_are_those_of_the_fastest_batch() -> None:
    found = {
        "dtype": "bfloat16", "tokens": 512, "ended": "…",
        "batches": [
            row_of(1, {0: 1.0, 5: 2.0, 20: 4.0}, {0: 100, 5: 100, 20: 100}),
            row_of(8, {0: 2.0, 5: 2.06, 20: 2.4}, {0: 100, 5: 102, 20: 130}),
        ],
        "query": {"tokens": 32, "steps": 20, "floor_seconds": 0.1, "seconds": {"plain": 0.2, "CUDA graphs": 0.14}},
    }  # fmt: skip
    found["targets"] = gpu.targets("qwen2.5-7b", found)
    assert {row["of"]: row["is_met"] for row in found["targets"]} == {
        "K=5, times one pass": True,
        "K=5 (CUDA graphs), times one pass": True,
        "K=20, times one pass": False,
        "K=20 (CUDA graphs), times one pass": True,
        "K=5, peak memory off Eq 10": True,
        "K=20, peak memory off Eq 10": False,
        "query (plain), times the floor": False,
        "query (CUDA graphs), times the floor": True,
    }
    assert gpu.described("qwen2.5-7b", found).count("MISSED") == 3


def test_batches_grow_until_the_card_is_full() -> None:
    speeds = {1: 10, 2: 20, 4: 20.1, 8: 20.2, 16: 99}
    found, why = until_saturated(lambda rows: {"rows": rows}, most=64, texts_per_second=lambda row: speeds[row["rows"]])
    assert [row["rows"] for row in found] == [1, 2, 4, 8]
    assert "8 rows are no faster" in why

    def measure(rows: int) -> dict:
        if rows == 4:
            raise torch.cuda.OutOfMemoryError("full")
        return {"rows": rows}

    found, why = until_saturated(measure, most=64, texts_per_second=lambda row: row["rows"])
    assert [row["rows"] for row in found] == [1, 2]
    assert "4 rows do not fit" in why


def test_a_query_reads_the_body_each_time_and_tied_weights_once() -> None:
    backbone = random_backbone("tiny", device="cpu", dtype=torch.float32)
    tied = backbone.weight.nbytes
    body = sum(each.nbytes for name, each in backbone.model.named_parameters() if "embed" not in name)
    assert bytes_read(backbone, steps=0) == body
    assert bytes_read(backbone, steps=20) == 21 * body + 20 * tied
