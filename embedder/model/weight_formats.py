"""Matrix products with constant weights, in the fastest format for this processor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Product = Callable[[Tensor], Tensor]
# oneDNN blocks weights for this many input rows; the blocks work for any other number too.
_ROWS = 64
_MOST_ROWS_OF_INT8 = 4  # with more rows, int8 products are slower than 16-bit ones


@dataclass(frozen=True, slots=True)
class Linear:
    weight: Tensor  # (out, in)
    bias: Tensor | None
    has_gelu: bool = False  # applied after the product

    def __call__(self, x: Tensor) -> Tensor:
        found = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return F.gelu(found) if self.has_gelu else found


@dataclass(frozen=True, slots=True)
class BlockedLinear:
    """A linear layer in oneDNN's blocked format for CPUs: avoids blocking the weights at every call."""

    blocks: Tensor  # opaque to torch
    bias: Tensor | None
    has_gelu: bool

    def __call__(self, x: Tensor) -> Tensor:
        after: tuple[str, list[float], str] = ("gelu", [], "none") if self.has_gelu else ("none", [], "")
        return torch.ops.mkldnn._linear_pointwise(x.to(self.blocks.dtype), self.blocks, self.bias, *after)


@dataclass(frozen=True, slots=True)
class Int8Linear:
    """8-bit weights: half the memory, and a third of the time for few rows, where loading weights dominates.

    Each row of weights has a scale that maps its largest entry to 127. Inputs and results keep their dtype.
    """

    codes: Tensor  # int8 (out, in)
    scales: Tensor  # (out,)
    bias: Tensor | None
    has_gelu: bool

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(self.scales.dtype)
        if x.shape[0] <= _MOST_ROWS_OF_INT8 and x.device.type == "cpu" and hasattr(torch, "_weight_int8pack_mm"):
            found = torch._weight_int8pack_mm(x, self.codes, self.scales)
        else:
            found = F.linear(x, self.codes.to(x.dtype)) * self.scales
        found = found if self.bias is None else found + self.bias
        return F.gelu(found) if self.has_gelu else found


def linear_of(module: nn.Linear) -> Linear:
    return Linear(module.weight.detach(), None if module.bias is None else module.bias.detach())


def fastest_format(product: Product) -> Product:
    """`product` with its weights in the fastest format."""
    if not isinstance(product, Linear):
        return product
    weight = product.weight
    if weight.device.type != "cpu" or not has_blocks(weight.dtype):
        return product
    return BlockedLinear(torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS), product.bias, product.has_gelu)


def in_int8(product: Product) -> Product:
    """`product` with 8-bit weights."""
    if not isinstance(product, Linear):
        return product
    weight = product.weight
    scales = (weight.float().abs().amax(dim=1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
    codes = (weight.float() / scales[:, None]).round().to(torch.int8).contiguous()
    return Int8Linear(codes, scales.to(weight.dtype), product.bias, product.has_gelu)


def has_blocks(dtype: torch.dtype = torch.float32) -> bool:
    """Whether oneDNN can block weights of this type (torch's own compiler uses the same products).

    False if torch was built without oneDNN, and for bfloat16 on a CPU without AVX-512. ONEDNN_MAX_CPU_ISA can restrict
    it further.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    try:
        torch.ops.mkldnn._reorder_linear_weight(torch.zeros(16, 16, dtype=dtype), _ROWS)
    except RuntimeError:
        return False
    return True


def multiplies_bfloat16() -> bool:
    """Whether this CPU has bfloat16 instructions (AVX-512 BF16, AMX); elsewhere float32 is faster."""
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check() for check in checks if check is not None) and has_blocks(torch.bfloat16)
