"""`gircse train CONFIG.yaml`: trains an adapter and writes it with its contract."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from embedder.command.standard_output import run_program
from embedder.command.status import needs_extra, run_experiment
from embedder.errors import DataError, EmbedderError

with needs_extra("train", __name__):
    from accelerate import PartialState

    from embedder.training import labelled_rows, mining
    from embedder.training.config import read_config
    from embedder.training.plots import plot_run
    from embedder.training.train import Trainer


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gircse train",
        description="Train a GIRCSE model. A stopped run continues from its last checkpoint. "
        "`gircse train data --help`: data from texts with labels. "
        "`gircse train mine --help`: hard negatives for files of pairs. Several GPUs: `accelerate launch -m "
        "embedder.training CONFIG …`. Matrices of runs are experiments; run them from the repository: "
        "`python -m research.training --help`.",
    )
    parser.add_argument(
        "config", type=Path, help="a YAML file; see embedder/training/configs/ for those of the shipped models"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with pairs.*, labels.* and triplets.*.jsonl[.gz]"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the run: checkpoint, log, curves, adapter/")
    parser.add_argument("--validation", type=Path, help="folder with held-out STS and triplet files")
    parser.add_argument(
        "--start-from", type=Path, help="an earlier run or a published adapter whose weights to start from"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if arguments[:1] == ["mine"]:
        return _mine(arguments[1:])
    if arguments[:1] == ["data"]:
        return _write_data(arguments[1:])
    if "--matrix" in arguments:
        return run_experiment("train", arguments, option="--matrix")
    options = parse(arguments)
    try:
        config = read_config(options.config)
        trainer = Trainer(
            config, data=options.data, out=options.out, validation=options.validation, start_from=options.start_from
        )
        folder = trainer.run()
    except (EmbedderError, DataError, OSError) as error:
        sys.stderr.write(f"gircse train: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\nStopped. The same command continues from the last checkpoint in {options.out}.\n")
        return 130
    if not PartialState().is_main_process:
        return 0
    plot_run(options.out, options.out / "curves.png")
    sys.stderr.write(f"Adapter, contract and config are in {folder}. To use the model, set GIRCSE_MODEL={folder}.\n")
    return 0


def _mine(arguments: list[str]) -> int:
    try:
        mining.run(arguments)
    except (EmbedderError, DataError, OSError) as error:
        sys.stderr.write(f"gircse train mine: {error}\n")
        return 1
    return 0


def _write_data(arguments: list[str]) -> int:
    options = labelled_rows.parse(arguments)
    try:
        summary = labelled_rows.write_data(options.rows, options.out, group_by=options.group_by)
    except (DataError, OSError) as error:
        sys.stderr.write(f"gircse train data: {error}\n")
        return 1
    sys.stdout.write(summary + "\n")
    return 0


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
