"""Checks built distributions: `python scripts/check_distributions.py FOLDER`, which `make dist` fills.

Compares what each wheel installs, its size, licence and licence files, and what the sdist of gircse-search holds.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

from embedder.command.standard_output import run_program

MB = 1_000_000
GEMMA = "LicenseRef-Gemma-Terms-of-Use"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a distribution must be. `top`: its top-level packages and modules."""

    top: frozenset[str]
    most_mb: float
    licence: str
    licence_files: frozenset[str]


DISTRIBUTIONS = {
    "gircse-search": Wanted(
        frozenset({"app", "ingest", "ui", "sample", "gircse_search.py"}),
        5,
        "Apache-2.0 AND CC-BY-4.0 AND CC0-1.0 AND LicenseRef-Public-Domain",
        frozenset({"LICENSE", "sample/ATTRIBUTION.md"}),
    ),
    "gircse-embedder": Wanted(frozenset({"embedder"}), 20, "Apache-2.0", frozenset({"LICENSE"})),
    "gircse-base": Wanted(frozenset({"gircse_base"}), 10, "Apache-2.0", frozenset({"LICENSE"})),
    "gircse-270m": Wanted(frozenset({"gircse_270m"}), 20, GEMMA, frozenset({"GEMMA_TERMS.html", "NOTICE.md"})),
}
# In no wheel.
STRAY = ("__pycache__", ".egg-info", "conftest.py", "tests/", "research/", "build/", ".pyc")
# What the tests need of the sdist of gircse-search, besides the packages.
SOURCES = (
    *("conftest.py", "Makefile", "pyproject.toml", "embedder/pyproject.toml", "embedder/checkpoint.py"),
    *("tests/unit/test_search.py", "research/pyproject.toml", "docs/tutorial.md", "scripts/make_docs.py"),
    *("Dockerfile", "docker-compose.yml", ".ci/run", "README.md"),
)


def errors_of_wheel(path: Path) -> Iterator[str]:
    with ZipFile(path) as wheel:
        names = wheel.namelist()
        [metadata_name] = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(wheel.read(metadata_name).decode())
    wanted = DISTRIBUTIONS[metadata["Name"]]
    folder = metadata_name.partition("/")[0]
    top = {name.partition("/")[0] for name in names} - {folder}
    if top != wanted.top:
        yield f"installs {sorted(top)}, not {sorted(wanted.top)}"
    if path.stat().st_size > wanted.most_mb * MB:
        yield f"has {path.stat().st_size / MB:.1f} MB, more than {wanted.most_mb:g}"
    if metadata["License-Expression"] != wanted.licence:
        yield f"is under {metadata['License-Expression']}, not {wanted.licence}"
    licence_files = frozenset(metadata.get_all("License-File") or ())
    if licence_files != wanted.licence_files:
        yield f"names the licence files {sorted(licence_files)}, not {sorted(wanted.licence_files)}"
    yield from (f"lacks {each}" for each in licence_files if f"{folder}/licenses/{each}" not in names)
    yield from (f"holds {name}" for name in names if any(part in name for part in STRAY))
    if wanted.licence != GEMMA:
        yield from (f"holds {name}, which is under Google's terms" for name in names if "270m/" in name)


def errors_of_sdist(path: Path) -> Iterator[str]:
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if path.name.startswith("gircse_search-"):
        yield from (f"lacks {name}" for name in SOURCES if name not in names)
    if not path.name.startswith("gircse_270m-"):
        yield from (f"holds {name}" for name in names if "gircse-270m/" in name and name.endswith(".safetensors"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of wheels and sdists")
    folder = parser.parse_args().folder
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    found = [f"{path.name} {error}" for path in wheels for error in errors_of_wheel(path)]
    found += [f"{path.name} {error}" for path in sdists for error in errors_of_sdist(path)]
    for kind in (wheels, sdists):
        names = {path.name.partition("-")[0].replace("_", "-") for path in kind}
        found += [f"{folder} lacks a distribution of {name}" for name in sorted(set(DISTRIBUTIONS) - names)]
    for error in found:
        print(error, file=sys.stderr)
    for path in (*wheels, *sdists):
        print(f"{path.stat().st_size / MB:6.1f} MB  {path.name}")
    return 1 if found else 0


if __name__ == "__main__":
    run_program(main)
