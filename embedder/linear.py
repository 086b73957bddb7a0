"""Matrix products with weights that stay: kept in the form that this processor reads fastest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Product = Callable[[Tensor], Tensor]
# oneDNN cuts weights into blocks for this many rows of input; they serve every other number too.
_ROWS = 64


@dataclass(frozen=True, slots=True)
class Linear:
    weight: Tensor  # (out, in)
    bias: Tensor | None
    has_gelu: bool = False  # after it

    def __call__(self, x: Tensor) -> Tensor:
        found = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return F.gelu(found) if self.has_gelu else found


@dataclass(frozen=True, slots=True)
class BlockedLinear:
    """The same on a CPU, as oneDNN reads it: the weights need not be put into blocks again at every call."""

    blocks: Tensor  # opaque
    bias: Tensor | None
    has_gelu: bool

    def __call__(self, x: Tensor) -> Tensor:
        after: tuple[str, list[float], str] = ("gelu", [], "none") if self.has_gelu else ("none", [], "")
        return torch.ops.mkldnn._linear_pointwise(x.to(self.blocks.dtype), self.blocks, self.bias, *after)


def linear_of(module: nn.Linear) -> Linear:
    return Linear(module.weight.detach(), None if module.bias is None else module.bias.detach())


def kept(product: Product) -> Product:
    """`product` with its weights in the form that is fastest here."""
    if not isinstance(product, Linear):
        return product
    weight = product.weight
    if weight.device.type != "cpu" or not has_blocks():
        return product
    return BlockedLinear(torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS), product.bias, product.has_gelu)


def has_blocks() -> bool:
    """Whether this build of torch has oneDNN's products; they are what torch's own compiler uses."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def multiplies_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 itself (AVX-512 BF16, AMX); elsewhere float32 is faster."""
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return has_blocks() and any(check() for check in checks if check is not None)
