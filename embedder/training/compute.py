"""Device and precision of a run, and its distribution over several processes by accelerate."""

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
    """The device and precision of a run, and its processes. `accelerate launch` or `torchrun` starts one process per
    GPU; a plain command is a single process.

    Every process draws its own batches, and gradients are averaged. So n processes equal an n times larger batch whose
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
            raise DataError(f"The processes were started on {self.device}, but device is {device!r}. They must agree.")
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
        """Computes in bfloat16 if configured; losses are computed outside, in float32."""
        bf16 = self.precision == "bf16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16) if bf16 else nullcontext():
            yield

    def batch_index(self, step: int) -> int:
        """The index of this process's batch at an optimiser step; unique per process."""
        return step * self.processes + self.process

    def seed_dropout(self, *, seed: int, step: int) -> None:
        """Seeds dropout differently in every process. A single process keeps its random state."""
        if self.processes > 1:
            torch.manual_seed((seed * 1_000_003 + step) * self.processes + self.process)

    @torch.no_grad()
    def share_weights(self, parameters: Sequence[Tensor]) -> None:
        """Copies the weights of process 0 to all processes."""
        if self.processes > 1:
            for parameter in parameters:
                parameter.copy_(broadcast(parameter.detach().clone()))

    @torch.no_grad()
    def average_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Averages gradients over the processes; a parameter without gradient counts as zero."""
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
        """Waits for all processes."""
        self._state.wait_for_everyone()
