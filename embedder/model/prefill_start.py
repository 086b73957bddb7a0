"""Chooses how a batch of prompts is read, and what each state weighs in their means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from embedder.model.backbone import Backbone
from embedder.model.batching import pad
from embedder.model.prefill import PackedPrefill, PaddedPrefill
from embedder.model.refine import Reader
from embedder.text.prompts import CONTEXT_SLOT, Frame


def start_prefill(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    *,
    steps: int,
    pooling: str,
    frame: Frame,
    padding_side: str = "right",
    between_parts: Callable[[], None] | None = None,
) -> Reader:
    """Packed where the decoder of ours reads the model, else padded, which is never interrupted `between_parts`."""
    if backbone.decoder is not None:
        if backbone.device.type != "cpu":
            between_parts = None  # there kernels are started ahead, and nothing is won
        return PackedPrefill(
            backbone,
            backbone.decoder,
            prompts,
            steps=steps,
            weights=prompt_weights(pooling, prompts, frame),
            contexts=backbone.contexts_of(prompts),
            between_parts=between_parts,
        )
    side = "left" if backbone.has_windows else padding_side
    return padded_prefill(backbone, prompts, pooling=pooling, frame=frame, padding_side=side)


def padded_prefill(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    *,
    pooling: str,
    frame: Frame,
    padding_side: str = "right",
) -> PaddedPrefill:
    """Through transformers' modules, with gradient where it is enabled."""
    return PaddedPrefill(
        backbone,
        pad(prompts, device=backbone.device, side=padding_side),
        weights=prompt_weights(pooling, prompts, frame),
        contexts=backbone.contexts_of(prompts),
    )


def prompt_weights(pooling: str, prompts: Sequence[Sequence[int]], frame: Frame) -> list[list[float]] | None:
    """What each state of a prompt weighs in its mean, prompt by prompt; None where all weigh the same."""
    if pooling == "context_last":
        return [[float(each == CONTEXT_SLOT) for each in ids] for ids in prompts]
    lengths = [len(ids) for ids in prompts]
    if pooling == "prompt_weighted_mean":
        return [[float(place) for place in range(1, length + 1)] for length in lengths]
    if pooling == "prompt_copy_mean":
        return [[float(place in frame.second_copy(length)) for place in range(length)] for length in lengths]
    return None
