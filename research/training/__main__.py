"""`python -m research.training MATRIX.yaml`: trains every variant with every seed; of one config, `gircse train`."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from embedder.command.standard_output import run_program
from embedder.command.status import run_command
from embedder.errors import DataError, EmbedderError
from research.training.matrix import read_matrix, run_matrix


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m research.training",
        description="Train a matrix of runs: every variant with every seed, on the same batches. Runs that are done "
        "are skipped and a stopped one goes on, so the same command may be given again, or twice at once.",
    )
    add = parser.add_argument
    add("config", type=Path, help="common settings, variants, seeds and a budget of texts: research/training/configs")
    add("--matrix", action="store_true", help="says that CONFIG is a matrix, as `gircse train` wants to be told")
    add("--data", type=Path, required=True, help="folder with pairs.*, labels.* and triplets.*.jsonl[.gz]")
    add("--out", type=Path, required=True, help="holds a folder for each run")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    options = parse(arguments)

    def work() -> str:
        runs = run_matrix(read_matrix(options.config), data=options.data, out=options.out)
        return f"{len(runs)} runs are done; `python -m research.evaluation seeds --help` says how to compare them."

    stopped = f"The same command goes on from the last checkpoints in {options.out}."
    return run_command(work, name="gircse train", errors=(EmbedderError, DataError, OSError), stopped=stopped)


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
