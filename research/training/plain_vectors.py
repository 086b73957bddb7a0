"""Vectors of training texts without an instruction, read by the model once and kept in files that runs share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tqdm.auto import tqdm

from embedder.encoder import Encoder
from embedder.errors import DataError

_KEY_BYTES = 16
_CHUNK = 2_048  # texts between two looks at Ctrl-C and the progress bar


class PlainVectors:
    """Of one encoder. Files hold digests in place of texts, and half precision, which moves a cosine by 3e-4."""

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        """Raises DataError where `folder` holds vectors of another model."""
        self._encoder = encoder
        self._folder = folder
        self._rows: dict[bytes, np.ndarray] = {}
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="np") as file:
                model = (file.metadata() or {}).get("model")
            if model != encoder.fingerprint:
                raise DataError(f"{path} holds vectors of another model. Give another --vectors, or that model.")
            kept = load_file(path)
            self._rows |= zip(map(bytes, kept["keys"]), kept["vectors"], strict=True)

    def read(self, texts: Sequence[str]) -> int:
        """Has the model read those that are not known, and keeps them. Returns how many these were."""
        missing = {key: text for text in texts if (key := _key_of(text)) not in self._rows}
        order = sorted(missing, key=lambda key: len(missing[key]))  # texts of similar length need few pads
        with tqdm(total=len(order), desc="Reading", unit="text", leave=False, disable=not order) as bar:
            for start in range(0, len(order), _CHUNK):
                keys = order[start : start + _CHUNK]
                self._keep(keys, self._encoder.encode_documents([missing[key] for key in keys], instruction=""))
                bar.update(len(keys))
        return len(order)

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32 of texts that were read."""
        return np.stack([self._rows[_key_of(text)] for text in texts]).astype(np.float32)

    def _keep(self, keys: Sequence[bytes], vectors: np.ndarray) -> None:
        halves = vectors.astype(np.float16)
        self._rows |= zip(keys, halves, strict=True)
        joined = b"".join(keys)
        self._folder.mkdir(parents=True, exist_ok=True)
        # Named by what it holds: two runs beside each other never write different things into one file.
        path = self._folder / f"{hashlib.sha256(joined).hexdigest()[:16]}.safetensors"
        temporary = path.with_suffix(".tmp")
        digests = np.frombuffer(joined, dtype=np.uint8).reshape(-1, _KEY_BYTES)
        save_file({"keys": digests, "vectors": halves}, temporary, {"model": self._encoder.fingerprint})
        temporary.replace(path)


def _key_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_KEY_BYTES]
