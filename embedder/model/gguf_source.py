"""The origin of dequantised weights: contracts and fingerprints use the hash of the GGUF file."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedder.errors import ContractError
from embedder.model.contract import hash_files, verify_files

_NOTICES = ("NOTICE*", "*TERMS*", "LICENSE*", "COPYING*")  # copied along with the dequantised weights
# beside dequantised weights; has the GGUF file's name and hash, and the hashes of the results
SOURCE_FILE = "gguf.json"


def is_from_gguf(folder: Path) -> bool:
    """Whether the weights in the folder were dequantised."""
    return (folder / SOURCE_FILE).is_file()


def hash_weights(folder: Path, patterns: tuple[str, ...] = ("*.safetensors",)) -> dict[str, str]:
    """File name -> SHA-256 of the matching files in `folder`; for dequantised weights, of the original GGUF file.

    Raises ContractError if dequantised files have changed.
    """
    if not is_from_gguf(folder):
        return hash_files(folder, patterns)
    source = json.loads((folder / SOURCE_FILE).read_text(encoding="utf-8"))
    verify_files(folder, source["files"])
    return {source["gguf"]: source["sha256"]}


def verify_weights(folder: Path, expected: Mapping[str, str]) -> None:
    """Raises ContractError if a file is missing or its SHA-256 differs."""
    if not is_from_gguf(folder):
        verify_files(folder, expected)
        return
    found = hash_weights(folder)
    if dict(expected) != found:
        raise ContractError(
            f"{folder} was made from {found}, but its contract requires {dict(expected)}. Get that GGUF file."
        )


def find_parts(package: importlib.metadata.Distribution) -> tuple[list[Path], str | None, list[Path]]:
    """Finds the GGUF file of a package. Its parts may lie in the packages it requires; never imports them.

    Returns the parts (empty if none), the SHA-256 if the package states it, and licences and notices.
    """
    parts: dict[str, Path] = {}
    expected, notices = None, []
    for each in (package, *_required(package)):
        for file in each.files or []:
            path = Path(str(file.locate()))
            if file.name.endswith(".gguf") or ".gguf.part" in file.name:
                parts[file.name] = path
            elif file.name == "SHA256SUMS":
                expected = path.read_text(encoding="utf-8").split()[0]
            elif each is package and any(file.match(pattern) for pattern in _NOTICES):
                notices.append(path)
    return [parts[name] for name in sorted(parts)], expected, notices


def _required(package: importlib.metadata.Distribution) -> Iterator[importlib.metadata.Distribution]:
    for requirement in package.requires or []:
        name = requirement.partition(";")[0].partition("==")[0].strip()
        try:
            yield importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def copy_notices(base: Path, folder: Path) -> tuple[str, ...]:
    """Copies the licences and notices beside a base's GGUF weights to `folder`.

    Returns their names, ascending.
    """
    found = {notice for pattern in _NOTICES for notice in base.glob(pattern)} if is_from_gguf(base) else set()
    for notice in found:
        shutil.copyfile(notice, folder / notice.name)
    return tuple(sorted(notice.name for notice in found))
