"""`gircse train mine`: adds hard negatives, found with a trained model, to files of pairs.

A hard negative is near the query but not an answer: its rank lies in a window, and its score is below the positive's.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from embedder.checkpoint import load_encoder
from embedder.encoder import Encoder
from embedder.errors import DataError
from embedder.training.data import Pair, parse_pair, read_rows

logger = logging.getLogger(__name__)
_BLOCK = 256  # number of queries scored against all candidates at once, to bound memory


@dataclass(frozen=True, slots=True)
class Window:
    """Which candidates may become negatives. Ranks start at 0 and skip the query's own answers.

    relative_margin: a negative scores at most (1 - margin) times the worst of its query's positives (NV-Retriever
    2024).
    """

    range_min: int = 5
    range_max: int = 50
    relative_margin: float = 0.05
    count: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.range_min < self.range_max:
            raise DataError(
                f"Ranks {self.range_min} to {self.range_max} are invalid; 0 <= range-min < range-max is needed."
            )
        if not 0 <= self.relative_margin < 1 or self.count < 1:
            raise DataError(f"Margin {self.relative_margin} must be within [0, 1), and count {self.count} at least 1.")


def mine_file(path: Path, target: Path, encoder: Encoder, window: Window, *, steps: int | None = None) -> int:
    """Writes the rows of `path` with more `neg` to `target` (.jsonl.gz); returns the number of added negatives."""
    numbered = list(read_rows(path))
    rows = [row for _, row in numbered]
    pairs = [parse_pair(path, number, row) for number, row in numbered]
    mined = mine_negatives(pairs, [row.get("document") for row in rows], encoder, window, steps=steps)
    lines = [
        json.dumps(
            {**row, "neg": [*pair.negatives, *(text for text in negatives if text not in pair.negatives)]},
            ensure_ascii=False,
        )
        for row, pair, negatives in zip(rows, pairs, mined, strict=True)
    ]
    _write_gzip(target, lines)
    return sum(map(len, mined))


def mine_negatives(
    pairs: Sequence[Pair],
    documents: Sequence[object],
    encoder: Encoder,
    window: Window,
    *,
    steps: int | None = None,
) -> list[list[str]]:
    """Hard negatives of every pair from the positives of all pairs, nearest first.

    documents: the source document of each pair's positives, or None; texts of the same document are never negatives.
    """
    candidates = list(dict.fromkeys(text for pair in pairs for text in pair.positives))
    answers = _answers(pairs, documents, {text: place for place, text in enumerate(candidates)})
    vectors = encoder.encode_documents(candidates, steps=steps, show_progress=True)
    negatives: list[list[str]] = []
    with tqdm(total=len(pairs), unit="query", desc="Mining") as bar:
        for start in range(0, len(pairs), _BLOCK):
            block = range(start, min(start + _BLOCK, len(pairs)))
            scores = _embed_queries(encoder, [pairs[row] for row in block], steps) @ vectors.T
            for row, of_query in zip(block, scores, strict=True):
                own, excluded = answers[row]
                chosen = _choose(of_query, own, excluded, window)
                negatives.append([candidates[place] for place in chosen])
            bar.update(len(block))
    return negatives


def _embed_queries(encoder: Encoder, pairs: Sequence[Pair], steps: int | None) -> np.ndarray:
    vectors = np.empty((len(pairs), encoder.dimension), dtype=np.float32)
    by_instruction: dict[str, list[int]] = defaultdict(list)
    for row, pair in enumerate(pairs):
        by_instruction[pair.instruction].append(row)
    for instruction, rows in by_instruction.items():
        queries = [pairs[row].query for row in rows]
        vectors[rows] = encoder.encode_queries(queries, instruction=instruction, steps=steps)
    return vectors


def _answers(
    pairs: Sequence[Pair], documents: Sequence[object], place_of: dict[str, int]
) -> list[tuple[list[int], list[int]]]:
    """For every pair: its positives, and all candidates excluded as negatives (itself, its answers, their document)."""
    by_query: dict[str, set[int]] = defaultdict(set)
    by_document: dict[object, set[int]] = defaultdict(set)
    for pair, document in zip(pairs, documents, strict=True):
        places = [place_of[text] for text in pair.positives]
        by_query[pair.query].update(places)
        if document is not None:
            by_document[json.dumps(document)].update(places)
    result = []
    for pair, document in zip(pairs, documents, strict=True):
        excluded = by_query[pair.query] | (by_document[json.dumps(document)] if document is not None else set())
        if pair.query in place_of:
            excluded = excluded | {place_of[pair.query]}
        result.append(([place_of[text] for text in pair.positives], sorted(excluded)))
    return result


def _choose(scores: np.ndarray, own: list[int], excluded: list[int], window: Window) -> list[int]:
    """Rows of the negatives of one query; ties keep the order of the candidates."""
    worst = float(scores[own].min())
    limit = worst - abs(worst) * window.relative_margin
    open_scores = scores.copy()
    open_scores[excluded] = -np.inf
    width = min(window.range_max, len(scores) - len(excluded))
    nearest = np.argpartition(-open_scores, width - 1)[:width] if width else np.empty(0, dtype=int)
    ranked = nearest[np.lexsort((nearest, -open_scores[nearest]))][window.range_min :]
    return [int(place) for place in ranked if open_scores[place] <= limit][: window.count]


def _write_gzip(target: Path, lines: Sequence[str]) -> None:
    """Writes reproducible gzip: the header has neither time nor name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.tmp")
    with (
        temporary.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8") as text,
    ):
        text.writelines(f"{line}\n" for line in lines)
    temporary.replace(target)


def _targets(files: Sequence[Path], out: Path) -> Iterator[tuple[Path, Path]]:
    for path in files:
        target = out / f"{path.name.removesuffix('.gz').removesuffix('.jsonl')}.jsonl.gz"
        if target.resolve() == path.resolve():
            raise DataError(f"{path} would be overwritten. Give another folder as --out.")
        yield path, target


def run(arguments: Sequence[str]) -> None:
    """Runs the command. Raises DataError, EmbedderError or OSError."""
    default = Window()
    parser = argparse.ArgumentParser(prog="gircse train mine", description="Add hard negatives to files of pairs.")
    parser.add_argument("files", type=Path, nargs="+", help="pairs.<task>.jsonl[.gz]")
    parser.add_argument(
        "--model", required=True, help="a shipped name, a folder such as runs/first/adapter, or a hub id"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the files with negatives")
    parser.add_argument("--range-min", type=int, default=default.range_min, help="number of top ranks to skip")
    parser.add_argument("--range-max", type=int, default=default.range_max, help="rank at which the window ends")
    parser.add_argument("--relative-margin", type=float, default=default.relative_margin, help="see docs; 0 to below 1")
    parser.add_argument("--count", type=int, default=default.count, help="maximum negatives per query")
    parser.add_argument("--steps", type=int, help="refinement steps on both sides (default: the model's)")
    options = parser.parse_args(arguments)
    window = Window(options.range_min, options.range_max, options.relative_margin, options.count)
    targets = list(_targets(options.files, options.out))
    encoder = load_encoder(options.model)
    for path, target in targets:
        count = mine_file(path, target, encoder, window, steps=options.steps)
        logger.info("%s: %d negatives added.", target, count)
