"""`gircse eval publish`: a system of the field over a model becomes a model of its own, which collections can use."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from embedder.checkpoint import CARD_FILE, DEFAULT_MODEL, Checkpoint, find_checkpoint, model_folder, write_contract
from embedder.errors import ContractError, EmbedderError
from embedder.extensions.hyper_projection import PROJECTION_FILE, read_projection
from embedder.extensions.sentence_selection import SELECTION_FILE
from embedder.model.backbone import GGUF_PREFIX, locate_model
from embedder.model.contract import CONTRACT_FILE, SAME_MODEL, Contract, hash_files
from embedder.model.gguf_source import copy_notices, hash_weights
from research.evaluation.systems import SYSTEMS, System

_GENERATOR_HELP = (
    "two-stage generation: the system embeds texts with what this language model writes of them (a folder, a package, "
    "a hub id), or the model itself (`same`)"
)
_NOT_COPIED = {CONTRACT_FILE, CARD_FILE, PROJECTION_FILE, SELECTION_FILE}


def publish_system(system: System, model: str, folder: Path, *, generator: str | None = None) -> Path:
    """Leaves in `folder`, which is not there yet or empty, what `load_encoder` takes.

    generator: two-stage generation, by what `locate_model` takes or by the model itself (`same`).
    Raises ContractError where the model cannot be this system.
    """
    checkpoint = find_checkpoint(model)
    contract, most = system.contract_of(checkpoint.contract), checkpoint.contract.dimension
    if contract.dimension > most:
        raise ContractError(f"The first {contract.dimension} dimensions are wanted, but vectors have {most}.")
    if generator is not None:
        contract = replace(contract, selection_files={})
    if generator == SAME_MODEL:
        contract = replace(contract, generator=generator)
    elif generator is not None:
        located = locate_model(generator)
        checkpoint = replace(checkpoint, generator=located)
        named = _from_anywhere(generator, located, Path())
        contract = replace(contract, generator=named, generator_files=hash_weights(located))
    return _publish(contract, checkpoint, model, folder)


def publish_projection(projection: Path, model: str, folder: Path) -> Path:
    """Hyper-CL: `projection`, as `research.training.hyper_projection` left it, over the vectors of documents of the
    model that it was trained with. Raises ContractError where that was another."""
    checkpoint = find_checkpoint(model)
    said, (_, trained_with) = checkpoint.contract, read_projection(projection)
    if said.uses_instructions_again:
        raise ContractError(f"{model} makes something of instructions already. Name the model under it.")
    if said.fingerprint != trained_with:
        raise ContractError(
            f"{projection / PROJECTION_FILE} projects vectors of a model with fingerprint {trained_with}, but {model} "
            f"has {said.fingerprint}. Name the model that it was trained with."
        )
    steps = said.default_document_steps
    contract = replace(
        said,
        golden=(),
        projection_files=hash_files(projection, (PROJECTION_FILE,)),
        selection_files={},
        default_query_steps=steps,
    )
    if steps == 0:  # vectors of the base model, which knows no instruction: the projection alone does
        checkpoint = replace(checkpoint, adapter=None)
        contract = replace(
            contract,
            adapter_files={},
            head="none",
            pooling=said.plain_pooling or said.pooling,
            default_query_steps=1,
        )
    return _publish(contract, checkpoint, model, folder, projection=projection)


def _publish(
    contract: Contract, checkpoint: Checkpoint, model: str, folder: Path, *, projection: Path | None = None
) -> Path:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ContractError(f"{folder} is there already. Name a folder that is not, or an empty one.")
    contract = _named_from_anywhere(contract, checkpoint, model_folder(model))
    contract = replace(contract, name=folder.resolve().name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{contract.name}-") as unfinished:
        whole = Path(unfinished) / contract.name
        whole.mkdir()
        copied = [] if checkpoint.adapter is None else sorted(checkpoint.adapter.iterdir())
        for path in copied:
            if path.is_file() and path.name not in _NOT_COPIED:
                shutil.copyfile(path, whole / path.name)
        for name, files, source in (
            (PROJECTION_FILE, contract.projection_files, projection or checkpoint.projection),
            (SELECTION_FILE, contract.selection_files, checkpoint.selection),
        ):
            if files:
                assert source is not None
                shutil.copyfile(source / name, whole / name)
        copy_notices(checkpoint.base, whole)
        write_contract(whole, contract)
        whole.replace(folder)
    return folder


def _named_from_anywhere(contract: Contract, checkpoint: Checkpoint, source: Path) -> Contract:
    """With names of its models that hold wherever the contract lies and whatever the working directory is."""
    contract = replace(contract, base=_from_anywhere(contract.base, checkpoint.base, source))
    if contract.context_encoder and checkpoint.context:
        context = _from_anywhere(contract.context_encoder, checkpoint.context, source)
        contract = replace(contract, context_encoder=context)
    if contract.generator and checkpoint.generator:
        contract = replace(contract, generator=_from_anywhere(contract.generator, checkpoint.generator, source))
    return contract


def _from_anywhere(name: str, located: Path, source: Path) -> str:
    file = name.removeprefix(GGUF_PREFIX)
    if name != file:
        path = source / file if file.startswith(".") else Path(file).expanduser()
        return f"{GGUF_PREFIX}{path.resolve()}"
    is_folder = name.startswith(".") or Path(name).is_dir()
    return str(located.resolve()) if is_folder else name


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gircse eval publish",
        description="Make a model of a system that `gircse eval --systems` measures: a folder with a contract, whose "
        "fingerprint differs where its vectors do. `gircse up --model FOLDER` searches with it, "
        "`GircseEmbeddings(model=FOLDER)` embeds.",
    )
    add = parser.add_argument
    add("--model", default=DEFAULT_MODEL, help="a shipped name, a folder or a hub id (default: %(default)s)")
    add("--out", type=Path, required=True, help="the folder, whose name becomes the model's")
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--system", choices=SYSTEMS, metavar="NAME", help=f"one of: {', '.join(SYSTEMS)}")
    one.add_argument(
        "--projection", type=Path, metavar="FOLDER", help="Hyper-CL: what research.training.hyper_projection left"
    )
    add("--generator", metavar="NAME", help=_GENERATOR_HELP)
    add("--dimensions", type=int, metavar="N", help="by so many of a vector's first dimensions alone (Matryoshka)")
    options = parser.parse_args(arguments)
    if options.projection and (options.generator or options.dimensions):
        parser.error("--generator and --dimensions go with --system: a projection takes vectors as the model has them")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    try:
        if options.projection:
            folder = publish_projection(options.projection, options.model, options.out)
        else:
            system = replace(SYSTEMS[options.system], dimensions=options.dimensions)
            folder = publish_system(system, options.model, options.out, generator=options.generator)
    except (EmbedderError, OSError) as error:
        sys.stderr.write(f"gircse eval publish: {error}\n")
        return 1
    sys.stderr.write(f"The model is {folder}; gircse up --model {folder} searches with it.\n")
    return 0
