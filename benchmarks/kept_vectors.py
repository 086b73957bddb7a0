"""The model, keeping its vectors in a file that the caller names, so that a measurement can be run again in minutes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from app.wiring.embedding import LocalEmbedder
from embedder.refinement import Refinement

_TOGETHER = 32


class KeepingEmbedder(LocalEmbedder):
    """By fingerprint, side, instruction, steps and text: nothing of another model is ever taken. No refinement."""

    def __init__(self, model: str, *, device: str | None = None, file: Path) -> None:
        super().__init__(model, device=device)
        self._file = file
        self._guard = threading.Lock()
        self._kept: dict[bytes, np.ndarray] = {}
        if file.exists():
            with np.load(file) as content:
                self._kept = {
                    key.tobytes(): vector for key, vector in zip(content["keys"], content["vectors"], strict=True)
                }

    def save(self) -> None:
        with self._guard:
            keys = np.frombuffer(b"".join(self._kept), dtype=np.uint8).reshape(-1, 32)
            np.savez(self._file, keys=keys, vectors=np.array(list(self._kept.values()), dtype=np.float32))

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        if instruction is None or token_bias:
            return super().embed_query(text, instruction=instruction, steps=steps, token_bias=token_bias)
        steps = steps or self.info.default_query_steps
        key = self._key("query", instruction, steps, text)
        if key not in self._kept:
            found = super().embed_query(text, instruction=instruction, steps=steps)
            self._keep({key: np.array(found.vector, dtype=np.float32)})
        return Refinement(text, instruction, self._kept[key])

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        keys = [self._key("document", instruction, steps, text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._kept}
        if new:
            found = super().embed_documents(list(new.values()), instruction=instruction, steps=steps)
            self._keep(dict(zip(new, np.array(found, dtype=np.float32), strict=True)))
        return [self._kept[key].tolist() for key in keys]

    def embed_in_batches(
        self, texts: Sequence[str], *, instruction: str, steps: int
    ) -> Iterator[tuple[Sequence[int], list[list[float]]]]:
        for start in range(0, len(texts), _TOGETHER):
            places = range(start, min(start + _TOGETHER, len(texts)))
            yield places, self.embed_documents([texts[each] for each in places], instruction=instruction, steps=steps)

    def _key(self, side: str, instruction: str, steps: int, text: str) -> bytes:
        parts = (self.info.fingerprint, side, instruction, str(steps), text)
        return hashlib.sha256("\0".join(parts).encode()).digest()

    def _keep(self, new: Mapping[bytes, np.ndarray]) -> None:
        with self._guard:
            self._kept.update(new)
