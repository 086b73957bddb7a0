"""Loads a decoder of any family through transformers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from embedder.errors import ContractError, ModelNotFoundError
from embedder.model.heads import attach_soft_head
from embedder.model.module_files import unmap
from embedder.model.pretrained import AutoConfig, AutoModelForCausalLM, PreTrainedModel, transformers_logging

# An encoder loaded as a decoder lacks a language-model head; our SoftHead replaces it. Any other missing key is an
# error.
_UNUSED_HEAD = ("cls.predictions.", "pooler.", "embeddings.position_ids", "bert.embeddings.position_ids")


def load_causal_model(
    base: Path, *, with_soft_head: bool, pieces: Tensor | None = None, dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """AutoModelForCausalLM from safetensors only, without remote code; attaches a SoftHead if requested.

    pieces: token ids for the soft tokens of an untrained head. None loads the head saved beside the weights, or else
    makes an untrained one over the whole vocabulary.
    """
    if not any(base.glob("*.safetensors")):
        raise ModelNotFoundError(
            f"{base} holds no *.safetensors. Other weight formats can run code and are not loaded."
        )
    loaded: Any  # transformers' annotation omits the tuple that output_loading_info returns
    try:
        config = AutoConfig.from_pretrained(base, trust_remote_code=False)
        if with_soft_head:
            config.is_decoder = True
        with loading_quietly():
            loaded = AutoModelForCausalLM.from_pretrained(
                base,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelNotFoundError(f"{base} cannot be loaded as a causal language model: {error}") from error
    model, info = loaded
    unmap(model)
    _check_loaded_keys(base, info, with_soft_head=with_soft_head)
    if with_soft_head:
        attach_soft_head(model, base, pieces)
    return model


def _check_loaded_keys(base: Path, info: dict, *, with_soft_head: bool) -> None:
    allowed = _UNUSED_HEAD if with_soft_head else ()
    faults = {
        kind: wrong
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if (wrong := sorted(str(key) for key in info.get(kind, ()) if not str(key).startswith(allowed)))
    }
    if faults:
        raise ContractError(f"The weights in {base} do not fit its config.json: {faults}. Get the model again.")


@contextmanager
def loading_quietly() -> Iterator[None]:
    """Silences transformers' warning about the missing head, and a deprecation warning caused by PEFT. The caller
    checks the keys instead."""
    level = transformers_logging.get_verbosity()
    was_shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if was_shown:
            transformers_logging.enable_progress_bar()
