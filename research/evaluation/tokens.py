"""`python -m research.evaluation.tokens`: measures a model's refinement tokens and writes examples to read."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from tqdm.auto import tqdm

from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.command.standard_output import run_program
from embedder.encoder import Encoder
from embedder.errors import EmbedderError
from embedder.evaluation.data import files_of, read_rows
from embedder.refinement_steps import RefinementStep
from embedder.training.words import STOP_WORDS
from research.evaluation.token_measure import (
    CONTROLS,
    HEADLINE,
    Control,
    Instructions,
    ListScore,
    TokenScores,
    select_rows,
    token_measure,
)
from research.evaluation.word_lists import labels_of

__all__ = ["main", "plot_scores", "token_measure", "write_readings", "write_scores"]

GROUPS = ((1, 5), (6, 10), (11, 20))  # steps that are read together (paper, section 5.2)
_SHOWN_WORDS = 6


def write_scores(scores: TokenScores, path: Path) -> None:
    """A Markdown table: every list overall, then the headline list per task and aspect."""
    lines = [
        f"# Refinement tokens of {scores.model}",
        "",
        f"Share of soft-token probability, in per cent, at steps {scores.first_step}-{scores.last_step} of "
        f"{scores.texts} texts, and how many times its control it is (bootstrap 95 % interval over texts).",
        "",
        _line("words", "texts", "own", *(control.replace("_", " ") for control in CONTROLS)),
        _line(*["---"] * (3 + len(CONTROLS))),
    ]
    lines += [_score_line(f"all: {name.replace('_', ', ')}", score) for name, score in scores.overall.items()]
    lines += [
        _score_line(f"{each.task}, {each.aspect}", each.lists[HEADLINE])
        for each in scores.aspects
        if HEADLINE in each.lists
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _score_line(name: str, score: ListScore) -> str:
    return _line(name, score.texts, f"{100 * score.own:.2f}", *(_control(score.controls[each]) for each in CONTROLS))


def _control(control: Control | None) -> str:
    if control is None:
        return ""
    share = f"{100 * control.share:.2f}"
    if control.ratio is None:
        return share
    interval = f" ({control.low:.1f} to {control.high:.1f})" if control.low is not None else ""
    return f"{share}: **{control.ratio:.1f}×**{interval}"


def _line(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def plot_scores(scores: TokenScores, path: Path) -> None:
    """Bars of the headline list, own share beside its controls, per task and aspect; and its course over the steps."""
    groups = [("all", scores.overall)] + [(f"{each.task}\n{each.aspect}", each.lists) for each in scores.aspects]
    bars = [(name, lists[HEADLINE]) for name, lists in groups if HEADLINE in lists]
    figure = Figure(figsize=(14, 7), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
    width = 0.8 / (1 + len(CONTROLS))
    places = np.arange(len(bars))
    shares = {"own instruction, own label": [score.own for _, score in bars]} | {
        control.replace("_", " "): [each.share if (each := score.controls[control]) else 0.0 for _, score in bars]
        for control in CONTROLS
    }
    for number, (name, values) in enumerate(shares.items()):
        top.bar(places + number * width, 100 * np.array(values), width, label=name)
    top.set_xticks(places + 1.5 * width, [name for name, _ in bars], rotation=60, ha="right", fontsize=7)
    top.set(ylabel="% of probability", title=f"{scores.model}: soft tokens on the words of the label")
    top.legend(fontsize=8)
    for name, curve in scores.by_step.items():
        bottom.plot(np.arange(1, len(curve) + 1), 100 * np.array(curve), marker="o", label=name.replace("_", " "))
    bottom.set(xlabel="step", ylabel="% of probability")
    bottom.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def write_readings(
    encoder: Encoder,
    rows: Sequence[Mapping],
    instructions: Instructions,
    path: Path,
    *,
    texts: int = 20,
    seed: int = 0,
    show_progress: bool = False,
) -> None:
    """A Markdown table of texts under two instructions each: the words that every group of steps adds."""
    usable = [row for row in rows if len(_aspects_of(row, instructions)) > 1]
    lines = [
        f"# What {encoder.name} reads into a text",
        "",
        "The likeliest words of each group of steps that no earlier group has shown, by falling probability; "
        "stop words are left out, words of the text itself are in italics.",
        "",
        _line("text", "instruction", "label", *(f"steps {first}-{last}" for first, last in GROUPS)),
        _line(*["---"] * (3 + len(GROUPS))),
    ]
    for row in tqdm(
        select_rows(usable, limit=texts, seed=seed), disable=not show_progress, unit="text", desc="Reading"
    ):
        for aspect in _aspects_of(row, instructions)[:2]:
            instruction = instructions[row["task"]][aspect]
            refinement = encoder.refine(row["text"], instruction=instruction, steps=GROUPS[-1][1])
            added = added_words(refinement.steps)
            own = set(re.findall(r"[^\W\d_]+", row["text"].lower()))
            cells = [", ".join(f"*{word}*" if word in own else word for word in words) for words in added]
            lines.append(_line(_shorten(row["text"]), instruction, ", ".join(labels_of(row, aspect)), *cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def added_words(steps: Sequence[RefinementStep], *, count: int = _SHOWN_WORDS) -> list[list[str]]:
    """The `count` likeliest words of each group of steps, without stop words and those of earlier groups."""
    shown: set[str] = set()
    groups = []
    for first, last in GROUPS:
        weights: defaultdict[str, float] = defaultdict(float)
        for step in steps:
            if first <= step.step <= last:
                for token in step.tokens:
                    weights[token.token] += token.probability
        ranked = sorted(weights, key=lambda word: (-weights[word], word))
        words = [word for word in ranked if word.isalpha() and word not in STOP_WORDS and word not in shown][:count]
        shown.update(words)
        groups.append(words)
    return groups


def _aspects_of(row: Mapping, instructions: Instructions) -> list[str]:
    return [aspect for aspect in instructions.get(row["task"], {}) if labels_of(row, aspect)]


def _shorten(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[:limit].rsplit(' ', 1)[0]} …"


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m research.evaluation.tokens",
        description="Measure refinement tokens on labelled texts: tokens.json, tokens.md, tokens.png and readings.md.",
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with labels.*.jsonl(.gz)")
    parser.add_argument(
        "--instructions", type=Path, help="JSON of task, aspect, instruction [instructions.json beside --data]"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a shipped name, a folder or a hub id")
    parser.add_argument("--limit", type=int, default=150, help="texts to measure, spread over the tasks [150]")
    parser.add_argument("--readings", type=int, default=20, help="texts in the table for people [20]")
    parser.add_argument("--steps", type=int, default=20, help="last step; the measure begins at step 6 [20]")
    parser.add_argument("--seed", type=int, default=0, help="of the sample, the controls and the bootstrap [0]")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    try:
        encoder = load_encoder(options.model)
        rows = [row for path in files_of(options.data, "labels") for row in read_rows(path)]
        instructions = json.loads(
            (options.instructions or options.data.parent / "instructions.json").read_text("utf-8")
        )
        scores = token_measure(
            encoder,
            rows,
            instructions,
            limit=options.limit,
            last_step=options.steps,
            seed=options.seed,
            show_progress=sys.stderr.isatty(),
        )
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "tokens.json").write_text(json.dumps(asdict(scores), indent=1) + "\n", encoding="utf-8")
        write_scores(scores, options.out / "tokens.md")
        plot_scores(scores, options.out / "tokens.png")
        write_readings(
            encoder, rows, instructions, options.out / "readings.md", texts=options.readings, seed=options.seed
        )
    except (EmbedderError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write((options.out / "tokens.md").read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
