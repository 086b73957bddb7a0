"""Precomputed vectors of the bank's wordings for the shipped model.

Embedding them takes ten seconds of CPU, which would delay the first proposals. `scripts/make_aspect_vectors.py` writes
the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from embedder.model_info import ModelInfo

FILE = Path(__file__).with_name("aspect_vectors.safetensors")
_CODES, _SCALES = "codes", "scales"  # int8 (n, D); one factor per row (n,)
_LARGEST = 127  # of int8


def kept_vectors(model: ModelInfo, wordings: Sequence[str], *, file: Path = FILE) -> np.ndarray | None:
    """Loads the unit vectors of `wordings`, (n, D) float32.

    None if the file is missing or was made with another model or other wordings.
    """
    if not file.is_file():
        return None
    with safe_open(file, framework="np") as opened:
        if opened.metadata() != _metadata(model, wordings):
            return None
        codes, scales = opened.get_tensor(_CODES), opened.get_tensor(_SCALES)
    vectors: np.ndarray = codes.astype(np.float32) * scales[:, None]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def keep_vectors(model: ModelInfo, wordings: Sequence[str], vectors: np.ndarray, *, file: Path = FILE) -> None:
    """Saves `vectors` (n, D) as int8 with one scale per row; the rounding changes a cosine by less than 0.0001."""
    scales = np.abs(vectors).max(axis=1) / _LARGEST
    codes = np.rint(vectors / scales[:, None]).astype(np.int8)
    save_file({_CODES: codes, _SCALES: scales.astype(np.float32)}, file, metadata=_metadata(model, wordings))


def _metadata(model: ModelInfo, wordings: Sequence[str]) -> dict[str, str]:
    digest = hashlib.sha256("\n".join(wordings).encode()).hexdigest()
    return {"model": model.fingerprint, "dimension": str(model.dimension), "wordings": digest}
