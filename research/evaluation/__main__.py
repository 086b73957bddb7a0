"""`python -m research.evaluation`: `gircse eval`, and the systems of the papers beside a model; what else is measured
of models: `seeds`, `privacy`, `publish`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from embedder.checkpoint import (
    DEFAULT_MODEL,
    Checkpoint,
    chosen_dtype,
    find_checkpoint,
    load_auxiliary_models,
    load_encoder,
    load_model_tokenizer,
    load_parts,
)
from embedder.command.standard_output import run_program
from embedder.command.status import run_command
from embedder.encoder import Encoder
from embedder.errors import DataError, EmbedderError
from embedder.evaluation.__main__ import (
    ERRORS,
    RESULTS_MESSAGE,
    STOPPED_MESSAGE,
    build_parser,
    config_of,
    run_evaluation,
    run_report,
    tasks_of,
)
from embedder.extensions.auxiliary_models import AuxiliaryModels
from embedder.model.backbone import Backbone
from embedder.text.prompts import without_cut_warnings
from research.evaluation.comparison import write_comparison
from research.evaluation.evaluate_systems import evaluate_systems
from research.evaluation.privacy import (
    Leak,
    example_table,
    leak_table,
    measure_leaks,
    read_attack_texts,
    soft_token_leak,
)
from research.evaluation.projected import open_projections
from research.evaluation.published_systems import main as publish_system
from research.evaluation.seeds import write_seed_table
from research.evaluation.systems import SYSTEMS, choose_systems, open_systems, open_trained
from research.evaluation.two_stage import TwoStageEmbedder, open_generator, open_two_stage

_TRAINED_HELP = "published models as further systems, as the runs of a training matrix leave in adapter/"
_TWO_STAGE_HELP = (
    "also embed texts with what a language model writes of them: `same` for the model itself, another model, or the "
    "http(s) address of an OpenAI-compatible server, whose key is in GIRCSE_TWO_STAGE_API_KEY"
)
_TWO_STAGE_SYSTEM_HELP = "what embeds text and augmentation (default: %(default)s)"
_PROJECTION_HELP = (
    "also Hyper-CL: stored vectors projected under instructions, by what embedder.training.hyper_projection left in "
    "each folder, beside the stored vectors alone and the model's reading after --systems-steps"
)
_PAIR_HELP = "two rows of the page, whose difference it tells with that of every seed; may be given again"
_AGAINST_HELP = "with --page: the system whose differences to the others are told (default: the first)"
_ATTACKER_TEXTS_HELP = (
    "how many texts the attacker has: beyond its half of --limit, what else that half of --data holds and of "
    "--attacker-data (default: its half, and all of --attacker-data)"
)
_ATTACKER_DATA_HELP = "folder with further labels.* files for the attacker; texts that are tested are left out"
_TRAINED_SYSTEMS_HELP = (
    "of --systems, also over each trained model that generates, as 'Hard tokens' or 'Best step'; 'Soft tokens, last' "
    "and 'Soft tokens, mean' over each that does not, too, at each of --trained-steps"
)
_TRAINED_DIMENSIONS_HELP = "also by so many of the first dimensions of each trained model's vectors (Matryoshka)"
_TRAINED_STEPS_HELP = "of trained models that generate, a row for each (default: 5)"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = build_parser()
    parser.prog = "python -m research.evaluation"
    parser.description = (
        "`gircse eval` with systems of the field beside a model: --systems, --trained, --two-stage or --projection; "
        "without any of them it measures the model alone. `seeds` compares the runs of a training matrix, `privacy` "
        "tells what of a text its vector gives away, and `publish` makes a model of a system, for collections and for "
        "other programs."
    )
    add = parser.add_argument
    add("--systems", nargs="+", default=(), metavar="NAME", help=f"all, or of these: {', '.join(SYSTEMS)}")
    add("--systems-steps", type=int, default=5, metavar="K", help="of systems that generate (default: %(default)s)")
    add("--trained", nargs="+", type=Path, default=(), metavar="FOLDER", help=_TRAINED_HELP)
    add("--trained-systems", nargs="+", default=(), metavar="NAME", help=_TRAINED_SYSTEMS_HELP)
    add("--trained-dimensions", type=int, nargs="+", default=(), metavar="N", help=_TRAINED_DIMENSIONS_HELP)
    add("--trained-steps", type=int, nargs="+", default=(5,), metavar="K", help=_TRAINED_STEPS_HELP)
    add("--two-stage", metavar="GENERATOR", help=_TWO_STAGE_HELP)
    add("--two-stage-model", metavar="NAME", help="of the server's models, the one that writes")
    add("--two-stage-system", choices=SYSTEMS, default="Causal-EOS", metavar="NAME", help=_TWO_STAGE_SYSTEM_HELP)
    add("--projection", nargs="+", type=Path, default=(), metavar="FOLDER", help=_PROJECTION_HELP)
    add("--page", type=Path, help="with --systems: a Markdown page of the results, with a plot beside it")
    add("--against", metavar="SYSTEM", help=_AGAINST_HELP)
    add("--pair", nargs=2, action="append", default=[], metavar="ROW", help=_PAIR_HELP)
    return parser.parse_args(arguments)


def add_augmentations(
    options: argparse.Namespace,
    checkpoint: Checkpoint,
    parts: tuple[Backbone, Tokenizer],
    auxiliary: AuxiliaryModels,
) -> TwoStageEmbedder:
    """The system that reads what a language model writes of each text; what it wrote is kept beside the results."""
    generator = open_generator(
        options.two_stage,
        checkpoint=checkpoint,
        parts=parts,
        server_model=options.two_stage_model,
        api_key=os.environ.get("GIRCSE_TWO_STAGE_API_KEY") or None,
        dtype=options.dtype,
    )
    return open_two_stage(
        generator,
        checkpoint,
        parts,
        kept=options.out.with_suffix(".augmentations.jsonl"),
        steps=options.systems_steps,
        system=options.two_stage_system,
        auxiliary=auxiliary,
    )


def compare_systems(options: argparse.Namespace) -> None:
    """The systems of the field over one model, whose weights are loaded once."""
    checkpoint = find_checkpoint(options.model)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    known = checkpoint.contract.dtype
    dtype = chosen_dtype(options.dtype or known, default=known, device=device)
    parts = load_parts(checkpoint, device=device, dtype=dtype)
    auxiliary = load_auxiliary_models(checkpoint, *parts)
    chosen = choose_systems(options.systems)
    systems = open_systems(chosen, checkpoint, parts, steps=options.systems_steps, auxiliary=auxiliary)
    if options.two_stage:
        systems.append(add_augmentations(options, checkpoint, parts, auxiliary))
    base = Encoder(*parts, checkpoint.contract, auxiliary=auxiliary)
    if options.projection:
        systems += open_projections(options.projection, base, steps=options.systems_steps)
    systems += open_trained(
        options.trained,
        device=device,
        dtype=options.dtype,
        steps=options.trained_steps,
        systems=choose_systems(options.trained_systems),
        dimensions=options.trained_dimensions,
    )
    config = replace(config_of(options), alone=True)
    results = evaluate_systems(base, config, tasks_of(options), options.out, systems)
    if options.page:
        write_comparison(
            results, options.page, against=options.against, pairs=[(one, other) for one, other in options.pair]
        )


def run_comparison(arguments: list[str]) -> int:
    options = parse(arguments)
    if not (options.systems or options.two_stage or options.projection or options.trained):
        return run_evaluation(arguments)

    def work() -> str:
        with without_cut_warnings():
            compare_systems(options)
        return RESULTS_MESSAGE.format(options.out)

    return run_command(work, name="gircse eval", errors=ERRORS, stopped=STOPPED_MESSAGE.format(options.out))


def parse_seeds(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gircse eval seeds",
        description="Compare variants that were trained with several seeds: files named VARIANT-SEED.json.",
    )
    parser.add_argument("results", type=Path, nargs="+", help="files that `gircse eval` wrote of the runs of a matrix")
    parser.add_argument("--out", type=Path, required=True, help="the Markdown file")
    parser.add_argument(
        "--order", nargs="+", metavar="VARIANT", help="rows of the table; each is compared with the last"
    )
    parser.add_argument("--at", type=int, default=5, metavar="K", help="steps on both sides (default: %(default)s)")
    return parser.parse_args(arguments)


def run_seeds(arguments: list[str]) -> int:
    options = parse_seeds(arguments)
    try:
        page = write_seed_table(options.results, options.out, order=options.order, steps=options.at)
    except (DataError, OSError) as error:
        sys.stderr.write(f"gircse eval seeds: {error}\n")
        return 1
    sys.stderr.write(f"The table is {page}.\n")
    return 0


def parse_privacy(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gircse eval privacy",
        description="Measure how many words of a text can be read back from its stored vector, before and after noise, "
        "int8 and binary, by an attacker who has texts of the same kind and their vectors: a linear map from vectors "
        "to words and, with --generative, a small decoder that writes texts (minutes for each kind of stored vector).",
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder with labels.* files, whose texts are taken")
    add("--model", default=DEFAULT_MODEL, help="a shipped name, a folder or a hub id (default: %(default)s)")
    add(
        "--limit", type=int, default=2000, metavar="N", help="texts, half of them the attacker's (default: %(default)s)"
    )
    add("--generative", action="store_true", help="train the attacker that writes texts, too")
    add("--attacker-texts", type=int, metavar="N", help=_ATTACKER_TEXTS_HELP)
    add("--attacker-data", type=Path, metavar="FOLDER", help=_ATTACKER_DATA_HELP)
    add("--seed", type=int, default=0, help="of noise, decoder and resamples (default: %(default)s)")
    add("--steps", type=int, metavar="K", help="of documents (default: the model's own)")
    add("--words-steps", type=int, metavar="K", help="also what soft tokens say, after so many steps")
    return parser.parse_args(arguments)


def run_privacy(arguments: list[str]) -> int:
    options = parse_privacy(arguments)
    leaks: list[Leak] = []
    try:
        examples = attack(options, leaks)
    except (EmbedderError, DataError, OSError) as error:
        sys.stderr.write(f"gircse eval privacy: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\nStopped. {len(leaks)} figures were measured; the same command begins anew.\n")
        sys.stdout.write(leak_table(leaks) if leaks else "")
        return 130
    sys.stdout.write(f"{leak_table(leaks)}\n{examples}")
    return 0


def attack(options: argparse.Namespace, leaks: list[Leak]) -> str:
    """Appends what each attack finds to `leaks`, so that it is there after a stop. Returns the table of examples."""
    texts = read_attack_texts(
        options.data, limit=options.limit, own=options.attacker_texts, further=options.attacker_data
    )
    encoder = load_encoder(options.model)
    tokenizer = load_model_tokenizer(options.model) if options.generative else None
    for leak in measure_leaks(
        encoder,
        texts,
        steps=options.steps,
        tokenizer=tokenizer,
        seed=options.seed,
        show_progress=sys.stderr.isatty(),
    ):
        leaks.append(leak)
    if options.words_steps:
        leaks.append(soft_token_leak(encoder, texts, steps=options.words_steps, seed=options.seed))
    return example_table(leaks, texts)


def main(arguments: list[str]) -> int:
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    others = {"report": run_report, "seeds": run_seeds, "privacy": run_privacy, "publish": publish_system}
    other = others.get(arguments[0] if arguments else "")
    return other(arguments[1:]) if other else run_comparison(arguments)


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
