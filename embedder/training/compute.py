"""Where a run computes: device, precision, and how several processes stay one run; accelerate joins them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from accelerate import PartialState
from accelerate.utils import broadcast, reduce
from torch import Tensor

from embedder.errors import DataError

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("fp32", "bf16")


class Compute:
    """`accelerate launch` or `torchrun` starts one process per GPU; a plain command is a run of one process.

    Every process draws batches of its own and gradients are averaged, so n processes are a batch n times as large whose
    negatives stay within each process. Only process 0 writes files.
    """

    def __init__(self, *, device: str = "auto", precision: str = "fp32") -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise DataError("device is 'cuda', but torch sees no GPU here. Set device: cpu or auto.")
        on_cpu = device == "cpu" or not torch.cuda.is_available()
        self._state = PartialState(cpu=on_cpu)
        several = self._state.num_processes > 1
        self.device = self._state.device if several else torch.device("cpu" if on_cpu else "cuda")
        if self.device.type != ("cpu" if on_cpu else "cuda"):
            raise DataError(f"The processes were started on {self.device}, but device is {device!r}: let both agree.")
        self.precision = precision

    @property
    def processes(self) -> int:
        return self._state.num_processes

    @property
    def process(self) -> int:
        return self._state.process_index

    @property
    def writes(self) -> bool:
        return self._state.is_main_process

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """bf16 inside where the config asks for it; the losses stay outside, in fp32."""
        bf16 = self.precision == "bf16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16) if bf16 else nullcontext():
            yield

    def batch_index(self, step: int) -> int:
        """Which batch this process takes at an optimiser step; no two processes take the same."""
        return step * self.processes + self.process

    def seed_dropout(self, *, seed: int, step: int) -> None:
        """Different dropout in every process. One process goes on with the numbers that it has."""
        if self.processes > 1:
            torch.manual_seed((seed * 1_000_003 + step) * self.processes + self.process)

    @torch.no_grad()
    def share_weights(self, parameters: Sequence[Tensor]) -> None:
        """All processes begin with the weights of process 0."""
        if self.processes > 1:
            for parameter in parameters:
                parameter.copy_(broadcast(parameter.detach().clone()))

    @torch.no_grad()
    def average_gradients(self, parameters: Sequence[Tensor]) -> None:
        """The mean over the processes; a parameter that no batch here has touched counts as zero."""
        if self.processes > 1:
            for parameter in parameters:
                own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad = reduce(own, "mean")

    def total(self, number: int) -> int:
        """The sum over the processes."""
        if self.processes == 1:
            return number
        return int(reduce(torch.tensor(number, device=self.device), "sum"))

    def wait(self) -> None:
        """Until all processes are here."""
        self._state.wait_for_everyone()
