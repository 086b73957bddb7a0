"""Averages adapters that began with the same weights (model soups: Wortsman et al. 2022), and scales what is left.

`python -m research.training.average RUN RUN … --out FOLDER`: folders of runs, or of published adapters, alike in all
but their weights. A scale below 1 lies between the base and the mean (WiSE-FT: Wortsman et al. 2022), which gives
retrieval back what following instructions took. FOLDER is a model, and what `gircse train --start-from` begins with.
Readers of answers are averaged, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from embedder.checkpoint import write_contract
from embedder.command.standard_output import run_program
from embedder.errors import ContractError, DataError
from embedder.extensions.answer_reader import CONTRACT_FILE as READER_FILE
from embedder.extensions.answer_reader import HEAD_FILE, read_reader_contract, write_reader_contract
from embedder.model.adapter import CONFIG_FILE, WEIGHTS_FILE
from embedder.model.backbone import locate_model
from embedder.model.contract import ADAPTER_FILES, Contract, hash_files, read_contract, verify_files
from embedder.model.gguf_source import copy_notices
from embedder.training.publish import published_folder


def average_adapters(folders: Sequence[Path], out: Path, *, scale: float = 1.0) -> Path:
    """Writes the mean of LoRA's factors A and B, B scaled, and the mean of all else that was trained, to `out`.

    Factors are averaged and not their products, so that the rank stays. Raises DataError where the adapters are not
    alike, or a folder holds none.
    """
    if not 0 < scale <= 1:
        raise DataError(f"scale is {scale}, but must lie above 0 and be 1 at most: 1 keeps the mean as it is.")
    found = [published_folder(folder) for folder in folders]
    contracts = [_contract_of(folder) for folder in found]
    weights = [load_file(folder / WEIGHTS_FILE) for folder in found]
    for folder, contract, values in zip(found[1:], contracts[1:], weights[1:], strict=True):
        if _comparable(contract) != _comparable(contracts[0]) or _kind(values) != _kind(weights[0]):
            raise DataError(
                f"{folder} and {found[0]} are no adapters of one kind: base, head, pooling and rank must agree."
            )
    out.mkdir(parents=True, exist_ok=True)
    save_file({name: _mean(name, [each[name] for each in weights], scale) for name in weights[0]}, out / WEIGHTS_FILE)
    shutil.copyfile(found[0] / CONFIG_FILE, out / CONFIG_FILE)
    write_contract(
        out, dataclasses.replace(contracts[0], adapter_files=hash_files(out, (ADAPTER_FILES,)), selection_files={})
    )
    copy_notices(locate_model(contracts[0].base), out)
    return out


def average_readers(folders: Sequence[Path], out: Path) -> Path:
    """Writes the mean of the weights of readers of answers to `out`. Raises ContractError where a file is damaged,
    DataError where they are not alike."""
    contracts = [read_reader_contract(folder) for folder in folders]
    for folder, contract in zip(folders, contracts, strict=True):
        verify_files(folder, contract.files)
    out.mkdir(parents=True, exist_ok=True)
    for name in (WEIGHTS_FILE, HEAD_FILE):
        weights = [load_file(folder / name) for folder in folders]
        if any(_kind(each) != _kind(weights[0]) for each in weights):
            raise DataError(f"{folders[0]} and the others are no readers of one kind: base and rank must agree.")
        means = {key: torch.stack([each[key].float() for each in weights]).mean(dim=0) for key in weights[0]}
        save_file({key: mean.to(weights[0][key].dtype) for key, mean in means.items()}, out / name)
    shutil.copyfile(folders[0] / CONFIG_FILE, out / CONFIG_FILE)
    files = hash_files(out, (WEIGHTS_FILE, CONFIG_FILE, HEAD_FILE))
    write_reader_contract(out, dataclasses.replace(contracts[0], name=out.name, files=files))
    return out


def _mean(name: str, values: Sequence[Tensor], scale: float) -> Tensor:
    if not values[0].is_floating_point():  # the token ids of a soft head
        return values[0]
    mean = torch.stack(list(values)).mean(dim=0)
    return mean * scale if ".lora_B." in name else mean


def _kind(values: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes of what was trained; of the token ids of a soft head what they are."""
    return {name: tuple(value.shape if value.is_floating_point() else value.tolist()) for name, value in values.items()}


def _contract_of(folder: Path) -> Contract:
    contract = read_contract(folder) if (folder / WEIGHTS_FILE).is_file() else None
    if contract is None:
        raise DataError(f"{folder} holds no adapter: name the folder of a run that came to its end, or of an adapter.")
    return contract


def _comparable(contract: Contract) -> Contract:
    return dataclasses.replace(contract, name="", adapter_files={}, golden=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        if all((each / READER_FILE).is_file() for each in options.runs):
            folder = average_readers(options.runs, options.out)
        else:
            folder = average_adapters(options.runs, options.out, scale=options.scale)
    except (ContractError, DataError) as error:
        parser.exit(1, f"{error}\n")
    sys.stdout.write(f"{len(options.runs)} adapters averaged: {folder}\n")


if __name__ == "__main__":
    run_program(main)
