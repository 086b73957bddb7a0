"""Local language models that generate text through transformers, for two-stage generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from embedder.errors import ModelNotFoundError, TextError
from embedder.extensions.expansion import MAX_TOKENS
from embedder.model.backbone import DTYPES
from embedder.model.causal_model import load_causal_model
from embedder.model.pretrained import (
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)
from embedder.text.prompts import load_tokenizer


class _TokenCallback(StoppingCriteria):
    """A stopping criterion that never stops; it calls `between_tokens` after each token."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: Any) -> Tensor:
        self._function()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class TransformersGenerator:
    """A local causal language model of any family.

    A prompt becomes one turn of the chat template if the model has one; otherwise it is continued as it is, after the
    tokenizer's special tokens.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        *,
        name: str,
        fingerprint: str,
        chat: Any = None,  # transformers' tokenizer with a chat template
        max_tokens: int = MAX_TOKENS,
        batch_size: int = 16,
    ) -> None:
        self.name = name
        self.fingerprint = f"{fingerprint}, {max_tokens} tokens"
        self.batch_size = batch_size
        self._model: Any = model
        self._tokenizer = tokenizer
        self._chat = chat
        self._max_tokens = max_tokens
        self._ends = _end_ids(model, chat)
        # Set everything: the model's own defaults would add sampling and repetition penalties.
        self._model.generation_config = GenerationConfig(
            do_sample=False,
            max_new_tokens=max_tokens,
            eos_token_id=sorted(self._ends) or None,
            pad_token_id=min(self._ends, default=0),  # any id: pads are masked, and cut off after an end
        )

    def read_clock(self) -> float:
        return time.process_time()

    def generate(self, prompts: Sequence[str], *, between_tokens: Callable[[], None] | None = None) -> list[str]:
        rows = [self._encode(prompt) for prompt in prompts]
        longest = max(map(len, rows))
        self._check_room(longest)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for at, row in enumerate(rows):
            # left padding, so that all rows continue at the same position
            ids[at, longest - len(row) :] = torch.tensor(row)
            mask[at, longest - len(row) :] = 1
        device = self._model.device
        calls = [] if between_tokens is None else [_TokenCallback(between_tokens)]
        found = self._model.generate(
            input_ids=ids.to(device), attention_mask=mask.to(device), stopping_criteria=StoppingCriteriaList(calls)
        )
        return [self._decode(row) for row in found[:, longest:].tolist()]

    def _encode(self, prompt: str) -> list[int]:
        if self._chat is not None:
            prompt = self._chat.apply_chat_template(
                [{"role": "user", "content": prompt}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,  # a model's thinking would use up the token budget of the answer
            )
        ids: list[int] = self._tokenizer.encode(prompt, add_special_tokens=self._chat is None).ids
        return ids

    def _decode(self, ids: list[int]) -> str:
        length = next((at for at, token in enumerate(ids) if token in self._ends), len(ids))
        text: str = self._tokenizer.decode(ids[:length])
        return text.strip()

    def _check_room(self, length: int) -> None:
        most = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if most is not None and length + self._max_tokens > most:
            raise TextError(
                f"A prompt for {self.name} has {length} tokens plus {self._max_tokens} to generate, but the model "
                f"reads {most} in all. Name a generator that reads more."
            )


def _end_ids(model: PreTrainedModel, chat: Any) -> frozenset[int]:
    """Ids that end generation. Chat models end a turn with another token than a document; some list it only in the
    tokenizer."""
    configured: Any = getattr(model.generation_config, "eos_token_id", None)
    ends = {configured} if isinstance(configured, int) else set(configured or ())
    if chat is not None and chat.eos_token_id is not None:
        ends.add(chat.eos_token_id)
    return frozenset(ends)


def generator_of(
    model: PreTrainedModel, tokenizer: Tokenizer, folder: Path, *, name: str, fingerprint: str
) -> TransformersGenerator:
    """Wraps a loaded model as a generator.

    tokenizer: must not truncate or pad. folder: of the chat template, if any. fingerprint: of the model's weights.
    """
    return TransformersGenerator(model, tokenizer, name=name, fingerprint=fingerprint, chat=_chat_tokenizer(folder))


def load_generator(folder: Path, *, name: str, fingerprint: str, device: str, dtype: str) -> TransformersGenerator:
    """Loads a model of any family that transformers supports. Raises ModelNotFoundError."""
    model: Any = load_causal_model(folder, with_soft_head=False, dtype=DTYPES[dtype]).eval().requires_grad_(False)
    tokenizer = load_tokenizer(folder)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return generator_of(model.to(device), tokenizer, folder, name=name, fingerprint=fingerprint)


def _chat_tokenizer(folder: Path) -> Any:
    """transformers' tokenizer if it has a chat template, else None."""
    if not any((folder / name).is_file() for name in ("tokenizer_config.json", "chat_template.jinja")):
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"The chat template in {folder} cannot be loaded: {error}") from error
    return tokenizer if tokenizer.chat_template else None
