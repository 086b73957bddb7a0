"""Causal2Vec's contextual token: an encoder that sees the whole text gives one token to a causal decoder (Lin et al.
2025, Eq 1-2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from embedder.model.backbone import Backbone
from embedder.model.bare_encoder import load_bare_encoder
from embedder.model.heads import ContextProjection
from embedder.model.prefill import start_prefill
from embedder.text.prompts import CONTEXT_SLOT, TEMPLATES, Frame, frame_of, load_tokenizer

_ENCODER_TEMPLATE = TEMPLATES["official+special"]  # a bare text between [CLS] and [SEP]


@dataclass(frozen=True, slots=True)
class ContextEncoder:
    """A frozen encoder without a head; encodes the text without the instruction."""

    backbone: Backbone
    tokenizer: Tokenizer
    frame: Frame

    @torch.no_grad()
    def read(self, texts: Sequence[str]) -> Tensor:
        """h of every text, the mean of its states (n, k). Truncates texts to the encoder's positions."""
        frame = self.frame
        room = self.backbone.max_positions - len(frame.begin) - len(frame.end)
        ids = [
            (*frame.begin, *each.ids[:room], *frame.end)
            for each in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ]
        with torch.autocast(self.backbone.device.type, enabled=False):
            return start_prefill(self.backbone, ids, steps=0, pooling="prompt_mean", frame=frame).read()[1]


def load_context_encoder(base: Path, *, device: str, dtype: str) -> ContextEncoder:
    """Loads the encoder of contextual tokens. Raises ContractError unless `base` has BERT or MPNet layout."""
    tokenizer = load_tokenizer(base)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    backbone = load_bare_encoder(base, adapter=None, device=device, dtype=dtype)
    return ContextEncoder(backbone, tokenizer, frame_of(tokenizer, _ENCODER_TEMPLATE))


@dataclass(frozen=True, slots=True)
class ContextReader:
    """Computes contextual tokens from the ids of prompts.

    The encoder gets the text decoded from the decoder's ids: a cut applies to both, and the result depends only on the
    ids.
    """

    encoder: ContextEncoder
    vocabulary: Tokenizer  # the decoder's
    frame: Frame  # the decoder's
    projection: ContextProjection  # or its PEFT wrapper
    scale: float  # the decoder's embedding scale

    def __call__(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """C of every prompt (B, D)."""
        texts = [self._text_of(ids) for ids in prompts]
        dtype = next(self.projection.parameters()).dtype
        projected: Tensor = self.projection(self.encoder.read(texts).to(dtype))
        return projected * self.scale

    def _text_of(self, ids: Sequence[int]) -> str:
        text = ids[ids.index(CONTEXT_SLOT) + 1 : len(ids) - len(self.frame.end)]
        return self.vocabulary.decode(list(text), skip_special_tokens=False)


def with_context(backbone: Backbone, encoder: ContextEncoder, tokenizer: Tokenizer, template: str) -> Backbone:
    """Adds contextual tokens, for prompts of `template`, to a decoder with a context projection."""
    reader = ContextReader(
        encoder,
        vocabulary=tokenizer,
        frame=frame_of(tokenizer, TEMPLATES[template]),
        projection=backbone.model.context_projection,
        scale=backbone.embedding_scale,
    )
    return replace(backbone, context=reader)
