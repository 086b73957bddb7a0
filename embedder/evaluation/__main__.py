"""`python -m embedder.evaluation`: scores of a model on STS and triplet files, as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.errors import EmbedderError
from embedder.evaluation.measures import read_rows, sts_scores, triplet_success


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m embedder.evaluation",
        description="Score a model: STS files as Spearman x100, triplet files as success x100.",
    )
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a shipped name, a folder or a hub id")
    parser.add_argument("--sts", type=Path, action="append", default=[], help="JSONL of {a, b, score}")
    parser.add_argument(
        "--triplets", type=Path, action="append", default=[], help="JSONL of {instruction, query, pos, neg}"
    )
    parser.add_argument("--instruction", default="", help="given to both sides of STS pairs")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 5, 20])
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    try:
        encoder = load_encoder(options.model)
        results: dict[str, object] = {"model": encoder.name, "fingerprint": encoder.fingerprint}
        for path in options.sts:
            results[path.name] = sts_scores(encoder, _rows(path), options.steps, instruction=options.instruction)
        for path in options.triplets:
            rows = _rows(path)
            results[path.name] = {
                f"{side}.k{steps}": triplet_success(encoder, rows, steps, on_documents=side == "all_sides")
                for steps in options.steps
                for side in ("all_sides", "query_side")
            }
    except (EmbedderError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(results, indent=2) + "\n")
    return 0


def _rows(path: Path) -> list[dict]:
    rows = read_rows(path)
    if not rows:
        raise FileNotFoundError(f"{path} is missing or empty.")
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
