"""Large contrastive batches in little memory: a whole batch's gradient, computed chunk by chunk (GradCache, Gao 2021).

It knows nothing of models: a chunk is a function that embeds some rows, the joint loss one of all embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

# Embeds a chunk's rows: what the joint loss needs of them (b, …), and what they add to each of the own terms (n,).
Chunk = Callable[[], tuple[Tensor, Tensor]]


def backward_in_chunks(
    chunks: Sequence[Chunk], joint_loss: Callable[[Tensor], Tensor], *, own_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Adds the gradient of joint_loss(all rows) + Σ own_weights · own terms to the parameters' `.grad`.

    The first pass embeds without gradient and caches d joint_loss / d embeddings; the second embeds every chunk again
    with the same random numbers (dropout) and sends its part of the cache back. Only one chunk's graph lives at a time.
    Returns the joint loss and the sums of the own terms (n,), detached.
    """
    states, parts = [], []
    for chunk in chunks:
        states.append(RandomState())
        with torch.no_grad():
            parts.append(chunk()[0])
    rows = torch.cat(parts).requires_grad_()
    joint = joint_loss(rows)
    (gradient,) = torch.autograd.grad(joint, rows)
    total = torch.zeros_like(own_weights)
    for chunk, state, part in zip(chunks, states, gradient.split([len(each) for each in parts]), strict=True):
        with state.replayed():
            embedded, own = chunk()
        ((embedded * part).sum() + own @ own_weights).backward()
        total = total + own.detach()
    return joint.detach(), total


class RandomState:
    """torch's random numbers, of the CPU and of every GPU, as they stand."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        for device, state in enumerate(self.cuda):
            torch.cuda.set_rng_state(state, device)

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Inside, the same numbers are drawn again; afterwards all goes on as if nothing had been."""
        with torch.random.fork_rng(devices=range(len(self.cuda))):
            self.restore()
            yield
