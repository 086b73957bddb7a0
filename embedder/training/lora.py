"""LoRA folded into the weights once per batch instead of once per call: the same function with far fewer products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn
from torch.nn import functional as F


class FoldedLinear(torch.autograd.Function):
    """y = x @ (W + scaling·BA)ᵀ + bias, with gradients only for x, A (r, in) and B (out, r).

    Never forms the gradient of the whole weight (out, in): it costs as much as the forward pass, and A and B need only
    its thin projections.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, folded: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scaling: float):
        ctx.save_for_backward(x, folded, a, b)
        ctx.scaling = scaling
        return F.linear(x, folded.to(x.dtype), None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor):
        x, folded, a, b = ctx.saved_tensors
        rows, upstream = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
        of_x = None
        if ctx.needs_input_grad[0]:  # not in the first layer, whose inputs are frozen embeddings
            of_x = (upstream @ folded.to(upstream.dtype)).view_as(x).to(x.dtype)
        if not ctx.needs_input_grad[3]:  # only the head is trained
            return of_x, None, None, None, None, None
        thin_a, thin_b = a.to(upstream.dtype), b.to(upstream.dtype)
        of_a = ctx.scaling * ((upstream @ thin_b).T @ rows.to(upstream.dtype))
        of_b = ctx.scaling * (upstream.T @ (rows.to(upstream.dtype) @ thin_a.T))
        return of_x, None, None, of_a.to(a.dtype), of_b.to(b.dtype), None


@contextmanager
def folded_lora(model: nn.Module) -> Iterator[None]:
    """Inside the block, every LoRA layer computes x @ (W + scaling·BA)ᵀ, and only A and B get gradients.

    A refinement step has one position per text, where LoRA's two thin products cost more than the layer itself. Layers
    with dropout are unchanged: their dropout acts on the input of A.
    """
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, Linear) and all(not getattr(each, "p", 0) for each in layer.lora_dropout.values())
    ]
    try:
        for layer in layers:
            (name,) = layer.active_adapters
            base: Any = layer.get_base_layer()
            with torch.no_grad():
                folded = base.weight + layer.get_delta_weight(name)
            a, b = layer.lora_A[name].get_parameter("weight"), layer.lora_B[name].get_parameter("weight")
            vars(layer)["forward"] = partial(_apply, folded, base.bias, a, b, layer.scaling[name])
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def _apply(folded: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scaling: float, x: Tensor) -> Tensor:
    return FoldedLinear.apply(x, folded, bias, a, b, scaling)
