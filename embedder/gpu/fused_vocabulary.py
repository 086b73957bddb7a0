"""Chooses how the mean embedding of a soft token is computed without making the soft token itself: by Triton's
kernel on CUDA, where it agrees with what it replaces; else as it was."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from embedder.weight_formats import Linear

logger = logging.getLogger(__name__)

# (B, D), temperature, logit bias (n,) or None to softmax(logits / temperature + bias) @ E (B, D).
Mean = Callable[[Tensor, float, Tensor | None], Tensor]

_KERNEL = "embedder.gpu.triton_vocabulary"
# Every split of the entries, of which there are one or two for each processor, keeps a sum per row. Beyond this, with
# one each, they would leave the card's cache, and two plain products that read the weights once are as good.
_MOST_BYTES_OF_SUMS = 32 * 2**20
_LEAST_COSINE = 0.99  # the plain product rounds the logits to the weights' dtype, the kernel does not


@dataclass(frozen=True, slots=True)
class FusedMean:
    kernel: Callable[..., Tensor]
    head: Linear
    embedding: Tensor  # (n, D)
    processors: int
    most_rows: int
    otherwise: Mean  # for more rows

    def __call__(self, x: Tensor, temperature: float, logit_bias: Tensor | None) -> Tensor:
        rows, width = x.shape
        if rows > self.most_rows or self.processors * rows * width * 4 > _MOST_BYTES_OF_SUMS:
            return self.otherwise(x, temperature, logit_bias)
        bias = None if self.head.bias is None else self.head.bias.float() / temperature
        if logit_bias is not None:
            bias = logit_bias.float() if bias is None else bias + logit_bias
        return self.kernel(x, self.head.weight, self.embedding, bias, scale=1 / temperature, processors=self.processors)


def fused_mean(head: Linear, embedding: Tensor, otherwise: Mean) -> Mean:
    """`otherwise` itself where there is no kernel for this device and these weights."""
    fits = head.weight.shape == embedding.shape and head.weight.dtype == embedding.dtype
    is_whole = head.weight.is_contiguous() and embedding.is_contiguous() and not head.has_gelu
    if embedding.device.type != "cuda" or not fits or not is_whole or find_spec("triton") is None:
        return otherwise
    try:
        module: Any = import_module(_KERNEL)
    except ImportError as error:
        logger.info("Soft tokens are mixed by plain products: %s", error)
        return otherwise
    processors = torch.cuda.get_device_properties(embedding.device).multi_processor_count
    fused = FusedMean(module.mean_embedding, head, embedding, processors, module.MOST_ROWS, otherwise)
    try:
        agreed = agrees(fused, otherwise, like=embedding)
    except module.LAUNCH_ERRORS as error:
        logger.warning("Soft tokens are mixed by plain products: Triton's kernel failed: %s", error)
        return otherwise
    if not agreed:
        logger.warning("Soft tokens are mixed by plain products: Triton's kernel gave others.")
    return fused if agreed else otherwise


@torch.no_grad()
def agrees(found: Mean, expected: Mean, *, like: Tensor) -> bool:
    """Whether both give the same means of random states, of one and of a batch. like: the embeddings (n, D)."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(17, like.shape[1], generator=generator).to(like.device, like.dtype)
    for rows in (states[:1], states):
        cosines = torch.cosine_similarity(found(rows, 1.0, None).float(), expected(rows, 1.0, None).float(), dim=-1)
        if not bool((cosines >= _LEAST_COSINE).all()):  # NaN is not either
            return False
    return True
