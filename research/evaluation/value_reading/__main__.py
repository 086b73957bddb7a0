"""`python -m research.evaluation.value_reading`: a model's measures, on both halves of dev."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.command.standard_output import run_program
from embedder.training.data import ASPECTS_FILE, is_inner
from research.evaluation.value_reading import measures
from research.evaluation.value_reading.measures import HALVES, Outcomes, read_aspects
from research.evaluation.value_reading.reader import Reader

HELD_OUT = frozenset({"wiki_movies", "crisislex_t26", "emobank", "selfhosted"})
MEASURES = ("names", "labels", "composed", "triplets", "sts", "retrieval")
_SEED = 17


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m research.evaluation.value_reading", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with dev/ and train/")
    parser.add_argument("--cache", type=Path, required=True, help="folder for plain vectors of documents")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="as it is served (default: %(default)s)")
    parser.add_argument("--plain", action="store_true", help="nothing is read under an instruction")
    parser.add_argument("--joined", action="store_true", help="names with both sides read under it, and mentions")
    parser.add_argument("--sentences", action="store_true", help="values as re-rankers read them: by sentences, too")
    parser.add_argument("--device", default="cpu", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=1, help="under an instruction (default: %(default)s)")
    parser.add_argument("--only", nargs="*", default=[], choices=MEASURES, help="default: all")
    parser.add_argument("--limit", type=int, default=30, help="items of a source and half (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    options = parser.parse_args(arguments)
    started = time.process_time()
    encoder = load_encoder(options.model, device=options.device, dtype="auto")
    reader = Reader(
        encoder,
        steps=options.steps,
        is_plain=options.plain,
        is_joined=options.joined,
        reads_sentences=options.sentences,
    )
    figures = evaluate(reader, options.data, options.cache, only=options.only, limit=options.limit)
    figures["seconds"] = {"process": round(time.process_time() - started, 1)}
    sys.stdout.write(table(figures))
    if options.out is not None:
        options.out.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


@torch.inference_mode()
def evaluate(reader: Reader, data: Path, cache: Path, *, only: list[str], limit: int) -> dict[str, dict]:
    """measure -> half -> figure ×100, with its interval."""
    dev, train = data / "dev", data / "train"
    found = Outcomes()
    figures: dict[str, dict] = {}
    aspects = read_aspects(dev / ASPECTS_FILE)
    inner = [task for task in read_aspects(train / ASPECTS_FILE) if is_inner(task.name)]
    if not only or "names" in only:
        measures.names_of_aspects(reader, aspects, found, "names, dev aspects")
        measures.names_of_aspects(reader, inner, found, "names, inner aspects")
    if not only or "labels" in only:
        measures.names_of_label_sets(reader, dev, found, limit=limit)
    if not only or "composed" in only:
        for name, tasks in (("composed dev", aspects), ("composed inner", inner)):
            rows = measures.compose_aspects(tasks, count=768, seed=_SEED)
            measures.composed_texts(reader, rows, found, name)
    if not only or "triplets" in only:
        measures.triplets(reader, dev, train, found, held_out=HELD_OUT, limit=limit)
    if not only or "sts" in only:
        figures |= {name: {"all": [value]} for name, value in measures.similarity(reader, dev).items()}
    if not only or "retrieval" in only:
        measures.retrieval(reader, dev, cache, found)
    for measure in found.measures():
        figures[measure] = {half: [found.mean(measure, half), *found.interval(measure, half)] for half in HALVES}
    if not only or "labels" in only:
        figures["label sets, each (report)"] = {
            name: [round(100 * sum(scores) / len(scores), 1)]
            for name, scores in found.items["label_sets", "report"].items()
        }
    return figures


def table(figures: dict[str, dict]) -> str:
    lines = []
    for measure, halves in figures.items():
        if measure in ("seconds", "label sets, each (report)"):
            lines.append(f"{measure}: {halves}")
            continue
        shown = (
            f"{half} {row[0]:.1f}" + (f" [{row[1]:.1f}, {row[2]:.1f}]" if len(row) > 1 else "")
            for half, row in halves.items()
        )
        lines.append(f"{measure:36s} {'   '.join(shown)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_program(lambda: main(sys.argv[1:]))
