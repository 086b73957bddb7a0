"""Large contrastive batches in little memory: the gradient of a whole batch, computed in chunks (GradCache, Gao 2021).

Independent of models: a chunk is a function that embeds some rows; the joint loss is a function of all embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

# Embeds a chunk's rows: returns their embeddings for the joint loss (b, …), and their sums of the own terms (n,).
Chunk = Callable[[], tuple[Tensor, Tensor]]


def backward_in_chunks(
    chunks: Sequence[Chunk], joint_loss: Callable[[Tensor], Tensor], *, own_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Adds the gradient of joint_loss(all rows) + Σ own_weights · own terms to the parameters' `.grad`.

    The first pass embeds without gradient and caches d joint_loss / d embeddings. The second embeds every chunk again
    with the same random numbers (dropout) and backpropagates its part of the cache. Only one chunk's graph exists at a
    time. Returns the joint loss and the sums of the own terms (n,), detached.
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
    """A snapshot of torch's random state, on the CPU and every GPU."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        for device, state in enumerate(self.cuda):
            torch.cuda.set_rng_state(state, device)

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Replays the same random numbers inside the block; restores the previous state afterwards."""
        with torch.random.fork_rng(devices=range(len(self.cuda))):
            self.restore()
            yield
