"""Counts the floating-point operations of an embedding as they are dispatched: one pass, and K steps with the cache and
without, beside what the paper says (Eq 9, Table 6). Needs no card: shapes without numbers are counted too.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from embedder.checkpoint import DEFAULT_MODEL, find_checkpoint, load_parts
from embedder.command.standard_output import run_program
from embedder.model.decoder import Decoder, KVCacheSession
from research.benchmarks.random_models import SHAPES, shape_alone

# Table 6 of the paper: teraFLOPs by tokens and k of the rows "Causal-EOS", "GIRCSE (w/ cache)" and "GIRCSE (w/o
# cache)". It does not say of which backbone.
PAPER_ONE_PASS = {512: 7.33, 1024: 14.65, 2048: 29.30}
PAPER_CACHED = {
    512: {1: 7.34, 3: 7.37, 5: 7.40},
    1024: {1: 14.67, 3: 14.70, 5: 14.73},
    2048: {1: 29.32, 3: 29.35, 5: 29.38},
}
PAPER_UNCACHED = {
    512: {1: 14.67, 3: 29.39, 5: 44.17},
    1024: {1: 29.32, 3: 58.70, 5: 88.13},
    2048: {1: 58.62, 3: 117.31, 5: 176.04},
}
_MINI_TOKENS = (64, 256)  # 256 are the most that it reads


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=["mistral-7b", "qwen2.5-7b"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 1024, 2048])
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 3, 5, 20])
    parser.add_argument(
        "--without-mini", action="store_true", help=f"leave out {DEFAULT_MODEL}, whose weights are read"
    )
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    options = parser.parse_args(arguments)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()}\n")
    rows: list[dict[str, Any]] = []
    if not options.without_mini:
        decoder, weight = mini()
        rows += [counted(DEFAULT_MODEL, decoder, weight, tokens, options.steps) for tokens in _MINI_TOKENS]
    for shape in options.shapes:
        decoder, weight = shape_alone(shape)
        rows += [counted(shape, decoder, weight, tokens, options.steps) for tokens in options.tokens]
    print(table(rows))
    if options.out:
        options.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1), encoding="utf-8")


def mini() -> tuple[Decoder, Tensor]:
    backbone, _ = load_parts(find_checkpoint(DEFAULT_MODEL), device="cpu", dtype="float32")
    if backbone.decoder is None:
        raise RuntimeError(f"{DEFAULT_MODEL} is not read by our decoder here.")
    return backbone.decoder, backbone.weight


def counted(name: str, decoder: Decoder, weight: Tensor, tokens: int, steps: Sequence[int]) -> dict[str, Any]:
    """FLOPs of one text of so many tokens."""
    one_pass = flops_of(lambda: read(decoder, weight, tokens))
    return {
        "model": name,
        "tokens": tokens,
        "one_pass": one_pass,
        "cached": {k: flops_of(lambda k=k: read_and_refine(decoder, weight, tokens, k)) for k in steps},
        "uncached": {k: flops_of(lambda k=k: read_again(decoder, weight, tokens, k)) for k in steps},
        "eq_9": {k: eq_9(tokens, k) for k in steps},
    }


@torch.no_grad()
def flops_of(work: Callable[[], object]) -> int:
    """A multiplication and an addition are two. Attention is counted whole, as if nothing were masked."""
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        work()
    return counter.get_total_flops()


def read(decoder: Decoder, weight: Tensor, tokens: int) -> None:
    decoder.start([tokens], steps=0, like=weight).read(inputs_of(weight, tokens))


def read_and_refine(decoder: Decoder, weight: Tensor, tokens: int, steps: int) -> None:
    """Algorithm 1 as it is served: every position is computed once."""
    run: KVCacheSession = decoder.start([tokens], steps=steps, like=weight)
    state = run.read(inputs_of(weight, tokens))[-1:]
    for _ in range(steps):
        state = run.advance(decoder.vocabulary.next_inputs(state, temperature=1.0, logit_bias=None))


def read_again(decoder: Decoder, weight: Tensor, tokens: int, steps: int) -> None:
    """Algorithm 1 without a cache: passes over N, N + 1, … N + K tokens, as Eq 9 has them."""
    for step in range(steps + 1):
        inputs = inputs_of(weight, tokens + step)
        state = decoder.start([tokens + step], steps=0, like=weight).read(inputs)[-1:]
        if step < steps:
            decoder.vocabulary.next_inputs(state, temperature=1.0, logit_bias=None)


def inputs_of(weight: Tensor, tokens: int) -> Tensor:
    return weight[:1].expand(tokens, -1)


def eq_9(tokens: int, steps: int) -> float:
    """R_computation = ((K + 1)N² + NK(K + 1) + K(K + 1)(2K + 1)/6) / N²: "the total attention-dominated computation
    ratio with respect to the baseline" (Eq 9), without a cache."""
    n, k = tokens, steps
    return ((k + 1) * n**2 + n * k * (k + 1) + k * (k + 1) * (2 * k + 1) / 6) / n**2


def _linear_pointwise(x, blocks, *_: Any, out_shape=None, **__: Any) -> int:
    """oneDNN's product with weights in blocks: their own shape says nothing."""
    return 2 * torch.Size(out_shape).numel() * x[-1]


def _attention_on_cpu(query, key, value, *_: Any, out_shape=None, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


# What torch has no formula for.
FORMULAS: Mapping[Any, Any] = {
    torch.ops.mkldnn._linear_pointwise: _linear_pointwise,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_on_cpu,
}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| model | tokens | K | GFLOPs | times one pass | paper | no cache, GFLOPs | times one pass | Eq 9 | paper |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        tokens, one_pass = row["tokens"], row["one_pass"]
        lines.append(f"| {row['model']} | {tokens:,} | one pass | {one_pass / 1e9:,.2f} | 1 | | | | | |")
        for k, cached in row["cached"].items():
            uncached = row["uncached"][k]
            lines.append(
                f"| {row['model']} | {tokens:,} | {k} | {cached / 1e9:,.2f} | {cached / one_pass:.3f} "
                f"| {of_paper(PAPER_CACHED, row, k)} | {uncached / 1e9:,.2f} | {uncached / one_pass:.2f} "
                f"| {row['eq_9'][k]:.2f} | {of_paper(PAPER_UNCACHED, row, k)} |"
            )
    return "\n".join(lines)


def of_paper(found: Mapping[int, Mapping[int, float]], row: Mapping[str, Any], steps: int) -> str:
    """Times one pass, for a 7B model at a length and k of Table 6."""
    value = found.get(row["tokens"], {}).get(steps) if "7b" in row["model"] else None
    return "" if value is None else f"{value / PAPER_ONE_PASS[row['tokens']]:.3f}"


if __name__ == "__main__":
    run_program(main)
