"""What gpu.py measures with: texts of random tokens, times, bandwidth, memory, bytes that a query reads."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from embedder.model.backbone import Backbone
from embedder.model.cuda_graphs import GraphedDecoder
from embedder.model.prefill import PackedPrefill
from embedder.model.refine import refine_states

Work = Callable[[], object]


def embedding_of(backbone: Backbone, *, rows: int, tokens: int, steps: int) -> Work:
    """One batch through the served path; steps 0: one pass, whose states are averaged."""
    generator = torch.Generator().manual_seed(rows * tokens)
    ids = torch.randint(backbone.weight.shape[0], (rows, tokens), generator=generator).tolist()
    assert backbone.decoder is not None
    decoder = backbone.decoder

    @torch.inference_mode()
    def encode() -> Tensor:
        states = refine_states(PackedPrefill(backbone, decoder, ids, steps=steps), steps=steps)
        return states.generated.mean(dim=1) if steps else states.prompt_mean

    return encode


def in_turn(works: Mapping[str, Work], *, rounds: int, device: str) -> dict[str, float]:
    """The median seconds of each; all run in turn, once before to get warm."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            wait_for(device)
            start = time.perf_counter()
            work()
            wait_for(device)
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in seconds.items()}


def wait_for(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def copied_bytes_per_second(device: str, *, rounds: int) -> float:
    """What a copy within the device's memory reads and writes in a second."""
    source = torch.ones(2**30 if device != "cpu" else 2**26, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / in_turn({"copy": lambda: target.copy_(source)}, rounds=rounds, device=device)["copy"]


def bytes_read(backbone: Backbone, *, steps: int) -> int:
    """The least that a query reads of the weights: the body at every pass and step, head and E at every step; where
    these are one they need be read once."""
    head, embedding = backbone.head.weight, backbone.weight
    if backbone.soft_head is not None:
        body = sum(each.nbytes for each in backbone.body.parameters()) - embedding.nbytes
        soft = sum(each.nbytes for each in backbone.soft_head.parameters()) + backbone.soft_weight.nbytes
        return (1 + steps) * body + steps * soft
    vocabulary = embedding.nbytes if head.data_ptr() == embedding.data_ptr() else head.nbytes + embedding.nbytes
    whole = sum(each.nbytes for each in backbone.model.parameters())  # a tied weight counts once
    return (1 + steps) * (whole - vocabulary) + steps * vocabulary


def peak_bytes(work: Work, device: str) -> int | None:
    """The most memory that torch has taken of the card meanwhile, weights included; None on a CPU."""
    if device == "cpu":
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    work()
    wait_for(device)
    return torch.cuda.max_memory_allocated()


def with_graphs(backbone: Backbone, device: str) -> Backbone:
    """Steps as CUDA graphs; on a CPU the same steps without capture."""
    decoder = backbone.decoder
    assert decoder is not None
    capture = None if device != "cpu" else lambda run: None
    both_ways = backbone.attention == "prefix"
    graphed = GraphedDecoder(decoder._layout, decoder.vocabulary, is_bidirectional=both_ways, capture=capture)
    return replace(backbone, decoder=graphed)


def until_saturated(
    measure: Callable[[int], dict], *, most: int, texts_per_second: Callable[[dict], float], gain: float = 1.03
) -> tuple[list[dict], str]:
    """`measure` at 1, 2, 4 … rows until doubling them twice brings less than `gain`, and why it ended."""
    found: list[dict] = []
    rows = 1
    while rows <= most:
        try:
            found.append(measure(rows))
        except torch.cuda.OutOfMemoryError:
            if not found:
                raise
            torch.cuda.empty_cache()
            return found, f"{rows} rows do not fit into memory"
        *_, before, middle, last = [0.0, 0.0, *map(texts_per_second, found)]
        if max(middle, last) < gain * before:
            return found, f"{rows} rows are no faster a text than {rows // 4}"
        rows *= 2
    return found, f"no more than {most} rows were asked for"
