"""The vectors of the bank's wordings by the shipped model: embedding them takes ten seconds of a processor, so that
proposals would be late for the first instruction. `scripts/make_aspect_vectors.py` makes the file.
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
_CODES, _SCALES = "codes", "scales"  # int8 (n, D), and what a row of them is multiplied with (n,)
_LARGEST = 127


def kept_vectors(model: ModelInfo, wordings: Sequence[str], *, file: Path = FILE) -> np.ndarray | None:
    """(n, D) float32, of length 1; None where the file is of another model or of other wordings, or is not there."""
    if not file.is_file():
        return None
    with safe_open(file, framework="np") as opened:
        if opened.metadata() != _metadata(model, wordings):
            return None
        codes, scales = opened.get_tensor(_CODES), opened.get_tensor(_SCALES)
    vectors: np.ndarray = codes.astype(np.float32) * scales[:, None]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def keep_vectors(model: ModelInfo, wordings: Sequence[str], vectors: np.ndarray, *, file: Path = FILE) -> None:
    """Rounded to eight bits, which moves a vector by less than 0.0001 of a cosine."""
    scales = np.abs(vectors).max(axis=1) / _LARGEST
    codes = np.rint(vectors / scales[:, None]).astype(np.int8)
    save_file({_CODES: codes, _SCALES: scales.astype(np.float32)}, file, metadata=_metadata(model, wordings))


def _metadata(model: ModelInfo, wordings: Sequence[str]) -> dict[str, str]:
    digest = hashlib.sha256("\n".join(wordings).encode()).hexdigest()
    return {"model": model.fingerprint, "dimension": str(model.dimension), "wordings": digest}
