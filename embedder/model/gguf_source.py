"""Where weights that were a GGUF file come from: the file's hash stands for theirs, in contracts and fingerprints."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedder.errors import ContractError
from embedder.model.contract import hash_files, verify_files

_NOTICES = ("NOTICE*", "*TERMS*", "LICENSE*", "COPYING*")  # travel with the weights that were made from the file
SOURCE_FILE = "gguf.json"  # beside weights that were dequantised; names the file, its hash, and those of what was made


def is_from_gguf(folder: Path) -> bool:
    """Whether the weights in it were dequantised."""
    return (folder / SOURCE_FILE).is_file()


def hash_weights(folder: Path, patterns: tuple[str, ...] = ("*.safetensors",)) -> dict[str, str]:
    """File name -> SHA-256 of the files in `folder` that match: of the GGUF file that all were, where they were one.

    Raises ContractError where what was made of it has changed.
    """
    if not is_from_gguf(folder):
        return hash_files(folder, patterns)
    said = json.loads((folder / SOURCE_FILE).read_text(encoding="utf-8"))
    verify_files(folder, said["files"])
    return {said["gguf"]: said["sha256"]}


def verify_weights(folder: Path, expected: Mapping[str, str]) -> None:
    """Raises ContractError where a file is missing or its SHA-256 is not the expected one."""
    if not is_from_gguf(folder):
        verify_files(folder, expected)
        return
    found = hash_weights(folder)
    if dict(expected) != found:
        raise ContractError(
            f"{folder} was made from {found}, but its contract says {dict(expected)}. Get the GGUF file that it names."
        )


def find_parts(package: importlib.metadata.Distribution) -> tuple[list[Path], str | None, list[Path]]:
    """The GGUF file that a package holds, in parts that may lie in the packages it requires; its SHA-256 where the
    package says it; licences and notices. The packages themselves are never imported. No parts: it holds none."""
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
    """Licences and notices that lie beside a base's GGUF weights, to lie beside what was made from them as well.

    Returns their names, ascending.
    """
    found = {notice for pattern in _NOTICES for notice in base.glob(pattern)} if is_from_gguf(base) else set()
    for notice in found:
        shutil.copyfile(notice, folder / notice.name)
    return tuple(sorted(notice.name for notice in found))
