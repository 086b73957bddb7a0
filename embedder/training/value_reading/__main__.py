"""`python -m embedder.training.value_reading CONFIG --data FOLDER --out FOLDER`: begins a run or goes on with it."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

import torch

from embedder.errors import EmbedderError
from embedder.training.data import DataError
from embedder.training.value_reading.config import read_reading_config
from embedder.training.value_reading.train import ReadingTrainer


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m embedder.training.value_reading", description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder with aspects.*, labels.* and pairs.*")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run: checkpoint, log, config")
    parser.add_argument("--until", type=int, help="stop after so many texts; the schedule stays the config's")
    parser.add_argument("--unseen", type=Path, help="aspects.jsonl.gz that is only measured, for the curve")
    parser.add_argument("--start-from", type=Path, help="folder of a run whose weights this one begins with")
    options = parser.parse_args(arguments)
    try:
        config = read_reading_config(options.config)
        trainer = ReadingTrainer(
            config, data=options.data, out=options.out, unseen=options.unseen, start_from=options.start_from
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: setattr(trainer, "stopped", True))
        trainer.run(until=options.until)
    except (EmbedderError, DataError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if trainer.stopped:
        sys.stderr.write(f"Stopped. The same command goes on from the checkpoint in {options.out}.\n")
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
