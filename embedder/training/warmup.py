"""Trains only a soft head to predict a text's words from its prompt state; untrained, it barely moves later."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from embedder.model.backbone import Backbone
from embedder.model.heads import SoftHead
from embedder.model.prefill import PaddedPrefill, pad
from embedder.text.prompts import PromptTokenizer
from embedder.training.words import WordIndex

_BATCH = 256
_PREFILL_BATCH = 64


def warm_up_head(
    head: SoftHead,
    student: Backbone,
    prompts: PromptTokenizer,
    words: WordIndex,
    texts: Sequence[str],
    *,
    epochs: int,
    seed: int,
    log: Callable[[dict], None],
) -> None:
    """Trains the head. The body is frozen, so its states are computed once."""
    states = last_states(student, prompts, texts)
    optimiser = torch.optim.Adam(head.parameters(), lr=1e-3)
    rng = random.Random(seed)
    size = min(_BATCH, len(texts))
    for epoch in range(epochs):
        order = rng.sample(range(len(texts)), len(texts))
        starts = range(0, len(order) - size + 1, size)
        for start in tqdm(starts, desc=f"Head warm-up {epoch + 1}/{epochs}", unit="batch"):
            rows = order[start : start + size]
            bags = words.bags([[(texts[row], 1.0)] for row in rows]).to(student.device)
            logs = F.log_softmax(head(states[rows], student.soft_weight), dim=-1)
            loss = -(bags.weights * logs[bags.rows, bags.ids]).sum() / size
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        log({"head_warmup_epoch": epoch, "loss": float(loss.detach())})


@torch.no_grad()
def last_states(student: Backbone, prompts: PromptTokenizer, texts: Sequence[str]) -> Tensor:
    """h'_0 of every text (n, D)."""
    out = torch.empty(len(texts), student.hidden_size, device=student.device)
    ids = [each.ids for each in prompts.encode(texts, "")]
    order = sorted(range(len(texts)), key=lambda row: len(ids[row]))
    for start in tqdm(range(0, len(order), _PREFILL_BATCH), desc="States for the head", unit="batch"):
        rows = order[start : start + _PREFILL_BATCH]
        prompt = pad([ids[row] for row in rows], device=student.device)
        out[rows] = PaddedPrefill(student, prompt).read()[0]
    return out
