"""A contract's golden vectors: what its author's machine computed, which every other is to reproduce."""

from __future__ import annotations

import numpy as np
import torch

from embedder.contract import Golden, resolve_defaults
from embedder.encoder import Encoder
from embedder.errors import ContractError

_TEXTS = (
    ("Rivers carry sand and clay towards the sea.", "", 5),
    ("Please move my appointment to Thursday afternoon.", "Represent the intention of this text.", 20),
)
_NUMBERS = 16
_TOLERANCE = 1e-4
_COSINE = 0.999  # at least, where weights are not float32
_COSINE_OF_DIFFERENCES = 0.98  # what is left after a subtraction is short, and errors weigh more in it
_ALL_BUT_GREEDY = 1e-2  # temperature below which a soft token is one word


def make_golden(encoder: Encoder) -> tuple[Golden, ...]:
    """For the contract of a new model: of texts of our own, as `encoder`, in float32, embeds them. None where words are
    chosen greedily, by a generator or as hard tokens: a near tie is another word on another processor."""
    if encoder.contract.generator is not None or encoder.contract.temperature < _ALL_BUT_GREEDY:
        return ()
    return tuple(_golden(encoder, *each) for each in _TEXTS)


def _golden(encoder: Encoder, text: str, instruction: str, steps: int) -> Golden:
    instruction, steps = resolve_defaults(encoder.contract, "query", instruction, min(steps, encoder.max_steps))
    vector = encoder.refine(text, instruction=instruction, steps=steps).vector
    return Golden(text, instruction, steps, tuple(round(float(x), 6) for x in vector[:_NUMBERS]))


def check_golden(encoder: Encoder) -> None:
    """Raises ContractError unless the contract's golden texts are embedded as its author's machine did."""
    for golden in encoder.contract.golden:
        wrong, fits = _compare(encoder, golden)
        if not fits:
            raise ContractError(
                f"Model {encoder.name!r} does not reproduce its golden vector of {golden.text!r} ({wrong:.2g} off or "
                "alike). Weights or libraries differ from those that it was made with; get the checkpoint again."
            )


def is_reproduced(encoder: Encoder, golden: Golden) -> bool:
    return _compare(encoder, golden)[1]


def _compare(encoder: Encoder, golden: Golden) -> tuple[float, bool]:
    """How far off it is in float32, or else the cosine; and whether that will do."""
    found = encoder.encode_queries([golden.text], instruction=golden.instruction, steps=golden.steps)[0]
    expected = np.asarray(golden.vector, dtype=np.float32)
    found = found[: len(expected)]
    if encoder.dtype == torch.float32:
        wrong = float(np.abs(found - expected).max())
        return wrong, wrong <= _TOLERANCE
    cosine = float(found @ expected / (np.linalg.norm(found) * np.linalg.norm(expected)))
    return cosine, cosine >= (_COSINE_OF_DIFFERENCES if encoder.contract.subtracted_instruction else _COSINE)
