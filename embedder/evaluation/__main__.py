"""`gircse eval`: evaluates a model on local files; `gircse eval report` makes tables and plots of the results."""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.command.standard_output import run_program
from embedder.command.status import needs_extra, run_command, run_experiment
from embedder.errors import DataError, EmbedderError
from embedder.model.backbone import DTYPES
from embedder.text.prompts import without_cut_warnings

with needs_extra("eval", __name__):
    from embedder.evaluation.card import fill_scores
    from embedder.evaluation.config import DOCUMENT_STEPS, STEPS, EvaluationConfig
    from embedder.evaluation.data import HALVES
    from embedder.evaluation.evaluate import evaluate
    from embedder.evaluation.report import summarise, write_report
    from embedder.evaluation.tasks import TASKS

# Options of the experiments, which are in a separate package.
_EXPERIMENTS = frozenset(
    {
        *("seeds", "privacy", "publish"),
        *("--systems", "--systems-steps", "--page", "--pair", "--against", "--projection"),
        *("--trained", "--trained-systems", "--trained-dimensions", "--trained-steps"),
        *("--two-stage", "--two-stage-model", "--two-stage-system"),
    }
)

_TASKS_HELP = """tasks and the files they read:
  sts             sts.*        Spearman of cosines against human scores
  retrieval       ir.*         nDCG@10 and recall@100, query steps against document steps
  triplets        triplets.*   harmonic mean of A|B and B|A
  paraphrased     triplets.*   the same under instructions worded as none of training's
  label_names     labels.*     top-1 among the names of the labels
  knn             labels.*     1-NN among texts of --train-data
  clustering      labels.*     V-measure of k-means under two instructions, harmonic mean
  classification  labels.*     logistic regression on frozen embeddings

example: gircse eval --data data/dev --train-data data/train --out results.json
         gircse eval report results.json --out report
docs/how-to/evaluate-a-model.md describes the formats of data and results."""

_SET_ROWS_HELP = "texts per source for clustering, and for training and test in classification (default: %(default)s)"

RESULTS_MESSAGE = "The results are in {}; `gircse eval report` makes tables and plots of them."
STOPPED_MESSAGE = "Finished tasks are in {}; run the same command again for the rest."
ERRORS = (EmbedderError, ValueError, OSError)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gircse eval",
        description="Measure a model on local files, with plain MiniLM and BM25 beside it and 95 % intervals. "
        "Results are written after every task; the same command runs the missing tasks. "
        "`gircse eval report RESULTS... --out FOLDER` makes tables and plots. Comparisons of systems and "
        "`gircse eval seeds`, `privacy` and `publish` are experiments; run them from the repository: "
        "`python -m research.evaluation --help`.",
        epilog=_TASKS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder with the files below; ../instructions.json for labels.*")
    add("--out", type=Path, required=True, help="the results, one JSON file")
    add("--model", default=DEFAULT_MODEL, help="a shipped name, a folder or a hub id (default: %(default)s)")
    add("--device", help="cpu or cuda (default: cuda if available)")
    add("--dtype", choices=["auto", *DTYPES], help="compute dtype (default: the model's)")
    add("--tasks", nargs="+", choices=list(TASKS), metavar="TASK", help="default: all (knn only with --train-data)")
    add("--train-data", type=Path, help="folder of the labels.* files in which knn searches")
    add(
        "--steps",
        type=int,
        nargs="+",
        default=STEPS,
        metavar="K",
        help="query steps; 0 is the base (default: 1 2 5 10 20)",
    )
    add(
        "--document-steps",
        type=int,
        nargs="+",
        default=DOCUMENT_STEPS,
        metavar="K",
        help="document steps; 0 is the base (default: 1 5 20)",
    )
    add("--half", choices=HALVES, default="report", help="which half of the items (default: %(default)s)")
    add("--limit", type=int, metavar="N", help="for a quick run: at most N items per source and task")
    add("--unseen", nargs="*", default=(), metavar="SOURCE", help="triplet sources held out of training")
    add("--triplet-sources", nargs="*", default=(), metavar="SOURCE", help="only these triplet sources, such as sgd")
    add(
        "--label-sets",
        nargs="*",
        default=(),
        metavar="SET",
        help="only these label sets, such as banking77 or hwu64.scenario",
    )
    add("--knn-sets", nargs="+", default=("banking77",), metavar="SET", help="default: banking77")
    add(
        "--neighbours",
        type=int,
        default=10_000,
        metavar="N",
        help="number of texts in which knn searches (default: %(default)s)",
    )
    add("--set-rows", type=int, default=500, metavar="N", help=_SET_ROWS_HELP)
    add("--bootstrap", type=int, default=1000, metavar="N", help="resamples (default: %(default)s)")
    add("--alone", action="store_true", help="skip MiniLM, if another file has its scores")
    add("--seed", type=int, default=0, help="seed of the bootstrap (default: %(default)s)")
    return parser


def parse_report(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gircse eval report", description="Make Markdown tables and plots from results files."
    )
    parser.add_argument("results", type=Path, nargs="+", help="results files of `gircse eval`")
    parser.add_argument("--out", type=Path, required=True, help="folder for report.md and the plots")
    parser.add_argument("--card", type=Path, help="a model card in which to replace the scores")
    return parser.parse_args(arguments)


def run_report(arguments: list[str]) -> int:
    options = parse_report(arguments)
    try:
        page = write_report(options.results, options.out)
        if options.card:
            fill_scores(options.card, summarise(options.results))
    except (DataError, OSError) as error:
        sys.stderr.write(f"gircse eval report: {error}\n")
        return 1
    sys.stderr.write(f"Wrote the report to {page}.\n")
    return 0


def config_of(options: argparse.Namespace) -> EvaluationConfig:
    values: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(EvaluationConfig)}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return EvaluationConfig(**values)


def tasks_of(options: argparse.Namespace) -> list[str]:
    return options.tasks or [task for task in TASKS if task != "knn" or options.train_data]


def run_evaluation(arguments: list[str]) -> int:
    options = build_parser().parse_args(arguments)

    def work() -> str:
        with without_cut_warnings():  # all systems cut long documents alike
            encoder = load_encoder(options.model, device=options.device, dtype=options.dtype)
            evaluate(encoder, config_of(options), tasks_of(options), options.out)
        return RESULTS_MESSAGE.format(options.out)

    return run_command(work, name="gircse eval", errors=ERRORS, stopped=STOPPED_MESSAGE.format(options.out))


def main(arguments: list[str]) -> int:
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # bm25s logs each step
    if (option := next((each for each in arguments if each.partition("=")[0] in _EXPERIMENTS), None)) is not None:
        return run_experiment("eval", arguments, option=option)
    return run_report(arguments[1:]) if arguments[:1] == ["report"] else run_evaluation(arguments)


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
