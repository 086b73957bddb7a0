"""`mteb.evaluate(GircseMteb("gircse-mini"), tasks)`: a GIRCSE model on the benchmarks of mteb 2. Needs `[mteb]`.

Instructions and steps are chosen here; batching, truncation and templates are the encoder's own.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from mteb.abstasks.abstask import get_abstask_prompt
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ScoringFunction
from mteb.types import PromptType

from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.contract import resolve_defaults
from embedder.encoder import Encoder
from embedder.instructions import Role, UnknownTaskError, instruction_for

logger = logging.getLogger(__name__)

_TEMPLATE_TOKENS = 16  # more than any template takes beside instruction and text
_BLANK = "."  # in place of the empty documents of some benchmarks, which the encoder refuses


class GircseMteb(AbsEncoder):
    """Serves mteb's encoder protocol.

    model_name: a shipped name, a folder, a hub id, or a loaded Encoder. revision is the checkpoint's own matter.
    instructions: task -> instruction, or task -> {"query": ..., "document": ...}. What they leave open, the paper's
    registry says, and then the benchmark; a benchmark's plain sentence is for queries and symmetric tasks.
    """

    def __init__(
        self,
        model_name: str | Encoder = DEFAULT_MODEL,
        revision: str | None = None,
        *,
        device: str | None = None,
        dtype: str | None = None,
        embed_dim: int | None = None,
        query_steps: int | None = None,
        document_steps: int | None = None,
        instructions: Mapping[str, str | Mapping[str, str]] | None = None,
    ) -> None:
        if isinstance(model_name, str):
            model_name = load_encoder(model_name, device=device, dtype=dtype, truncate_dim=embed_dim)
        self.model = model_name
        self._instructions = dict(instructions or {})
        contract = self.model.contract
        self._query_steps = resolve_defaults(contract, "query", None, query_steps)[1]
        self._document_steps = resolve_defaults(contract, "document", None, document_steps)[1]
        organisation = "" if "/" in self.model.name else "gircse/"  # mteb's names have one
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": organisation + self.model.name,
                "revision": self.model.fingerprint,
                "max_tokens": contract.max_length,
                "embed_dim": self.model.dimension,
                "framework": ["PyTorch"],
                "similarity_fn_name": ScoringFunction.COSINE,
                "use_instructions": True,
                "adapted_from": contract.base,
                # Results of other steps or instructions are kept apart in mteb's cache by these.
                "experiment_kwargs": {
                    "query_steps": self._query_steps,
                    "document_steps": self._document_steps,
                    **({"instructions": self._instructions} if self._instructions else {}),
                },
            }
        )

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        batch_size: int = 32,
        show_progress_bar: bool = False,
        **_: Any,
    ) -> np.ndarray:
        """(n, dimension) float32. Tasks whose sides are alike give no prompt type and are embedded as queries."""
        texts, instructions = self._read(inputs, self.instruction_of(task_metadata, prompt_type))
        by_instruction: dict[str, list[int]] = defaultdict(list)
        for place, instruction in enumerate(instructions):
            by_instruction[instruction].append(place)
        is_document = prompt_type == PromptType.document
        encode = self.model.encode_documents if is_document else self.model.encode_queries
        out = np.empty((len(texts), self.model.dimension), dtype=np.float32)
        for instruction, places in by_instruction.items():
            out[places] = encode(
                [texts[place] for place in places],
                instruction=instruction,
                steps=self._document_steps if is_document else self._query_steps,
                batch_size=batch_size,
                show_progress=show_progress_bar,
            )
        return out

    def instruction_of(self, task: TaskMetadata, prompt_type: PromptType | None) -> str:
        """The instruction for one side of a task; "" means none."""
        role: Role = "document" if prompt_type == PromptType.document else "query"
        for source in (self._instructions.get(task.name), _from_paper(task.name), task.prompt):
            by_role = source if isinstance(source, Mapping) else {"query": source}
            if (found := by_role.get(role)) is not None:
                return str(found)
        return "" if role == "document" else get_abstask_prompt(task.name)

    def _read(self, inputs: Iterable[Mapping[str, Any]], instruction: str) -> tuple[list[str], list[str]]:
        """Texts and their instructions; queries of instruction-following benchmarks each bring their own."""
        texts, instructions, too_long = [], [], 0
        for batch in inputs:
            for place, text in enumerate(batch["text"]):
                own = batch["instruction"][place] if "instruction" in batch else None
                if own and self._has_room_for(own):
                    texts.append(batch["query"][place])
                    instructions.append(own)
                else:
                    too_long += bool(own)
                    texts.append(text if text.strip() else _BLANK)
                    instructions.append(instruction)
        if too_long:
            logger.warning(
                "%d of %d queries have an instruction that takes more than half of the model's %d tokens; it follows "
                "the query in its text, as mteb joins them.",
                too_long,
                len(texts),
                self.model.contract.max_length,
            )
        return texts, instructions

    def _has_room_for(self, instruction: str) -> bool:
        tokens = len(self.model.token_offsets(instruction))
        return tokens + _TEMPLATE_TOKENS <= self.model.contract.max_length // 2


def _from_paper(task: str) -> Mapping[str, str | None] | None:
    """The paper's instructions for both roles; a later version of a data set keeps its instruction."""
    for name in (task, task.rpartition(".v")[0]):
        try:
            return {role: instruction_for(name, role) for role in ("query", "document")}
        except UnknownTaskError:
            continue
    return None
