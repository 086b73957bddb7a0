"""One process of a run of several, started by its tests: trains two steps and leaves what it computed in a file."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from embedder.training.config import read_config
from embedder.training.train import Trainer


def main(config: str, data: str, out: str, result: str) -> None:
    torch.set_num_threads(1)
    trainer = Trainer(read_config(Path(config)), data=Path(data), out=Path(out))
    compute = trainer._compute
    gradients = {}
    average = compute.average_gradients

    def keep_first(parameters):
        average(parameters)
        if not gradients:
            gradients.update({f"gradient.{name}": p.grad.clone() for name, p in trainer._trained.items()})

    compute.average_gradients = keep_first
    trainer.run()
    weights = {f"weight.{name}": parameter.detach() for name, parameter in trainer._trained.items()}
    save_file({**gradients, **weights}, f"{result}.{compute.process}")


if __name__ == "__main__":
    main(*sys.argv[1:])
