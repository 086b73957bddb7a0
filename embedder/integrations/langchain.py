"""`GircseEmbeddings`: LangChain's Embeddings with separate instructions and steps for queries and documents."""

from __future__ import annotations

import asyncio
import hashlib
import json
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.encoder import Encoder
from embedder.integrations.known_options import known_options
from embedder.model.contract import resolve_defaults
from embedder.refinement import Refinement
from embedder.text.prompts import check_text, is_empty


class GircseEmbeddings(BaseModel, Embeddings):
    """Instruction-following embeddings that generate soft refinement tokens (GIRCSE).

    .. code-block:: python

        from embedder import GircseEmbeddings

        embeddings = GircseEmbeddings(query_instruction="Represent the emotion of this text.")
        vector = embeddings.embed_query("Why is my card not here yet?")
        embeddings.refine("Why is my card not here yet?").steps[0].tokens
    """

    model: str = DEFAULT_MODEL
    """A shipped name, a local folder or a hub id."""
    query_instruction: str | None = None
    """What "similar" means for queries. None: the model's default; "": no instruction."""
    document_instruction: str | None = None
    """Instruction for documents; most searches use none."""
    query_steps: int | None = Field(default=None, ge=0)
    """Soft tokens generated per query (K). None: the model's default. 0: the base model's own vector, if the model has
    one; it follows no instruction."""
    document_steps: int | None = Field(default=None, ge=0)
    """Soft tokens generated per document. None: the model's default. 0: as for queries."""
    tolerance: float | None = Field(default=None, ge=0, le=2)
    """Stop refining a query once a step moves its vector by this much (1 - cosine) or less. None: take all steps."""
    truncate_dim: int | None = Field(default=None, ge=1)
    """Keep this many leading dimensions and normalise again. None: all."""
    batch_size: int = Field(default=32, ge=1)
    device: str | None = None
    """A torch device. None: CUDA if available, else the CPU."""
    dtype: str | None = "auto"
    """float32, bfloat16, or int8 (8-bit weights: faster for one query on a CPU, half the memory, slightly less exact).
    auto: bfloat16 if the device has hardware for it, else the contract's. None: the contract's."""
    cache_mb: float = Field(default=0, ge=0)
    """Memory in MB for a cache of vectors; a cached text costs nothing."""
    show_progress: bool = False
    """Show a progress bar while embedding documents."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _check_options(cls, values: Any) -> Any:
        return known_options(cls, values)

    _encoder: Encoder = PrivateAttr()
    _executor: ThreadPoolExecutor = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        self._encoder = load_encoder(
            self.model,
            device=self.device,
            dtype=self.dtype,
            truncate_dim=self.truncate_dim,
            cache_mb=self.cache_mb,
            own_thread=True,
        )
        # One thread: parallel calls only compete for the same cores.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gircse-embed")

    @property
    def fingerprint(self) -> str:
        """Digest of everything in the model that changes a vector. Do not compare vectors of different fingerprints."""
        return self._encoder.fingerprint

    @property
    def cache_namespace(self) -> str:
        """The `namespace` for LangChain's `CacheBackedEmbeddings`.

        It differs by model, instructions, steps, tolerance, dtype and dimension, so that no cached vector is returned
        for another setting. `fingerprint` alone does not: it names the model.
        """
        contract = self._encoder.contract
        read = [
            resolve_defaults(contract, "query", self.query_instruction, self.query_steps),
            resolve_defaults(contract, "document", self.document_instruction, self.document_steps),
        ]
        parts = [self.fingerprint, read, self.tolerance, self.dimension, self.dtype]
        return f"gircse-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"

    def __getstate__(self) -> dict[Any, Any]:
        """Pickles only the settings; the process that unpickles them loads the model."""
        return super().__getstate__() | {"__pydantic_private__": None}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__(state)
        self.model_post_init(None)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Shares the loaded model, which is immutable."""
        return self.model_copy()

    @property
    def dimension(self) -> int:
        return self._encoder.dimension

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One L2-normalised vector per text.

        Empty texts get the vector of a prompt without text, and cause one warning.
        """
        if not isinstance(texts, str):  # which is no list of texts; the encoder refuses it
            texts = list(texts)  # some splitters yield theirs
        empty = [] if isinstance(texts, str) else [index for index, text in enumerate(texts) if is_empty(text)]
        given = [text for text in texts if not is_empty(text)] if empty else texts
        for index, text in enumerate(texts if empty else ()):
            if not is_empty(text):
                check_text(text, f"Text {index}")  # the encoder counts without the empty ones
        vectors = self._encoder.encode_documents(
            given,
            instruction=self.document_instruction,
            steps=self.document_steps,
            batch_size=self.batch_size,
            show_progress=self.show_progress,
        ).tolist()
        if empty:
            warnings.warn(
                f"{len(empty)} of {len(texts)} texts are empty (the first is text {empty[0]}). Their vector is that of "
                "a prompt without text; leave them out.",
                stacklevel=2,
            )
            vector = self._encoder.encode_empty(
                instruction=self.document_instruction, steps=self.document_steps
            ).tolist()
            for index in empty:  # ascending, so that every index is that of the result
                vectors.insert(index, vector)
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The L2-normalised vector of one query. Raises ValueError for an empty text."""
        instruction, steps = self.query_instruction, self.query_steps
        if self.tolerance is None:
            vectors = self._encoder.encode_queries([text], instruction=instruction, steps=steps)
        else:
            vectors, _ = self._encoder.encode_until_converged(
                [text], instruction=instruction, steps=steps, tolerance=self.tolerance
            )
        return vectors[0].tolist()

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self.embed_query, text)

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        """Embeds a query and returns the vector and the words of the soft token after every step.

        token_bias: a number within [-10, 10] per word, added to the logits of its pieces at every step.
        """
        return self._encoder.refine(
            text,
            instruction=self.query_instruction if instruction is None else instruction,
            steps=self.query_steps if steps is None else steps,
            token_bias=token_bias,
            tolerance=self.tolerance,
        )

    def with_instructions(self, *, query: str | None = None, document: str | None = None) -> Self:
        """A copy with other instructions that shares the loaded model. None keeps the current instruction."""
        changes = {"query_instruction": query, "document_instruction": document}
        return self.model_copy(update={name: value for name, value in changes.items() if value is not None})
